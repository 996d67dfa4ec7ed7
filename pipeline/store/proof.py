"""What `ctreport verify` asks of the database: every acknowledged image, rows that no longer move, and what must not be twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session, aliased

from pipeline.evidence import Patience
from pipeline.model import JobState, StudyState
from pipeline.store.deliveries import is_due
from pipeline.store.evidence import is_candidate
from pipeline.store.jobs import CLAIMS, claimable
from pipeline.store.repository import in_seconds
from pipeline.store.session import PgStore
from pipeline.store.tables import DeliveryRow, DraftRow, InstanceRow, JobRow, RequestRow, StudyRow

CHUNK = 2_000
Leased = type[StudyRow] | type[JobRow] | type[DeliveryRow] | type[RequestRow]


class InstanceFile(NamedTuple):
    """One acknowledged image as verify compares it; `path` is archive-relative."""

    sop_uid: str
    sha256: str
    path: str
    size_bytes: int


class Stuck(NamedTuple):
    """One row that no longer moves, by internal id."""

    what: str  # study | job | delivery | request
    id: str
    state: str
    reason: str


def instance_rows(store: PgStore) -> Iterator[InstanceFile]:
    """Every instance row, streamed in chunks, in an order that keeps the archive's folders together."""
    query = select(InstanceRow.sop_uid, InstanceRow.sha256, InstanceRow.path, InstanceRow.size_bytes).order_by(InstanceRow.path)
    with store.begin() as work:
        for sop_uid, sha256, path, size_bytes in work.session.execute(query, execution_options={"yield_per": CHUNK}):
            yield InstanceFile(sop_uid, sha256, path, size_bytes)


def stuck(store: PgStore, grace_s: float, patience: Patience) -> list[Stuck]:
    """Rows that should have moved at least `grace_s` ago. Work that waits behind other work of its step is not stuck, nor is a study that waits
    for its images within its patience."""
    with store.begin() as work:
        session = work.session
        found = [one for table in (StudyRow, JobRow, DeliveryRow, RequestRow) for one in _lease_over(session, table, grace_s)]
        return found + _waiting_studies(session, grace_s, patience) + _idle_jobs(session, grace_s) + _idle_deliveries(session, grace_s)


def duplicates(store: PgStore) -> list[dict[str, Any]]:
    """What must not exist: two drafts of one department and revision, or two first instances of one SOPInstanceUID."""
    drafts = (
        select(JobRow.study_id, JobRow.revision, DraftRow.department, func.count().label("rows"))
        .join(JobRow, JobRow.id == DraftRow.job_id)
        .group_by(JobRow.study_id, JobRow.revision, DraftRow.department)
        .having(func.count() > 1)
    )
    firsts = (
        select(func.min(InstanceRow.path).label("path"), func.count().label("rows"))
        .where(InstanceRow.is_first)
        .group_by(InstanceRow.sop_uid)
        .having(func.count() > 1)
    )
    with store.begin() as work:
        found: list[dict[str, Any]] = [{"what": "draft", **row} for row in work.session.execute(drafts).mappings()]
        return found + [{"what": "instance", **row} for row in work.session.execute(firsts).mappings()]


def _lease_over(session: Session, table: Leased, grace_s: float) -> list[Stuck]:
    what = {StudyRow: "study", JobRow: "job", DeliveryRow: "delivery", RequestRow: "request"}[table]
    rows = session.execute(select(table.id, table.state).where(table.lease_until < in_seconds(-grace_s)).order_by(table.lease_until))
    return [Stuck(what, str(row_id), state, "its lease ran out and nobody handed it back; is the sweeper (beat) running?") for row_id, state in rows]


def _waiting_studies(session: Session, grace_s: float, patience: Patience) -> list[Stuck]:
    """Studies that assemble should have claimed, also those past the limit whatever they wait for."""
    overdue = (StudyRow.state == StudyState.RECEIVING.value) & (StudyRow.arriving_since <= in_seconds(-patience.force_after_s - grace_s))
    unclaimed = StudyRow.lease_until.is_(None) & or_(is_candidate(patience, grace_s), overdue)
    query = select(StudyRow.id, StudyRow.state).where(unclaimed).order_by(StudyRow.last_received)
    return [
        Stuck("study", str(row_id), state, "everything is here or waited for too long, and nobody assembles it; is worker-io running?")
        for row_id, state in session.execute(query)
    ]


def _idle_jobs(session: Session, grace_s: float) -> list[Stuck]:
    """Jobs long due while nobody works at their step."""
    found = []
    for step, claimed in CLAIMS.items():
        query = claimable(step).where(JobRow.due_at < in_seconds(-grace_s), ~_busy(claimed.working))
        reason = f"due for long and nobody works at '{step}'; is worker-{step} running?"
        found += [Stuck("job", str(row_id), claimed.ready.value, reason) for row_id in session.scalars(query)]
    return found


def _busy(working: JobState) -> ColumnElement[bool]:
    other = aliased(JobRow)
    return select(other.id).where(other.state == working.value, other.lease_until >= func.now()).exists()


def _idle_deliveries(session: Session, grace_s: float) -> list[Stuck]:
    overdue = or_(DeliveryRow.lease_until.is_(None), DeliveryRow.lease_until >= func.now()) & (DeliveryRow.due_at < in_seconds(-grace_s))
    query = select(DeliveryRow.id, DeliveryRow.state).where(is_due(), overdue).order_by(DeliveryRow.due_at)
    return [
        Stuck("delivery", str(row_id), state, "due for long and nobody delivers it; is worker-io running?")
        for row_id, state in session.execute(query)
    ]
