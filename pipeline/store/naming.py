"""How a study is named and where it stands, as both the commands and the requests for drafts see it."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import ColumnElement

from pipeline.model import JobState, ReportState, StudyState
from pipeline.store.repository import plain
from pipeline.store.tables import JobRow, StudyRow

STEPS = {
    JobState.READY: "encode",
    JobState.ENCODING: "encode",
    JobState.ENCODED: "draft",
    JobState.DRAFTING: "draft",
    JobState.DRAFTED: "persist",
}
TOUCHED = [state.value for state in ReportState if state not in (ReportState.WAITING, ReportState.REJECTED)]
ARRIVED = (StudyState.COMPLETE, StudyState.PARTIAL)


def which(study: str) -> ColumnElement[bool]:
    """The study that a person names by StudyInstanceUID or internal id."""
    try:
        return StudyRow.id == UUID(study)
    except ValueError:
        return StudyRow.study_uid == plain(study)


def step_of(study: StudyRow, job: JobRow | None) -> str | None:
    """The step that a study is in or waits for; None where no step will take it."""
    if study.state == StudyState.RECEIVING:
        return "assemble" if study.lease_owner else "receive"
    return STEPS.get(JobState(job.state)) if job is not None and study.state in ARRIVED else None
