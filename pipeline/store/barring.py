"""Barring what a newer revision or a withdrawal takes out of use: jobs, unsigned reports, deliveries that have not left."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from pipeline.model import JobState, ReportState
from pipeline.store.tables import DeliveryRow, DeliveryState, JobRow, ReportRow


def bar(session: Session, study_id: UUID, reports: Sequence[ReportState], reason: str, *, every_delivery: bool) -> None:
    """Supersede the study's jobs (whoever works on one finds its lease lost), reject its reports in the given states, and stop deliveries:
    every one that waits, or only those of rejected reports."""
    live = select(JobRow).where(JobRow.study_id == study_id, JobRow.state != JobState.SUPERSEDED.value).with_for_update()
    for job in session.scalars(live, execution_options={"populate_existing": True}).all():
        job.state = JobState(job.state).move(JobState.SUPERSEDED).value
        job.lease_owner = job.lease_until = None
    unsigned = select(ReportRow).where(ReportRow.study_id == study_id, ReportRow.state.in_([state.value for state in reports])).with_for_update()
    for report in session.scalars(unsigned, execution_options={"populate_existing": True}).all():
        report.state = ReportState(report.state).move(ReportState.REJECTED).value
    session.flush()
    waiting = (DeliveryRow.study_id == study_id) & (DeliveryRow.state == DeliveryState.WAITING.value)
    if not every_delivery:
        waiting &= DeliveryRow.draft_id.in_(select(ReportRow.draft_id).where(ReportRow.state == ReportState.REJECTED.value))
    stopped = {"state": DeliveryState.FAILED.value, "reason": reason, "lease_owner": None, "lease_until": None}
    session.execute(update(DeliveryRow).where(waiting).values(**stopped), execution_options={"synchronize_session": False})
