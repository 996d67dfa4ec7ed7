"""`ctreport bench`: how fast, beside others, in one run on this machine."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline import log
from pipeline.errors import Permanent
from workers import wiring
from workers.commands.answer import Json, answer
from workers.commands.bench_decode import decode
from workers.commands.bench_draft import draft
from workers.commands.bench_flow import flow
from workers.commands.bench_learned import denoise, sides
from workers.commands.bench_place import commit, machine, memory_bytes
from workers.commands.bench_rules import rules
from workers.commands.bench_volume import volume

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from pipeline.evaluation.receive_load import Load
    from pipeline.evaluation.receive_peers import Contender

app = typer.Typer(no_args_is_help=True, help="Measure beside others; ratios of one run count, absolute times are this machine's.")
Short = Annotated[bool, typer.Option("--short", help="two or three minutes: small objects, 1 and 4 associations")]
Work = Annotated[Path | None, typer.Option(help="where a temporary folder is made: the disk that is measured", exists=True, file_okay=False)]
Only = Annotated[list[str] | None, typer.Option(help="measure only this contender (repeat); 'ctreport' means the default configuration")]
Objects = Annotated[list[str] | None, typer.Option("--object", help="only loads of these objects: small, large or 1GB (repeat)")]
Numbers = Annotated[list[int] | None, typer.Option("--associations", help="only loads with so many associations: 1, 4 or 8 (repeat)")]
From = Annotated[Path | None, typer.Option("--from", help="show an earlier result (--json FILE) and measure nothing", exists=True, dir_okay=False)]
Markdown = Annotated[bool, typer.Option("--markdown", help="print the tables as Markdown, as the README has them")]


app.command()(volume)
app.command()(rules)
app.command()(decode)
app.command()(draft)
app.command()(flow)
app.command()(denoise)
app.command()(sides)


@app.command()
def receive(
    short: Short = False,
    json_to: Json = None,
    markdown: Markdown = False,
    only: Only = None,
    objects: Objects = None,
    associations: Numbers = None,
    earlier: From = None,
    work: Work = None,
) -> None:
    """C-STORE: ours against DCMTK storescp and Orthanc, with the same storescu and files, in turn.

    CTREPORT_LISTENER_… settings of the environment hold for our listener. Exit 1 when one of ours lost an image or failed.
    """
    from pipeline.evaluation.receive_table import markdown as as_markdown

    log.configure("WARNING")
    result = json.loads(earlier.read_text(encoding="utf-8")) if earlier else _measure(_planned(short, objects, associations), only or [], work)
    if json_to is not None:
        answer(result, json_to, "")
    if markdown:
        typer.echo(as_markdown(result))
    elif json_to != "-":
        _print(result)
    if any(row.get("failed") for row in result["rows"] if row["what"].startswith("ctreport")):
        raise typer.Exit(1)


def _planned(short: bool, objects: Sequence[str] | None, associations: Sequence[int] | None) -> list[Load]:
    """The loads that were asked for and that this machine's memory can bear; the others are named on standard error."""
    from pipeline.evaluation import receive as bench

    memory, every = memory_bytes(), bench.loads(short)
    kinds, numbers = objects or {load.object for load in every}, associations or {load.associations for load in every}
    asked = [load for load in every if load.object in kinds and load.associations in numbers]
    for load in asked:
        if bench.too_large(load, memory):
            typer.echo(f"left out: {load}: this machine has {memory >> 20} MiB of memory available", err=True)
    planned = [load for load in asked if not bench.too_large(load, memory)]
    if not planned:
        raise typer.BadParameter("no load fits --short, --object and --associations; leave one of them out")
    return planned


def _measure(planned: Sequence[Load], only: Sequence[str], work: Path | None) -> dict[str, Any]:
    from pipeline.evaluation.receive_load import absent

    if message := absent():
        raise Permanent(message)
    with _stack_of_listeners(work) as (folder, ours):
        return measured(planned, ours, folder, only)


def measured(loads: Sequence[Load], ours: Sequence[Contender], folder: Path, only: Sequence[str] = ()) -> dict[str, Any]:
    """Measure loads (`Load`) with our contenders and the peers that are installed; machine, date, commit, rows, targets."""
    from pipeline.evaluation import receive as bench
    from pipeline.evaluation.receive_peers import Net, peers, versions
    from pipeline.evaluation.receive_rows import rows
    from pipeline.evaluation.receive_targets import verdicts
    from pipeline.training.progress import Bar
    from workers.embedded.ports import free_port, is_listening

    net = Net(free_port, is_listening)
    present = [_present(group, only) for group in (ours, peers(net, True), peers(net, False))]
    date, place = datetime.now(UTC).isoformat(timespec="seconds"), machine(folder)
    with Bar("bench receive") as bar:
        taken = rows(list(bench.run(bench.trials(loads, *present), folder, bar.update)))
    return {
        "machine": place,
        "date": date,
        "commit": commit(),
        "versions": versions(),
        "rows": taken,
        "targets": verdicts(taken),
    }


def _present(group: Sequence[Contender], only: Sequence[str]) -> list[Contender]:
    """Who can take part and is asked to; the others are named on standard error, once."""
    wanted = [one for one in group if not only or one.what in only]
    for one in wanted:
        if (message := one.absent()) and one.receiver_tcp_nodelay is not False:
            typer.echo(f"left out: {message}", err=True)
    return [one for one in wanted if not one.absent()]


@contextlib.contextmanager
def _stack_of_listeners(work: Path | None) -> Iterator[tuple[Path, list[Contender]]]:
    """PostgreSQL and Valkey as `ctreport up` starts them, in a folder that is gone afterwards; no process of ours yet."""
    from workers.commands.bench_listener import contenders
    from workers.local import Stack

    with tempfile.TemporaryDirectory(prefix="ctreport-bench-", dir=work) as name:
        folder = Path(name)
        folder.chmod(0o711)  # PostgreSQL may have to run as nobody
        stack = Stack(folder / "stack", migrate=wiring.migrate, specs=lambda info: [], ports={"listener": 0, "web": 0})
        with stack:
            yield folder, contenders(stack.info)


def _print(result: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from pipeline.evaluation.receive_table import ASKED, HEAD, tables, verdict_cells

    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(f"{result['machine']}, {result['date']}, commit {result['commit'] or 'unknown'}\n{result['versions']}")
    for title, body in tables(result["rows"]):
        _add(console, Table(title=title, title_justify="left"), HEAD, body)
    _add(console, Table(title="asked and reached", title_justify="left"), ASKED, verdict_cells(result["targets"]))
    for row in result["rows"]:
        for reason in row.get("failed", ()):
            console.print(f"void: {row['what']}, {row['object']}, {row['associations']} associations: {reason}", style="red")


def _add(console: Console, table: Table, head: Sequence[str], body: Sequence[Sequence[str]]) -> None:
    for number, name in enumerate(head):
        table.add_column(name, justify="left" if number < 2 else "right")
    for line in body:
        table.add_row(*line)
    console.print(table)
