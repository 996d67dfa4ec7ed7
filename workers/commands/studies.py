"""Commands about studies: send, status, why, show, verify, and the operator's moves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from pipeline.settings import settings
from workers import wiring
from workers.commands.answer import Data, Department, Json, answer

if TYPE_CHECKING:
    from pipeline.dicom.send import SendResult

app = typer.Typer()
STATUS_COLUMNS = ("study_uid", "state", "step", "revision", "images", "seconds", "reason")
Study = Annotated[str, typer.Argument(help="StudyInstanceUID or internal id")]


@app.command()
def send(
    paths: Annotated[list[Path], typer.Argument(help="files or folders", exists=True)],
    host: str = "127.0.0.1",
    port: int | None = None,
    aet: str | None = None,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """C-STORE files or folders with a progress bar; exit 1 when any was not accepted."""
    result = send_with_bar(paths, host, port or listener_port(), aet or settings().listener.aet)
    lines = [f"{failure.file}: {failure.status} {failure.comment}" for failure in result.failed]
    text = f"sent {result.sent}, succeeded {result.succeeded}, warned {result.warned}, failed {len(result.failed)}"
    answer(result.as_json(), json_to, "\n".join([text, *lines]))
    raise typer.Exit(1 if result.failed else 0)


@app.command()
def status(study: Annotated[str | None, typer.Argument()] = None, data: Data = None, json_to: Json = None) -> None:
    """Each study: its state, its step, how long, and why it waits."""
    from pipeline.store import guesses, queries

    rows = queries.study_overview(wiring.store(), study)
    unread = [] if study else queries.quarantined(wiring.store())
    guessed = 0 if study else guesses.waiting(wiring.store())
    if json_to is not None:
        answer({"studies": rows, "quarantined": unread, "guesses": guessed}, json_to, "")
        return
    table = Table(*(Column(name, overflow="fold", no_wrap=name in ("state", "step", "images", "seconds")) for name in STATUS_COLUMNS))
    for row in rows:
        table.add_row(*(f"{row[c]:.1f}" if c == "seconds" else str(row[c] if row[c] is not None else "") for c in STATUS_COLUMNS))
    Console().print(table if rows else "no studies yet", soft_wrap=not rows)
    for one in unread:
        typer.echo(f"quarantined {one['at']:%Y-%m-%d %H:%M:%S}: {one['reason']} ({one['path']})")
    if guessed:
        typer.echo(f"{guessed} names or texts are guesses of their character set; `ctreport identity --guesses` lists them")


@app.command()
def why(study: Study, data: Data = None, json_to: Json = None) -> None:
    """Every event of one study with its time, what it waits for, and which of its series is read and why."""
    from pipeline.export.markdown import series_markdown
    from pipeline.store import queries
    from pipeline.store import story as stories

    events, waits = stories.story(wiring.store(), study), stories.next_step(wiring.store(), study)
    series = queries.series_read(wiring.store(), study)
    lines = [f"{event['at']:%Y-%m-%d %H:%M:%S}  {event['action']:<12} {event['detail']}" for event in events]
    lines += [line for line in (stories.told(waits), series_markdown(series) if series else "") if line]
    answer({"events": events, "waits": waits, "series": series}, json_to, "\n".join(lines))


@app.command()
def show(study: Study, department: Department = None, data: Data = None, json_to: Json = None) -> None:
    """The current draft of one study as Markdown, or as JSON; without --department that of the site's own."""
    from pipeline.export.markdown import draft_markdown
    from pipeline.store import queries

    shown = queries.show(wiring.store(), study, department, settings().draft.department)
    answer(shown, json_to, draft_markdown(shown))


@app.command()
def verify(data: Data = None, json_to: Json = None) -> None:
    """Compare ledger, database and archive; exit 1 and every difference named when they disagree."""
    from workers.health import verify_all

    report = verify_all(wiring.store(), settings().archive_root / "ledger")
    answer(report.as_json(), json_to, report.summary())
    raise typer.Exit(0 if report.clean else 1)


def _operate(move: str, study: str, json_to: str | None) -> None:
    from pipeline.store import operator

    before, after = getattr(operator, move)(wiring.store(), study)
    answer({"study_uid": study, "before": before, "after": after}, json_to, f"{before} → {after}")
    wiring.ring_all()


@app.command()
def retry(study: Study, data: Data = None, json_to: Json = None) -> None:
    """Start a failed or unsupported job again."""
    _operate("retry", study, json_to)


@app.command()
def hold(study: Study, data: Data = None, json_to: Json = None) -> None:
    """Keep a study from being worked on."""
    _operate("hold", study, json_to)


@app.command()
def release(study: Study, data: Data = None, json_to: Json = None) -> None:
    """Let a held study go on."""
    _operate("release", study, json_to)


@app.command()
def rerun(study: Study, data: Data = None, json_to: Json = None) -> None:
    """Assemble a study again as a new revision, also when nothing changed."""
    _operate("rerun", study, json_to)


@app.command()
def withdraw(study: Study, data: Data = None, json_to: Json = None) -> None:
    """Take a study back for good; its draft is barred."""
    _operate("withdraw", study, json_to)


def listener_port() -> int:
    """Port of the embedded stack's listener where one runs, else the setting."""
    from workers.local import read_stack

    stack = read_stack(settings().site.data)
    return stack.ports["listener"] if stack else settings().listener.port


def send_with_bar(paths: list[Path], host: str, port: int, aet: str) -> SendResult:
    """Send with a bar on standard error."""
    from pipeline.dicom.send import send as c_store

    columns = (TextColumn("收图 C-STORE"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("send", total=None)
        return c_store(paths, host, port, aet, lambda done, total: bar.update(task, completed=done, total=total))
