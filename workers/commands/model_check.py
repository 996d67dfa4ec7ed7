"""`ctreport model check PATH`: what is wrong with a checkpoint folder, and the GPU memory that serving it takes; with --server URL whether a draft
server will work. Needs no stack and no GPU."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from workers.commands.answer import Json, answer
from workers.commands.model_server import Kind, check_server, digest, reference

if TYPE_CHECKING:
    from torch import Tensor

    from pipeline.engine.headers import Headers
    from pipeline.engine.memory import Need, Setup

model_app = typer.Typer(no_args_is_help=True, help="Checkpoints and the servers that serve them: check, digest, reference.")
model_app.command()(digest)
model_app.command()(reference)
UNITS = {"": 1, "B": 1, "MB": 10**6, "GB": 10**9, "MIB": 2**20, "GIB": 2**30}
WeightType = Literal["stored", "fp32", "bf16", "fp16", "fp8"]
CacheType = Literal["fp32", "bf16", "fp16", "fp8"]


def bytes_of(text: str) -> int:
    """`80GiB` → bytes; a unit that is none is wrong use."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].upper() not in UNITS:
        raise typer.BadParameter(f"'{text}' is no amount of memory; write it like 80GiB or 24GB")
    return int(float(found[1]) * UNITS[found[2].upper()])


@model_app.command()
def check(
    folder: Annotated[Path | None, typer.Argument(help="checkpoint folder", exists=True, file_okay=False)] = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="look at a draft server of the folder's checkpoint (default: CTREPORT_SERVED_MODEL)")
    ] = None,
    kind: Annotated[Kind, typer.Option(help="what the server runs; sglang-plain is SGLang without MTP")] = Kind.SGLANG,
    gpu_memory: Annotated[int | None, typer.Option(parser=bytes_of, metavar="SIZE", help="memory of one GPU, as 80GiB: says whether it fits")] = None,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs that share the weights")] = 1,
    context: Annotated[int | None, typer.Option(min=1, help="tokens of one text; default: 8192, or the model's longest")] = None,
    batch: Annotated[int, typer.Option(min=1, help="texts at the same time")] = 8,
    dtype: Annotated[WeightType, typer.Option(help="weights once they are loaded; float8 stays what it is")] = "stored",
    kv_dtype: Annotated[CacheType, typer.Option(help="cache")] = "bf16",
    served: Annotated[bool, typer.Option("--served", help="for SGLang and vLLM: without the limits of the embedded engine")] = False,
    headers_only: Annotated[bool, typer.Option("--headers-only", help="do not read the weights for NaN and infinite values")] = False,
    json_to: Json = None,
) -> None:
    """Name each problem of a checkpoint in one line, and the memory that a GPU set-up needs. Exit 1 when there is a problem or it does not fit."""
    if server is not None:
        check_server(server, kind, folder, json_to)
        return
    if folder is None:
        raise typer.BadParameter("give a checkpoint folder, or --server URL")
    from pipeline.engine.check import look, unsound
    from pipeline.engine.memory import Setup, misfits, need

    seen = look(folder, served=served)
    setup = Setup(gpus, gpu_memory, context or _longest(seen.raw), batch, dtype, kv_dtype)
    problems = [*seen.problems, *(() if headers_only else unsound(_with_bar(seen.headers))), *misfits(seen.raw, setup)]
    needed = need(seen.headers.tensors, seen.raw, setup)
    value = {"problems": problems, "use": seen.card.get("use"), "setup": asdict(setup), "memory": asdict(needed)}
    answer(value, json_to, "\n".join([*(f"✗ {problem}" for problem in problems), *_told(needed, setup, whole=not problems)]))
    if problems or needed.fits is False:
        sys.exit(1)


def _longest(raw: object) -> int:
    longest = raw.get("max_position_embeddings") if isinstance(raw, dict) else None
    return min(8192, longest) if isinstance(longest, int) and longest > 0 else 8192


def _with_bar(headers: Headers) -> Iterator[tuple[str, Tensor]]:
    """The stored values, one tensor at a time, with a bar on standard error."""
    from rich.console import Console
    from rich.progress import track

    from pipeline.engine.check import stored_values

    yield from track(stored_values(headers), "reading weights", len(headers.tensors), console=Console(stderr=True), transient=True)


def _told(needed: Need, setup: Setup, *, whole: bool) -> Iterator[str]:
    if whole:
        yield "✓ no problem found"
    yield f"weights {_size(needed.weights_bytes)} ({setup.weights}), MTP layer {_size(needed.mtp_bytes)}"
    if needed.cache_bytes_per_token is None or needed.cache_bytes is None or needed.per_gpu_bytes is None:
        yield "cache: config.json does not say how wide it is"
        return
    texts = f"{setup.batch} texts of {setup.context} tokens"
    yield f"cache {_size(needed.cache_bytes_per_token)} per token ({setup.cache}, MTP layer included): {_size(needed.cache_bytes)} for {texts}"
    yield f"each of {setup.gpus} GPUs needs {_size(needed.per_gpu_bytes)}: its share of the weights and the whole cache"
    if needed.usable_bytes is not None and setup.gpu_memory_bytes is not None:
        yield _verdict(needed, setup)


def _verdict(needed: Need, setup: Setup) -> str:
    """Whether it fits, and what would."""
    room = f"of {_size(setup.gpu_memory_bytes or 0)} a server may fill {_size(needed.usable_bytes or 0)}"
    if needed.fits:
        return f"✓ fits: {room}; {needed.batch_that_fits} texts of {setup.context} tokens would"
    other = f"{needed.gpus_needed} such GPUs would do" if needed.gpus_needed else "the cache alone is larger: choose a smaller context or batch"
    return f"✗ does not fit: {room}; {other}"


def _size(count: int) -> str:
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} B"
