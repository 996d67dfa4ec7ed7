"""Commands about critical findings: which are open, and that somebody was told."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from pipeline.errors import BadInput
from workers import wiring
from workers.commands.answer import Data, Json, answer

if TYPE_CHECKING:
    from pipeline.alerting import Alert

alert_app = typer.Typer(no_args_is_help=True, help="Suspected critical findings (危急值): who was told, when and how.")


@alert_app.command("list")
def list_(
    every: Annotated[bool, typer.Option("--all", help="closed ones too")] = False,
    overdue: Annotated[bool, typer.Option("--overdue", help="only those that are overdue")] = False,
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Open alerts, the most urgent first; exit 1 when one is overdue."""
    with wiring.store().begin() as work:
        found = work.alerts.listed(every=every, overdue=overdue)
    late = sum(one.overdue_s > 0 for one in found)
    lines = list(map(_line, found)) or ["no alert is open"]
    answer({"alerts": list(map(told, found)), "overdue": late}, json_to, "\n".join(lines))
    raise typer.Exit(1 if late else 0)


@alert_app.command()
def ack(
    alert_id: Annotated[str, typer.Argument(metavar="ID")],
    told_by: Annotated[str, typer.Option(help="who told it")],
    received_by: Annotated[str, typer.Option(help="who was told")],
    method: Annotated[str, typer.Option(help="电话, 当面 or 系统")],
    at: Annotated[
        str | None, typer.Option(help="when it was received, as 2026-01-31T08:15 (this machine's time zone unless one is given); now")
    ] = None,
    read_back: Annotated[bool, typer.Option("--read-back/--no-read-back", help="it was read back (复述); 电话 asks for it")] = False,
    by: Annotated[str, typer.Option(help="who notes it, where that is somebody else")] = "",
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Note that the clinician was told of a critical finding."""
    from pipeline.flow.alert import Told, acknowledge

    alert = acknowledge(wiring.store(), _id(alert_id), Told(told_by, received_by, method, read_back, _time(at)), by)
    answer(told(alert), json_to, _line(alert))


@alert_app.command()
def dismiss(
    alert_id: Annotated[str, typer.Argument(metavar="ID")],
    by: Annotated[str, typer.Option(help="who says that it is a false alarm")],
    reason: Annotated[str, typer.Option(help="why nobody needs to be told; stays with the alert")],
    data: Data = None,
    json_to: Json = None,
) -> None:
    """Close a false alarm, with a reason."""
    from pipeline.flow.alert import dismiss as close

    alert = close(wiring.store(), _id(alert_id), by, reason)
    answer(told(alert), json_to, _line(alert))


def told(alert: Alert) -> dict[str, object]:
    """One alert as JSON."""
    return {
        "id": str(alert.id),
        "study": str(alert.study_id),
        "revision": alert.revision,
        "draft": str(alert.draft_id),
        "rule": alert.rule,
        "finding": alert.finding,
        "severity": alert.severity,
        "suspected": True,
        "certain": alert.certain,
        "state": alert.state.value,
        "seen_at": alert.seen_at.isoformat(),
        "due_at": alert.due_at.isoformat(),
        "overdue_s": round(alert.overdue_s, 1),
        "level": alert.level,
        "told_by": alert.told_by,
        "received_by": alert.received_by,
        "received_at": alert.received_at.isoformat() if alert.received_at else None,
        "method": alert.method,
        "read_back": alert.read_back,
        "waived_by": alert.waived_by,
        "waived_reason": alert.waived_reason,
    }


def _line(alert: Alert) -> str:
    """`overdue by 12 min (level 2)` is what a person looks for first."""
    standing = alert.state.value
    if alert.overdue_s > 0:
        standing = f"OVERDUE by {alert.overdue_s / 60:.0f} min, level {alert.level}"
    doubt = "" if alert.certain else "（草稿自身不确定）"
    received = f"; {alert.told_by} → {alert.received_by}, {alert.method}, {alert.received_at:%Y-%m-%d %H:%M}" if alert.received_at else ""
    return f"{alert.id}  {alert.severity:<9}  疑似{alert.finding}{doubt}  seen {alert.seen_at:%Y-%m-%d %H:%M:%S}  {standing}{received}"


def _id(given: str) -> UUID:
    try:
        return UUID(given)
    except ValueError:
        raise BadInput(f"'{given}' is no alert id; `ctreport alert list` shows them") from None


def _time(given: str | None) -> datetime | None:
    """Without a zone it is this machine's. Raises BadInput."""
    if given is None:
        return None
    try:
        return datetime.fromisoformat(given).astimezone()
    except ValueError:
        raise BadInput(f"--at '{given}' is no time, such as 2026-01-31T08:15") from None
