"""`ctreport bench decode`: several tokens per step against one, the same texts in one run, and transformers beside them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline import log
from workers.commands.answer import Json, answer
from workers.commands.bench_place import commit, machine
from workers.commands.bench_tables import EncoderWeights, FeatureFiles, From, Markdown, Work, show

Short = Annotated[bool, typer.Option("--short", help="a few texts: a minute or two, rough figures")]
N = Annotated[int | None, typer.Option("--n", min=1, help="texts; default: 40, short 5")]
Weights = Annotated[Path | None, typer.Option(help="checkpoint folder of the language model; default: the package", exists=True, file_okay=False)]


def decode(
    short: Short = False,
    n: N = None,
    weights: Weights = None,
    encoder_weights: EncoderWeights = None,
    features: FeatureFiles = None,
    work: Work = Path(".ctreport/bench-decode"),
    markdown: Markdown = False,
    earlier: From = None,
    json_to: Json = None,
) -> None:
    """Whole reports of held-out phantoms: plain, MTP at each draft length, lookup, the default policy and transformers, in turn within each text.

    Then batches of 1, 4 and 8, the steadiness of mixed batches, and beam search. One thread, float32. Exit 1 when a text of ours differs from the
    plain one.
    """
    from pipeline.evaluation.decode_table import markdown as as_markdown
    from pipeline.evaluation.decode_targets import differing

    log.configure("ERROR")  # that drafts were shortened is a figure here
    result = json.loads(earlier.read_text(encoding="utf-8")) if earlier else _measured(short, n, weights, encoder_weights, features or [], work)
    if json_to is not None:
        answer(result, json_to, "")
    if markdown:
        typer.echo(as_markdown(result))
    elif json_to != "-":
        _print(result)
    if count := differing(result["rows"]):
        typer.echo(f"{count} texts differ from plain decoding", err=True)
        raise typer.Exit(1)


def _measured(short: bool, n: int | None, weights: Path | None, encoder: Path | None, features: list[Path], work: Path) -> dict[str, Any]:
    """Load, encode where needed and measure: machine, date, commit and the figures."""
    from pipeline.encoder.compact import WEIGHTS as ENCODER
    from pipeline.engine.checkpoint import PACKAGED
    from pipeline.engine.generate import Engine
    from pipeline.evaluation.decode_bench import Plan, measure
    from pipeline.evaluation.decode_texts import from_files, held_out
    from pipeline.training.progress import Bar

    folder, plan = weights or PACKAGED, Plan.short() if short else Plan()
    plan = plan if n is None else plan.of(n)
    engine = Engine.load(folder)
    with Bar("bench decode") as bar:
        cases = from_files(features[: n or len(features)]) if features else held_out(encoder or ENCODER, plan.texts, work, bar.update)
        place = {"machine": machine(work), "date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}
        return place | measure(engine, folder, cases, plan, bar.update)


def _print(result: Mapping[str, Any]) -> None:
    from pipeline.evaluation.decode_table import heading, tables

    show(heading(result), tables(result))
