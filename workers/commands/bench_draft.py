"""`ctreport bench draft`: what a draft costs in sections, decoding, sampling and words, and from DICOM to the row."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline import log
from pipeline.settings import settings
from workers.commands.answer import Json, answer
from workers.commands.bench_place import commit, machine
from workers.commands.bench_tables import EncoderWeights, FeatureFiles, From, Markdown, Work, show

if TYPE_CHECKING:
    from pipeline.drafting.generator import Generator
    from pipeline.drafting.served import ServedGenerator

FLOW = "flow"
PARTS = ("sections", "decode", "pareto", "terms", FLOW)
Only = Annotated[list[str] | None, typer.Option(help=f"measure only this part (repeat): {', '.join(PARTS)}")]
Picture = Annotated[Path | None, typer.Option(help="write the Pareto sweep as a PNG to this file", dir_okay=False)]
Short = Annotated[bool, typer.Option("--short", help="three scans, two draft lengths, short texts: some minutes, rough figures")]
N = Annotated[int | None, typer.Option("--n", min=1, help="scans; default: 20, short 3")]
Departments = Annotated[list[str] | None, typer.Option("--department", help="only this department (repeat); default: all three")]
Weights = Annotated[
    Path | None, typer.Option(help="checkpoint folder of the embedded engine; default: CTREPORT_DRAFT_WEIGHTS", exists=True, file_okay=False)
]


def draft(
    only: Only = None,
    short: Short = False,
    n: N = None,
    departments: Departments = None,
    weights: Weights = None,
    encoder_weights: EncoderWeights = None,
    features: FeatureFiles = None,
    work: Work = Path(".ctreport/bench-decode"),
    picture: Picture = None,
    markdown: Markdown = False,
    earlier: From = None,
    json_to: Json = None,
) -> None:
    """What a draft costs: each section and report in one call and in sections; decoding alone, one to 32 at a time; quality over draft length,
    temperature and top-p; words off the white list before and after they are asked for again; and end to end from DICOM to the row. MTP on and off
    in turn, plain decoding of the same engine is the peer.

    Draft servers of the settings (CTREPORT_SGLANG_…, CTREPORT_VLLM_…) take part. Exit 1 when a text differs from plain decoding, or a draft failed.
    """
    from pipeline.evaluation.draft_picture import draw_pareto
    from pipeline.evaluation.draft_table import markdown as as_markdown

    log.configure("ERROR")  # that drafts were shortened is a figure here
    parts = _parts(only or PARTS)
    plan = (parts, short, n, departments or [], weights, encoder_weights, features or [], work)
    result = json.loads(earlier.read_text(encoding="utf-8")) if earlier else _measured(*plan)
    if json_to is not None:
        answer(result, json_to, "")
    if picture is not None and not draw_pareto([row for row in result["rows"] if row["part"] == "pareto"], picture):
        typer.echo("no Pareto sweep was made: no picture is drawn", err=True)
    if markdown:
        typer.echo(as_markdown(result))
    elif json_to != "-":
        _print(result)
    wrong = [row for row in result["rows"] if row["part"] == "report" and (row["identical"] < row["compared"] or row["failed"])]
    if wrong:
        typer.echo(f"{len(wrong)} rows hold texts that differ from plain decoding, or drafts that failed", err=True)
        raise typer.Exit(1)


def _parts(asked: Sequence[str]) -> tuple[str, ...]:
    for part in asked:
        if part not in PARTS:
            raise typer.BadParameter(f"no part is called '{part}'; there are {', '.join(PARTS)}", param_hint="--only")
    return tuple(part for part in PARTS if part in asked)


def _measured(
    parts: Sequence[str],
    short: bool,
    n: int | None,
    departments: list[str],
    weights: Path | None,
    encoder: Path | None,
    features: list[Path],
    work: Path,
) -> dict[str, Any]:
    """Load, encode where needed and measure the parts one after the other."""
    from pipeline.drafting.departments import control_word
    from pipeline.drafting.embedded import EmbeddedDrafter
    from pipeline.encoder.compact import WEIGHTS as ENCODER
    from pipeline.engine.checkpoint import PACKAGED
    from pipeline.evaluation import draft_bench as bench
    from pipeline.evaluation.draft_ways import MAX_TOKENS
    from pipeline.training.progress import Bar

    for department in departments:
        control_word(department)
    plan = bench.Plan.short() if short else bench.Plan()
    plan = replace(plan, scans=n or plan.scans, departments=tuple(departments) or plan.departments)
    folder = weights or settings().draft.weights or PACKAGED
    work.mkdir(parents=True, exist_ok=True)
    place = {"machine": machine(work), "date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit(), "model": folder.name}
    with Bar("bench draft") as bar:
        scans = bench.scans(features, encoder or ENCODER, plan.scans, work, bar.update)
        engines = bench.Engines(EmbeddedDrafter(folder, None, MAX_TOKENS), folder, _served(), _wrapped)
        result = bench.measure([part for part in parts if part != FLOW], engines, scans, plan, bar.update)
        if FLOW in parts:
            from workers.commands.bench_draft_flow import measure as flow

            result["rows"] += flow(plan.flow_studies, work, bar.update)
    return place | result


def _served() -> dict[str, ServedGenerator]:
    """Every draft server of the settings, proved before it takes part. Raises ServiceUnavailable or ModelMissing with what is wrong."""
    if not settings().draft_servers:
        return {}
    from pipeline.drafting.serving import prove, served_generators
    from workers import wiring_drafts

    served = served_generators(wiring_drafts.serving())
    for name in served:
        prove(name, served, settings().served.max_gap)
    return served


def _wrapped(generator: Generator) -> Generator:
    """As a site asks it: with the schema in the prompt where that is set."""
    from pipeline.drafting.preface import SchemaInPrompt
    from pipeline.drafting.schemas import packaged

    return SchemaInPrompt(generator, lambda: packaged().whole) if settings().draft.schema_in_prompt else generator


def _print(result: Mapping[str, Any]) -> None:
    from pipeline.evaluation.draft_table import LEFT, heading, tables

    show(heading(result), tables(result), words=LEFT)
