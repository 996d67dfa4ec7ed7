"""Barring what a newer revision or a withdrawal takes out of use: jobs, unsigned reports, deliveries that have not left."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

from sqlalchemy import func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from pipeline.model import JobState, ReportState, StudyState
from pipeline.store.tables import DeliveryRow, DeliveryState, DraftRow, JobRow, ReportRow, StudyRow

OPEN_REPORTS = (ReportState.WAITING, ReportState.REVIEWING, ReportState.WRITTEN)
WITHDRAWAL = "withdrawal"


def withdraw(session: Session, row: StudyRow, reason: str, reports: Sequence[ReportState] = OPEN_REPORTS) -> None:
    """A locked study → withdrawn: jobs superseded, unsigned reports rejected, deliveries stopped, and a notice to everybody who has a draft or
    asked for one. Raises IllegalMove."""
    row.state = StudyState(row.state).move(StudyState.WITHDRAWN).value
    row.reason, row.attempts, row.due_at = reason, 0, func.now()
    row.lease_owner = row.lease_until = None
    session.flush()
    _give_notice(session, row.id)
    bar(session, row.id, reports, reason, every_delivery=True)


def bar(session: Session, study_id: UUID, reports: Sequence[ReportState], reason: str, *, every_delivery: bool) -> None:
    """Supersede the study's jobs (whoever works on one finds its lease lost), reject its reports in the given states, and stop deliveries:
    every one that waits, or only those of rejected reports. Notices of a withdrawal always leave."""
    live = select(JobRow).where(JobRow.study_id == study_id, JobRow.state != JobState.SUPERSEDED.value).with_for_update()
    for job in session.scalars(live, execution_options={"populate_existing": True}).all():
        job.state = JobState(job.state).move(JobState.SUPERSEDED).value
        job.lease_owner = job.lease_until = None
    unsigned = select(ReportRow).where(ReportRow.study_id == study_id, ReportRow.state.in_([state.value for state in reports])).with_for_update()
    for report in session.scalars(unsigned, execution_options={"populate_existing": True}).all():
        report.state = ReportState(report.state).move(ReportState.REJECTED).value
    session.flush()
    waiting = (DeliveryRow.study_id == study_id) & (DeliveryRow.state == DeliveryState.WAITING.value) & (DeliveryRow.kind != WITHDRAWAL)
    if not every_delivery:
        waiting &= DeliveryRow.draft_id.in_(select(ReportRow.draft_id).where(ReportRow.state == ReportState.REJECTED.value))
    stopped = {"state": DeliveryState.FAILED.value, "reason": reason, "lease_owner": None, "lease_until": None}
    session.execute(update(DeliveryRow).where(waiting).values(**stopped), execution_options={"synchronize_session": False})


def _give_notice(session: Session, study_id: UUID) -> None:
    """One withdrawal notice (waiting) for each draft that readers see now, and for each target that was handed a draft or waits for one."""
    asked = select(DeliveryRow.draft_id, DeliveryRow.target).where(
        DeliveryRow.study_id == study_id,
        DeliveryRow.kind != WITHDRAWAL,
        or_(DeliveryRow.state == DeliveryState.DONE.value, DeliveryRow.state == DeliveryState.WAITING.value),
    )
    told = {(draft_id, target) for draft_id, target in session.execute(asked)}
    shown = select(DraftRow.id).join(JobRow, JobRow.id == DraftRow.job_id)
    shown = shown.where(JobRow.study_id == study_id, JobRow.state == JobState.DRAFTED.value)
    told |= {(draft_id, "") for draft_id in session.scalars(shown)}
    values = {"study_id": study_id, "kind": WITHDRAWAL}
    if told:
        rows = [{"id": uuid4(), "draft_id": draft_id, "target": target, **values} for draft_id, target in sorted(told)]
        session.execute(insert(DeliveryRow).values(rows).on_conflict_do_nothing())
