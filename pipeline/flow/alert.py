"""Alert: a suspected critical finding until somebody who can act was told, or a doctor signs without, with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from pipeline import log, metrics
from pipeline.alerting import Acknowledgement, Alert, Escalated, Method
from pipeline.errors import BadInput, NotAllowed
from pipeline.ports import Store, Work

logger = log.get(__name__)
CLOCKS_APART = timedelta(minutes=2)
BEFORE_ARRIVAL = timedelta(hours=24)  # somebody at the scanner may have seen it before the images came
LONGEST_NAME, LONGEST_REASON = 100, 1000


@dataclass(frozen=True, slots=True)
class Told:
    """What a person says of telling somebody. `at` is when it was received; None: now."""

    told_by: str
    received_by: str
    method: str
    read_back: bool
    at: datetime | None = None


def opened(alerts: Sequence[UUID], study_id: UUID) -> None:
    """Count and log what a draft has just raised, after its transaction."""
    for alert_id in alerts:
        metrics.ALERTS_OPENED.inc()
        logger.warning("alert_opened", alert_id=str(alert_id), study_id=str(study_id))


def escalate(store: Store) -> tuple[Escalated, ...]:
    """Let every overdue alert climb to the level that its age calls for; each level is told once, however often this runs."""
    with store.begin() as work:
        climbed = work.alerts.escalate()
        for one in climbed:
            work.audit.append("alert_escalated", study_id=one.study_id, alert_id=str(one.id), level=str(one.level))
        waiting, overdue = work.alerts.counts()
    metrics.ALERTS.labels("open").set(waiting)
    metrics.ALERTS.labels("overdue").set(overdue)
    for one in climbed:
        metrics.ALERTS_ESCALATED.labels(str(one.level)).inc()
        logger.warning("alert_overdue", alert_id=str(one.id), study_id=str(one.study_id), rule=one.rule, level=one.level)
    return climbed


def acknowledge(store: Store, alert_id: UUID, told: Told, actor: str = "") -> Alert:
    """Note who told whom; returns the alert as it stands now. Raises BadInput for what cannot be, IllegalMove where that was noted before."""
    with store.begin() as work:
        alert = work.alerts.get(alert_id)
        done = acknowledgement(told, work.alerts.now(), work.alerts.received(alert.study_id))
        work.alerts.acknowledge(alert, done)
        audit = partial(work.audit.append, study_id=alert.study_id, actor=actor.strip() or done.told_by, alert_id=str(alert.id))
        audit("alert_acknowledged", before=alert.state.value, method=done.method.name.lower(), read_back=str(done.read_back).lower())
        return work.alerts.get(alert_id)


def acknowledgement(told: Told, now: datetime, received: datetime) -> Acknowledgement:
    """What was said, checked. `received` is when the study's first image came. Raises BadInput with what to say instead."""
    told_by, received_by = (_name(value, option) for value, option in ((told.told_by, "--told-by"), (told.received_by, "--received-by")))
    if told.method not in tuple(Method):
        raise BadInput(f"'{told.method}' is no way of telling somebody; give --method {', '.join(Method)}")
    method = Method(told.method)
    if method is Method.PHONE and not told.read_back:
        raise BadInput("what is told by telephone must be read back (复述); ask for it, then give --read-back")
    at = told.at or now
    if at.tzinfo is None:
        raise BadInput("the time of receipt has no time zone; write it as 2026-01-31T08:15:00+08:00")
    if at > now + CLOCKS_APART:
        raise BadInput(f"the time of receipt {at.isoformat()} lies in the future; give the time at which the finding was received")
    if at < received - BEFORE_ARRIVAL:
        raise BadInput(f"the time of receipt {at.isoformat()} lies more than a day before the study's first image; correct --at")
    return Acknowledgement(told_by, received_by, at, method, told.read_back)


def waive_open(work: Work, study_id: UUID, actor: str, reason: str) -> None:
    """Before a report is written or signed: without a reason no critical finding of its study may be open. Raises NotAllowed, or BadInput for a
    reason that is too long."""
    waiting = work.alerts.open_of(study_id)
    if not waiting:
        return
    if not reason.strip():
        ids = ", ".join(str(alert.id) for alert in waiting)
        raise NotAllowed(
            f"{len(waiting)} critical finding(s) of this study are open ({ids}): tell the clinician and note it with `ctreport alert ack`, "
            "or give a reason for signing without"
        )
    for alert in waiting:
        _waive(work, alert, actor, reason)


def dismiss(store: Store, alert_id: UUID, by: str, reason: str) -> Alert:
    """Close a false alarm, with a reason; returns the alert as it stands now. Raises BadInput, or IllegalMove for one that is closed already."""
    with store.begin() as work:
        alert = work.alerts.get(alert_id)
        if not reason.strip():
            raise BadInput("an alert is closed without telling anybody only with a reason; give --reason")
        _waive(work, alert, _name(by, "--by"), reason)
        return work.alerts.get(alert_id)


def _waive(work: Work, alert: Alert, actor: str, reason: str) -> None:
    """The reason stays with the alert; the trail, which holds no patient data, says only that one was given."""
    reason = reason.strip()
    if len(reason) > LONGEST_REASON:
        raise BadInput(f"the reason has {len(reason)} characters; give at most {LONGEST_REASON}")
    work.alerts.waive(alert, actor, reason)
    work.audit.append("alert_waived", study_id=alert.study_id, actor=actor, alert_id=str(alert.id), reason_characters=str(len(reason)))


def _name(value: str, option: str) -> str:
    name = value.strip()
    if not name or len(name) > LONGEST_NAME:
        raise BadInput(f"{option} must name a person, in at most {LONGEST_NAME} characters")
    return name
