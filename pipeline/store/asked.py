"""How requests for drafts stand, as who asked sees them: the request's own row, and what its study and its draft have come to meanwhile."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from sqlalchemy import Select, select
from sqlalchemy.orm import Session, aliased

from pipeline.asking import Asked, Lengths
from pipeline.model import JobState, ReportState, RequestState, Step, StudyState
from pipeline.store.naming import ARRIVED, TOUCHED, step_of
from pipeline.store.tables import DraftRow, JobRow, ReportRow, RequestRow, StudyRow

ENDED = (JobState.FAILED, JobState.UNSUPPORTED)
WITHDRAWN = "the study was withdrawn; its drafts are void"
SUPERSEDED = "a newer revision of the study has superseded this draft; ask for it again"
DISCARDED = "the report was rejected; it is written by hand"
DRAFT = Step.DRAFT.value


def asked(session: Session, ids: Select[UUID]) -> tuple[Asked, ...]:
    """The requests with these ids, newest first."""
    current, drafted = aliased(JobRow), aliased(JobRow)
    query = (
        select(RequestRow, StudyRow, current, drafted.state, ReportRow.state)
        .join(StudyRow, StudyRow.id == RequestRow.study_id)
        .outerjoin(current, (current.study_id == StudyRow.id) & (current.revision == StudyRow.revision))
        .outerjoin(DraftRow, DraftRow.id == RequestRow.draft_id)
        .outerjoin(drafted, drafted.id == DraftRow.job_id)
        .outerjoin(ReportRow, ReportRow.draft_id == DraftRow.id)
        .where(RequestRow.id.in_(ids))
        .order_by(RequestRow.created_at.desc(), RequestRow.id)
    )
    rows = session.execute(query, execution_options={"populate_existing": True})
    return tuple(_asked(request, study, job, barred(study, drafted_state, report)) for request, study, job, drafted_state, report in rows)


def barred(study: StudyRow, job_state: str | None, report_state: str | None) -> str:
    """Why a draft may be read no more, by the states of its own job and report; empty where it may, or where there is none."""
    if job_state is None:
        return ""
    if study.state == StudyState.WITHDRAWN:
        return WITHDRAWN
    if job_state != JobState.DRAFTED and report_state not in TOUCHED:
        return SUPERSEDED
    return "" if report_state in TOUCHED or report_state == ReportState.WAITING else DISCARDED


def _asked(request: RequestRow, study: StudyRow, job: JobRow | None, why_barred: str) -> Asked:
    state, step, reason = _standing(request, study, job)
    return Asked(
        id=request.id,
        study_id=request.study_id,
        department=request.department,
        state=state,
        lengths=cast(Lengths, request.lengths),
        asked_at=request.created_at,
        revision=request.revision if request.state != RequestState.WAITING else None,
        step=step,
        section=request.section if state is RequestState.DRAFTING else "",
        tokens=request.tokens,
        reason=reason,
        ended_at=request.ended_at,
        draft_id=request.draft_id,
        barred=why_barred,
    )


def _standing(request: RequestRow, study: StudyRow, job: JobRow | None) -> tuple[RequestState, str | None, str]:
    """State, step and reason. A waiting request is told as failed where its study's job has failed or the study was withdrawn."""
    state, reason = RequestState(request.state), request.reason or ""
    if state is not RequestState.WAITING:
        return state, DRAFT if state is RequestState.DRAFTING else None, reason
    if study.state == StudyState.WITHDRAWN:
        return RequestState.FAILED, None, WITHDRAWN
    if study.state in ARRIVED and job is not None:
        if job.state in ENDED:
            return RequestState.FAILED, None, job.reason or reason
        return state, DRAFT if job.state == JobState.DRAFTED else step_of(study, job), reason or job.reason or ""
    return state, step_of(study, job), study.reason or reason
