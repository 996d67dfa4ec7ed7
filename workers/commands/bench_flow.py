"""`ctreport bench flow`: what a study costs through the whole pipeline, and whether the database stays quick when it is large."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline import log
from workers.commands.answer import Json, answer
from workers.commands.bench_place import commit, machine
from workers.commands.bench_tables import show

OVERHEAD, EMBEDDED, MANY, TABLES = "overhead", "embedded", "many", "tables"
PARTS = (OVERHEAD, EMBEDDED, MANY, TABLES)
Only = Annotated[list[str] | None, typer.Option(help=f"measure only this part (repeat): {', '.join(PARTS)}; without: all but {MANY}")]
Short = Annotated[bool, typer.Option("--short", help="few studies and small tables: some minutes, rough figures")]
Many = Annotated[int, typer.Option("--studies", min=20, help=f"studies of the part {MANY}")]
Fill = Annotated[float, typer.Option("--fill-minutes", min=0.1, help="how long tables are filled")]
Work = Annotated[Path | None, typer.Option(help="where a temporary folder is made", exists=True, file_okay=False)]
From = Annotated[Path | None, typer.Option("--from", help="show an earlier result (--json FILE) and measure nothing", exists=True, dir_okay=False)]
Markdown = Annotated[bool, typer.Option("--markdown", help="print the tables as Markdown, as deploy/SCALING.md has them")]
SIZES, SHORT_SIZES = (12, 48, 96), (10, 20, 40)
Told = Callable[[float, str], None]


def flow(
    only: Only = None,
    short: Short = False,
    studies: Many = 1000,
    fill_minutes: Fill = 5.0,
    markdown: Markdown = False,
    earlier: From = None,
    work: Work = None,
    json_to: Json = None,
) -> None:
    """Studies per hour, and CPU time per study and per image of every process: of the pipeline alone (features and drafts are fakes), and with the
    packaged models; memory and connections over many studies; and what is asked of the database again and again, on a million studies.

    Exit 1 when a study costs more than 150 ms of CPU beside its images, or one of those questions takes 20 ms or reads a table from end to end.
    """
    from pipeline.evaluation.flow_table import markdown as as_markdown

    log.configure("ERROR")
    result = json.loads(earlier.read_text(encoding="utf-8")) if earlier else _measured(_parts(only), short, studies, fill_minutes, work)
    if json_to is not None:
        answer(result, json_to, "")
    if markdown:
        typer.echo(as_markdown(result))
    elif json_to != "-":
        _print(result)
    if not all(verdict["reached"] for verdict in result["targets"]):
        raise typer.Exit(1)


def _parts(only: Sequence[str] | None) -> tuple[str, ...]:
    for part in only or ():
        if part not in PARTS:
            raise typer.BadParameter(f"no part is called '{part}'; there are {', '.join(PARTS)}", param_hint="--only")
    return tuple(part for part in PARTS if (part in only if only else part != MANY))


def _measured(parts: Sequence[str], short: bool, studies: int, fill_minutes: float, work: Path | None) -> dict[str, Any]:
    from pipeline.evaluation.flow_rows import verdicts
    from pipeline.training.progress import Bar

    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ctreport-bench-", dir=work) as name, Bar("bench flow") as bar:
        folder = Path(name)
        folder.chmod(0o711)  # PostgreSQL may have to run as nobody
        place = {"machine": machine(folder), "date": datetime.now(UTC).isoformat(timespec="seconds"), "commit": commit()}
        for number, part in enumerate(parts):
            measured = MEASURES[part](folder, short, studies, fill_minutes, _share(bar.update, number, len(parts)))
            rows += measured["rows"]
            notes += measured["notes"]
    return place | {"rows": rows, "notes": notes, "targets": verdicts(rows)}


def _share(told: Told, number: int, parts: int) -> Told:
    return lambda done, words: told((number + done) / parts, words)


def _overhead(folder: Path, short: bool, studies: int, fill_minutes: float, told: Told) -> dict[str, Any]:
    from pipeline.evaluation.flow_rows import overhead_rows
    from workers.commands.bench_flow_run import overhead

    sizes, each, rounds = (SHORT_SIZES, 4, 1) if short else (SIZES, 12, 3)
    blocks, idle = overhead(folder, sizes, each, rounds, 10.0 if short else 30.0, told)
    return {"rows": overhead_rows("overhead", blocks, 1000 * sum(idle.values())), "notes": []}


def _embedded(folder: Path, short: bool, studies: int, fill_minutes: float, told: Told) -> dict[str, Any]:
    from pipeline.evaluation.flow_rows import overhead_rows
    from workers.commands.bench_flow_run import embedded

    blocks, idle = embedded(folder, 2 if short else 12, 10.0 if short else 30.0, told)
    return {"rows": overhead_rows("embedded", blocks, 1000 * sum(idle.values())), "notes": []}


def _many(folder: Path, short: bool, studies: int, fill_minutes: float, told: Told) -> dict[str, Any]:
    from pipeline.evaluation.flow_rows import memory_rows, overhead_rows
    from workers.commands.bench_flow_run import many

    block, samples = many(folder, studies, 10, told)
    return {"rows": [*overhead_rows("overhead", [block], 0.0)[:1], *memory_rows("overhead", samples)], "notes": []}


def _tables(folder: Path, short: bool, studies: int, fill_minutes: float, told: Told) -> dict[str, Any]:
    from workers.commands.bench_flow_tables import tables

    return tables(folder, 21_000 if short else 1_000_000, 60 * min(fill_minutes, 0.5 if short else fill_minutes), told)


MEASURES = {OVERHEAD: _overhead, EMBEDDED: _embedded, MANY: _many, TABLES: _tables}


def _print(result: Mapping[str, Any]) -> None:
    from pipeline.evaluation.flow_table import heading, tables

    show(heading(result), tables(result))
