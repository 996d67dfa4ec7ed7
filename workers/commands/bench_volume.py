"""`ctreport bench volume`: files of one series to a volume in memory, beside SimpleITK and dicom2nifti."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline import log
from workers.commands.answer import Json, answer
from workers.commands.bench_place import commit, machine

ROOT = Path(__file__).resolve().parents[2]
SOURCE = "chest_lidc_0314"
Short = Annotated[bool, typer.Option("--short", help="two rounds instead of five")]
Work = Annotated[Path | None, typer.Option(help="where a temporary folder is made (it takes a gigabyte)", exists=True, file_okay=False)]
Only = Annotated[list[str] | None, typer.Option(help="measure only this reader (repeat): ctreport, simpleitk, dicom2nifti")]
From = Annotated[Path | None, typer.Option("--from", help="show an earlier result (--json FILE) and measure nothing", exists=True, dir_okay=False)]
Markdown = Annotated[bool, typer.Option("--markdown", help="print the tables as Markdown, as the README has them")]


def volume(
    short: Short = False, json_to: Json = None, markdown: Markdown = False, only: Only = None, earlier: From = None, work: Work = None
) -> None:
    """275 CT slices to one volume: ours against SimpleITK's series reader and dicom2nifti, native and JPEG 2000 lossless, in turn.

    Exit 1 when our reader fails or its voxels are not SimpleITK's.
    """
    from pipeline.evaluation.volume_readers import OURS
    from pipeline.evaluation.volume_rows import markdown as as_markdown

    log.configure("WARNING")
    result = json.loads(earlier.read_text(encoding="utf-8")) if earlier else _measure(short, only or [], work)
    if json_to is not None:
        answer(result, json_to, "")
    if markdown:
        typer.echo(as_markdown(result))
    elif json_to != "-":
        _print(result)
    if any(row.get("failed") or row["identical"] is False for row in result["rows"] if row["what"] == OURS):
        raise typer.Exit(1)


def _measure(short: bool, only: Sequence[str], work: Path | None) -> dict[str, Any]:
    from pipeline.evaluation.volume_readers import READERS
    from pipeline.evaluation.volume_run import ROUNDS, SHORT_ROUNDS

    for what in only:
        if what not in READERS:
            raise typer.BadParameter(f"no reader is called '{what}'; there are {', '.join(READERS)}", param_hint="--only")
    for what, reader in READERS.items():
        if (not only or what in only) and (message := reader.absent()):
            typer.echo(f"left out: {message}", err=True)
    with tempfile.TemporaryDirectory(prefix="ctreport-bench-", dir=work) as name:
        return measured(Path(name), only or tuple(READERS), SHORT_ROUNDS if short else ROUNDS)


def measured(folder: Path, only: Sequence[str], rounds: int, slices: int | None = None) -> dict[str, Any]:
    """Make the series below `folder` and measure; machine, date, commit, versions, source, rows, targets."""
    from pipeline.evaluation import volume_run
    from pipeline.evaluation.volume_files import SLICES
    from pipeline.evaluation.volume_readers import versions
    from pipeline.evaluation.volume_rows import rows, verdicts
    from pipeline.training.progress import Bar

    date, place = datetime.now(UTC).isoformat(timespec="seconds"), machine(folder)
    with Bar("bench volume") as bar:
        series, source = volume_run.prepared(test_data(), folder, bar.update, slices or SLICES)
        taken = rows(list(volume_run.run(series, volume_run.in_order(only), rounds, folder / "kept", bar.update)))
    return {
        "machine": place,
        "date": date,
        "commit": commit(),
        "versions": versions(),
        "source": f"series made from {source}",
        "rows": taken,
        "targets": verdicts(taken),
    }


def test_data() -> Path | None:
    """Folder of the real chest slices (below CTREPORT_TEST_DATA, else ../shared/data beside the checkout); None where it is not there."""
    folder = Path(os.environ.get("CTREPORT_TEST_DATA") or ROOT.parent / "shared" / "data") / SOURCE
    return folder if folder.is_dir() else None


def _print(result: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from pipeline.evaluation.volume_rows import ASKED, HEAD, cells, verdict_cells

    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(f"{result['machine']}, {result['date']}, commit {result['commit'] or 'unknown'}\n{result['versions']}; {result['source']}")
    for head, body in ((HEAD, [cells(row) for row in result["rows"]]), (ASKED, verdict_cells(result["targets"]))):
        table = Table()
        for number, name in enumerate(head):
            table.add_column(name, justify="left" if number < 2 else "right")
        for line in body:
            table.add_row(*line)
        console.print(table)
    for row in result["rows"]:
        for reason in row.get("failed", ()):
            console.print(f"void: {row['what']}, {row['series']}: {reason}", style="red")
