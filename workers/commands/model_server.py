"""`ctreport model check --server URL`, `model digest` and `model reference`: whether a draft server will work, and what it is compared with."""

from __future__ import annotations

import enum
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workers.commands.answer import Json, answer

if TYPE_CHECKING:
    from pipeline.drafting.selfcheck import Checkup, Line
    from pipeline.drafting.serving import Serving

MARKS: Mapping[bool | None, str] = {True: "✓", False: "✗", None: "·"}
Folder = Annotated[Path, typer.Argument(help="checkpoint folder", exists=True, file_okay=False)]


class Kind(enum.StrEnum):
    """What a draft server runs, by the name of its rung."""

    SGLANG = "sglang"
    SGLANG_TEXT = "sglang-text"
    SGLANG_PLAIN = "sglang-plain"
    VLLM = "vllm"


def check_server(url: str, kind: Kind, folder: Path | None, json_to: str | None) -> None:
    """The self-check of one server on one screen. Keys and times come from the settings. Exit 1 when it may not draft."""
    from pipeline.drafting.selfcheck import Checkup
    from pipeline.drafting.serving import at, checkup, served_generators
    from pipeline.errors import ModelMissing, ServiceUnavailable

    found = Checkup()
    try:
        serving = at(_serving(folder), kind, url)
        found = checkup(kind, served_generators(serving), serving.served.max_gap)
    except (ServiceUnavailable, ModelMissing) as error:
        found.say(False, str(error))
    verdict = "✓ it may draft" if found.refusal is None else "✗ it may not draft"
    answer(_value(found), json_to, "\n".join([*(_shown(line) for line in found.lines), verdict]))
    if found.refusal is not None:
        sys.exit(1)


def digest(folder: Folder, json_to: Json = None) -> None:
    """Print the digest of a checkpoint's config, tokenizer and weights: what a draft server is started with (--weight-version)."""
    from pipeline.engine.checkpoint import digest as digest_of
    from pipeline.errors import ModelMissing

    try:
        found = digest_of(folder)
    except OSError as error:
        raise ModelMissing(f"'{error.filename and Path(error.filename).name}' in '{folder.name}' cannot be read; copy the checkpoint again") from None
    answer({"digest": found}, json_to, found)


def reference(folder: Folder, json_to: Json = None) -> None:
    """Let the embedded engine write the self-check's answers and keep them beside the checkpoint, for draft servers to be compared with."""
    from pipeline.drafting.reference import make, write

    made = make(folder)
    path = write(folder, made)
    answer({"file": str(path), "digest": made.digest, "tokens": [len(ids) for ids in made.ids]}, json_to, f"{path}: {made.digest}")


def _serving(folder: Path | None) -> Serving:
    """What is configured, for the checkpoint of another folder where one is given."""
    from workers import wiring_drafts

    serving = wiring_drafts.serving()
    if folder is None:
        return serving
    return replace(serving, folder=folder, served=serving.served.model_copy(update={"digest": None}))


def _shown(line: Line) -> str:
    return f"{MARKS[line.ok]} {line.text}"


def _value(found: Checkup) -> dict[str, Any]:
    info = found.info
    told = {} if info is None else {"server": info.server, "dtype": info.dtype, "k": info.k, "speculation": info.speculation, "digest": info.digest}
    lines = [{"ok": line.ok, "text": line.text} for line in found.lines]
    return {"may_draft": found.refusal is None, "reason": found.refusal, **told, "differences": found.differences, "lines": lines}
