"""What an operator does with a study: retry, expedite, hold, release, rerun, withdraw. Each is one audited transaction that returns what was before
and after."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline.errors import BadInput, IllegalMove
from pipeline.model import JobState, Priority, ReportState, StudyState
from pipeline.renewing import Cause
from pipeline.store.barring import bar
from pipeline.store.barring import withdraw as withdraw_study
from pipeline.store.naming import which
from pipeline.store.repository import fixed
from pipeline.store.session import PgStore, PgWork
from pipeline.store.tables import JobRow, StudyRow
from pipeline.urgency import rank

ACTOR = "operator"
HELD = "an operator holds this study; `ctreport release` lets it go on"
WITHDRAWN = "操作员撤回了本检查"
ARRIVING = frozenset({StudyState.RECEIVING, StudyState.COMPLETE, StudyState.PARTIAL})
REVISED = frozenset({StudyState.COMPLETE, StudyState.PARTIAL})
RERUN = "an operator had the study assembled again"
NO_RERUN = {
    StudyState.RECEIVING: "it is assembled by itself once its images are all here",
    StudyState.HELD: "`ctreport release` lets it go on",
    StudyState.WITHDRAWN: "a withdrawn study is not read again",
}


def retry(store: PgStore, study: str, actor: str = ACTOR) -> tuple[str, str]:
    """Current job failed or unsupported → ready, with a fresh count of attempts. Raises IllegalMove, or BadInput without a job."""
    with store.begin() as work:
        row = _study(work.session, study)
        job = work.session.scalars(select(JobRow).filter_by(study_id=row.id, revision=row.revision).with_for_update()).one_or_none()
        if job is None:
            raise BadInput(f"study {row.id} is '{row.state}' and has no job yet; it goes on by itself once its images are all here")
        if not job.files:
            raise BadInput(f"study {row.id} has no readable series ({job.reason}); send one, and it is assembled again by itself")
        before = job.state
        _again(job)
        return _done(work, "retry", row.id, before, job.state, actor, job.id)


def expedite(store: PgStore, study: str, to: Priority = Priority.STAT, actor: str = ACTOR) -> tuple[str, str]:
    """Give a study and its waiting job another priority, at once. Raises BadInput for a study that nothing is done for any more."""
    with store.begin() as work:
        row = _study(work.session, study)
        if row.state in (StudyState.HELD, StudyState.WITHDRAWN):
            raise BadInput(f"study {row.id} is '{row.state}' and waits for nothing; `ctreport release` lets a held one go on")
        before, row.priority = Priority(row.priority), to.value
        job = work.session.scalars(select(JobRow).filter_by(study_id=row.id, revision=row.revision).with_for_update()).one_or_none()
        if job is not None:
            job.priority, job.rank_at = to.value, rank(to, job.created_at)
            if job.lease_owner is None:  # what was to wait for the night, or for another try, need not
                job.due_at = func.now()
        row.due_at = func.now()
        return _done(work, "expedite", row.id, before.name.lower(), to.name.lower(), actor, job.id if job is not None else None)


def retry_all(store: PgStore, actor: str = ACTOR) -> int:
    """Every failed job of a study's present revision → ready, as `retry` does with one; returns how many."""
    with store.begin() as work:
        current = (StudyRow.id == JobRow.study_id) & (StudyRow.revision == JobRow.revision)
        failed = select(JobRow).join(StudyRow, current).where(JobRow.state == fixed(JobState.FAILED), JobRow.files != [])
        jobs = work.session.scalars(failed.order_by(JobRow.ended_at).with_for_update(of=JobRow)).all()
        for job in jobs:
            _again(job)
            work.audit.append("retry", study_id=job.study_id, job_id=job.id, actor=actor, before="failed", after=job.state)
        return len(jobs)


def _again(job: JobRow) -> None:
    job.state = JobState(job.state).move(JobState.READY).value
    job.attempts, job.lost, job.reason, job.due_at, job.ended_at = 0, 0, None, func.now(), None


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
        if before == StudyState.WITHDRAWN:  # new images may reopen it after rejection notes, an operator never
            raise IllegalMove(f"study {row.id} is 'withdrawn', which no operator takes back; send its images again under another study UID")
        if before in ARRIVING:  # complete → receiving is legal for a late image, not for an operator
            raise BadInput(f"study {row.id} is '{before}', not held; there is nothing to release")
        _move(row, StudyState.RECEIVING, None)
        return _done(work, "release", row.id, before, row.state, actor)


def rerun(store: PgStore, study: str, actor: str = ACTOR) -> tuple[str, str]:
    """Complete or partial → receiving: judged at once and frozen as a new revision, also when no image changed. Raises BadInput elsewhere."""
    with store.begin() as work:
        row = _study(work.session, study)
        before = row.state
        if before not in REVISED:
            raise BadInput(f"study {row.id} is '{before}': {NO_RERUN[StudyState(before)]}")
        bar(work.session, row.id, (ReportState.WAITING,), RERUN, every_delivery=False)
        _move(row, StudyState.RECEIVING, None)
        row.renewal = Cause.RERUN.value
        return _done(work, "rerun", row.id, before, row.state, actor)


def withdraw(store: PgStore, study: str, actor: str = ACTOR) -> tuple[str, str]:
    """Study → withdrawn for good: jobs superseded, unsigned reports rejected, deliveries stopped, notices written. Raises IllegalMove."""
    with store.begin() as work:
        row = _study(work.session, study)
        before = row.state
        withdraw_study(work.session, row, WITHDRAWN)
        row.rejected_at = None  # what an operator withdraws stays so, whatever arrives
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
    if to is StudyState.RECEIVING:
        row.arriving_since = func.now()  # the limit counts from here


def _done(work: PgWork, action: str, study_id: UUID, before: str, after: str, actor: str, job_id: UUID | None = None) -> tuple[str, str]:
    work.audit.append(action, study_id=study_id, job_id=job_id, actor=actor, before=before, after=after)
    return before, after
