"""The whole story of one study, every event with its time: what arrived, what the trail says, and what is still to come."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select

from pipeline.errors import BadInput
from pipeline.model import JobState, Priority, StudyState
from pipeline.store import queries
from pipeline.store.naming import ARRIVED, STEPS, which
from pipeline.store.session import PgStore
from pipeline.store.tables import AssociationRow, JobRow, StudyAssociationRow, StudyRow

LISTENER = "listener"
WAITING = (JobState.READY, JobState.ENCODED)


def story(store: PgStore, study: str) -> list[dict[str, Any]]:
    """Every event of one study in order of time: at, action, actor, job_id, detail. Raises BadInput for an unknown study."""
    events = [*_arrival(store, study), *queries.timeline(store, study)]
    return sorted(events, key=lambda event: event["at"])


def next_step(store: PgStore, study: str) -> dict[str, Any]:
    """What a study waits for now: its step, its priority, when it is due, and how many go before it; step None where nothing waits."""
    current = (JobRow.study_id == StudyRow.id) & (JobRow.revision == StudyRow.revision)
    query = select(StudyRow, JobRow, func.now()).outerjoin(JobRow, current).where(which(study))
    with store.begin() as work:
        found = work.session.execute(query).one_or_none()
        if found is None:
            raise BadInput("no study has this UID or id; `ctreport status` lists them")
        row, job, now = found
        answer = {"priority": Priority(row.priority).name.lower(), "step": None, "due_at": None, "before": 0, "attempts": 0}
        if job is None or row.state not in ARRIVED or job.state not in WAITING:
            return answer
        state = JobState(job.state)
        lane = JobRow.priority == Priority.STAT.value if job.priority == Priority.STAT else JobRow.priority > Priority.STAT.value
        same = lane & (JobRow.state == state.value) & (JobRow.due_at <= now) & (JobRow.rank_at < job.rank_at)
        before = work.session.execute(select(func.count()).select_from(JobRow).where(same)).scalar_one()
    return answer | {"step": STEPS[state], "due_at": job.due_at, "before": before, "attempts": job.attempts, "waits": job.due_at > now}


def told(answer: dict[str, Any]) -> str:
    """`next_step` as a line; empty where nothing waits."""
    if answer["step"] is None:
        return ""
    when = f", not before {answer['due_at']:%Y-%m-%d %H:%M:%S}" if answer["waits"] else ""
    return f"waits for {answer['step']} as {answer['priority']}, {answer['before']} go before it{when}"


def _arrival(store: PgStore, study: str) -> list[dict[str, Any]]:
    """First and last image, and the associations that brought them."""
    brought = (
        select(AssociationRow)
        .join(StudyAssociationRow, StudyAssociationRow.association_id == AssociationRow.id)
        .join(StudyRow, StudyRow.id == StudyAssociationRow.study_id)
        .where(which(study))
    )
    with store.begin() as work:
        row = work.session.scalars(select(StudyRow).where(which(study))).one_or_none()
        associations = work.session.scalars(brought).all()
    if row is None:
        raise BadInput("no study has this UID or id; `ctreport status` lists them")
    images = [
        _event(row.first_received, "first_image"),
        _event(row.last_received, "last_image", images=str(row.images), state=StudyState(row.state).value),
    ]
    opened = [_event(one.opened_at, "association_opened", calling_aet=one.calling_aet) for one in associations]
    closed = [_event(one.closed_at, "association_closed", how=one.how or "") for one in associations if one.closed_at is not None]
    return [*images, *opened, *closed]


def _event(at: Any, action: str, **detail: str) -> dict[str, Any]:
    return {"id": None, "at": at, "action": action, "actor": LISTENER, "job_id": None, "detail": detail}
