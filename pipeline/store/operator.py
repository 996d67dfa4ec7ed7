"""What an operator does with a study: retry, hold, release, withdraw. Each is one audited transaction and returns the state before and after."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline.errors import BadInput
from pipeline.model import JobState, ReportState, StudyState
from pipeline.store.barring import bar
from pipeline.store.queries import which
from pipeline.store.session import PgStore, PgWork
from pipeline.store.tables import JobRow, StudyRow

ACTOR = "operator"
HELD = "an operator holds this study; `ctreport release` lets it go on"
WITHDRAWN = "the study was withdrawn"
ARRIVING = frozenset({StudyState.RECEIVING, StudyState.COMPLETE, StudyState.PARTIAL})
OPEN_REPORTS = (ReportState.WAITING, ReportState.REVIEWING, ReportState.WRITTEN)


def retry(store: PgStore, study: str, actor: str = ACTOR) -> tuple[str, str]:
    """Current job failed or unsupported → ready, with a fresh count of attempts. Raises IllegalMove, or BadInput without a job."""
    with store.begin() as work:
        row = _study(work.session, study)
        job = work.session.scalars(select(JobRow).filter_by(study_id=row.id, revision=row.revision).with_for_update()).one_or_none()
        if job is None:
            raise BadInput(f"study {row.id} is '{row.state}' and has no job yet; it goes on by itself once its images are all here")
        if not job.files:
            raise BadInput(f"study {row.id} has no readable series ({job.reason}); send one, and it is assembled again by itself")
        before, after = job.state, JobState(job.state).move(JobState.READY)
        job.state, job.attempts, job.reason, job.due_at, job.ended_at = after.value, 0, None, func.now(), None
        return _done(work, "retry", row.id, before, after.value, actor, job.id)


def hold(store: PgStore, study: str, actor: str = ACTOR) -> tuple[str, str]:
    """Study → held: no step claims it until it is released. Raises IllegalMove."""
    with store.begin() as work:
        row = _study(work.session, study)
        before = row.state
        _move(row, StudyState.HELD, HELD)
        return _done(work, "hold", row.id, before, row.state, actor)


def release(store: PgStore, study: str, actor: str = ACTOR) -> tuple[str, str]:
    """Held → receiving: it is assembled again, and its job goes on where nothing has changed. Raises IllegalMove."""
    with store.begin() as work:
        row = _study(work.session, study)
        before = row.state
        if before in ARRIVING:  # complete → receiving is legal for a late image, not for an operator
            raise BadInput(f"study {row.id} is '{before}', not held; there is nothing to release")
        _move(row, StudyState.RECEIVING, None)
        return _done(work, "release", row.id, before, row.state, actor)


def withdraw(store: PgStore, study: str, actor: str = ACTOR) -> tuple[str, str]:
    """Study → withdrawn for good: jobs superseded, unsigned reports rejected, deliveries stopped. Raises IllegalMove."""
    with store.begin() as work:
        row = _study(work.session, study)
        before = row.state
        _move(row, StudyState.WITHDRAWN, WITHDRAWN)
        bar(work.session, row.id, OPEN_REPORTS, WITHDRAWN, every_delivery=True)
        return _done(work, "withdraw", row.id, before, row.state, actor)


def _study(session: Session, study: str) -> StudyRow:
    """The study's row, locked. Raises BadInput for an unknown one."""
    row = session.scalars(select(StudyRow).where(which(study)).with_for_update(key_share=True)).one_or_none()
    if row is None:
        raise BadInput("no study has this UID or id; `ctreport status` lists them")
    return row


def _move(row: StudyRow, to: StudyState, reason: str | None) -> None:
    row.state = StudyState(row.state).move(to).value
    row.reason, row.attempts, row.due_at = reason, 0, func.now()
    row.lease_owner = row.lease_until = None


def _done(work: PgWork, action: str, study_id: UUID, before: str, after: str, actor: str, job_id: UUID | None = None) -> tuple[str, str]:
    work.audit.append(action, study_id=study_id, job_id=job_id, actor=actor, before=before, after=after)
    return before, after
