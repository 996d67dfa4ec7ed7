"""Drafts that somebody asked for: asked once, claimed under a lease when the study's own job is drafted, and given their next state."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID, uuid4

from sqlalchemy import ColumnElement, Select, func, select, text, update
from sqlalchemy.dialects.postgresql import distinct_on, insert

from pipeline.asking import Asked, Lengths, Request
from pipeline.errors import LeaseLost, NotAllowed, NotFound
from pipeline.model import JobState, Lease, RequestState, Step, StudyState
from pipeline.store.asked import asked
from pipeline.store.audit import PgAudit
from pipeline.store.jobs import Jobs, in_lane, room
from pipeline.store.naming import ARRIVED, which
from pipeline.store.repository import Repository, fixed, in_seconds, plain
from pipeline.store.tables import DraftRow, JobRow, RequestRow, StudyRow
from pipeline.store.tables.asking import OPEN
from pipeline.urgency import UNBOUND, Slots, is_urgent

FREE = {"lease_owner": None, "lease_until": None}
DONE = (RequestState.DRAFTED.value, RequestState.FAILED.value)
WITHDRAWN = "study {} is withdrawn: nothing is written for it any more"
UNSUPPORTED = "study {} cannot be read here ({}); nothing is written for it until other images of it come"


def claimable() -> Select[UUID]:
    """Ids of the requests that could be claimed now, most urgent study first."""
    current = (JobRow.study_id == RequestRow.study_id) & (JobRow.revision == StudyRow.revision)
    ready = (RequestRow.state == fixed(RequestState.WAITING)) & (RequestRow.due_at <= func.now()) & (JobRow.state == JobState.DRAFTED.value)
    return (
        select(RequestRow.id)
        .join(StudyRow, StudyRow.id == RequestRow.study_id)
        .join(JobRow, current)
        .where(ready, StudyRow.state.in_([state.value for state in ARRIVED]))
        .order_by(in_lane(False), RequestRow.due_at)
    )


class PgRequests(Repository):
    """Requests port on PostgreSQL."""

    def ask(self, study_id: UUID, revision: int, department: str, lengths: Lengths = None) -> UUID:
        """The open request of this study and department, else the one that has ended for this revision, else a new one."""
        mine = (RequestRow.study_id == study_id) & (RequestRow.department == department)
        ended = RequestRow.state.in_(DONE) & (RequestRow.revision == revision)
        query = select(RequestRow.id).where(mine, ended | _open()).order_by(_open().desc(), RequestRow.created_at.desc()).limit(1)
        found = self.session.scalars(query).one_or_none()
        return found or self._add(study_id, department, lengths)[0]

    def ask_for(self, study: str, department: str, lengths: Lengths, actor: str) -> tuple[Asked, bool]:
        """The request for the study that is named so, and whether it is new; see the Requests port. Raises NotFound or NotAllowed."""
        row, job = self._study(study)
        current = row.state in ARRIVED and job is not None and job.state == JobState.DRAFTED
        mine = (RequestRow.study_id == row.id) & (RequestRow.department == department)
        written = (RequestRow.state == RequestState.DRAFTED.value) & (RequestRow.revision == row.revision)
        query = select(RequestRow.id).where(mine, _open() | written if current else _open()).order_by(RequestRow.created_at.desc()).limit(1)
        found = self.session.scalars(query).one_or_none()
        if found is not None:
            return self.get(found), False
        request_id, new = self._add(row.id, department, lengths)
        if new:
            PgAudit(self.session).append("draft_asked", study_id=row.id, actor=actor, request_id=str(request_id), department=department)
        return self.get(request_id), new

    def carry(self, study_id: UUID, revision: int) -> int:
        """Ask again for what was asked for earlier revisions; returns how many requests are new."""
        earlier = (RequestRow.study_id == study_id) & RequestRow.state.in_(DONE) & (RequestRow.revision < revision)
        newest = select(RequestRow).where(earlier).ext(distinct_on(RequestRow.department))
        newest = newest.order_by(RequestRow.department, RequestRow.created_at.desc())
        before = self._count(study_id)
        for row in self.session.scalars(newest).all():
            self.ask(study_id, revision, row.department, cast(Lengths, row.lengths))
        return self._count(study_id) - before

    def get(self, request_id: UUID) -> Asked:
        """How one request stands. Raises NotFound."""
        found = asked(self.session, select(RequestRow.id).where(RequestRow.id == request_id))
        if not found:
            raise NotFound(f"there is no request {request_id}; the answer to the one that asked for the draft names its own")
        return found[0]

    def recent(self, limit: int) -> tuple[Asked, ...]:
        """The newest requests, newest first."""
        return asked(self.session, select(RequestRow.id).order_by(RequestRow.created_at.desc()).limit(limit))

    def claim(self, limit: int, lease: Lease, slots: Slots = UNBOUND) -> tuple[Request, ...]:
        """Up to `limit` requests under a lease, each with the drafted job of its study's current revision."""
        free = room(self.session, Step.DRAFT, urgent=False, limit=limit, slots=slots)
        chosen = claimable().limit(free).with_for_update(of=RequestRow, skip_locked=True).cte("chosen")
        current = (StudyRow.id == RequestRow.study_id) & (JobRow.study_id == StudyRow.id) & (JobRow.revision == StudyRow.revision)
        leased: dict[str, Any] = {
            "state": RequestState.WAITING.move(RequestState.DRAFTING).value,
            "attempts": RequestRow.attempts + 1,
            "lease_owner": lease.owner,
            "lease_until": in_seconds(lease.seconds),
            "revision": JobRow.revision,
            "section": "",
            "tokens": 0,
        }
        taken = update(RequestRow).where(RequestRow.id.in_(select(chosen.c.id)), current).values(**leased).returning(RequestRow, JobRow.id)
        rows = self.session.execute(taken, execution_options={"populate_existing": True, "synchronize_session": False}).all()
        jobs = {job.id: job for job in Jobs(self.session).read([job_id for _, job_id in rows])}
        drafts = self._drafts([job_id for _, job_id in rows])
        ranked = sorted(rows, key=lambda pair: (not is_urgent(jobs[pair[1]].priority), pair[0].due_at))
        return tuple(
            Request(row.id, jobs[job_id], row.department, cast(Lengths, row.lengths), row.attempts, drafts.get((job_id, row.department)))
            for row, job_id in ranked
        )

    def heartbeat(self, request_id: UUID, lease: Lease) -> bool:
        """Extend the lease; False when it belongs to somebody else now."""
        return self._mine(request_id, lease, lease_until=in_seconds(lease.seconds))

    def told(self, request_id: UUID, section: str, tokens: int, lease: Lease) -> None:
        """Note how far the writing is, where the lease is still ours."""
        self._mine(request_id, lease, section=section, tokens=tokens)

    def drafted(self, request: Request, draft_id: UUID, lease: Lease) -> None:
        """drafting → drafted. Raises LeaseLost."""
        self._hand_over(request, RequestState.DRAFTED, lease, draft_id=draft_id, reason=None, ended_at=func.now())

    def give_back(self, request: Request, reason: str, delay_s: float, lease: Lease) -> None:
        """drafting → waiting, due again after `delay_s`. Raises LeaseLost."""
        self._hand_over(request, RequestState.WAITING, lease, reason=plain(reason), due_at=in_seconds(delay_s))

    def end(self, request: Request, reason: str, lease: Lease) -> None:
        """drafting → failed, with a sentence for a person. Raises LeaseLost."""
        self._hand_over(request, RequestState.FAILED, lease, reason=plain(reason), ended_at=func.now())

    def _add(self, study_id: UUID, department: str, lengths: Lengths) -> tuple[UUID, bool]:
        """A new request, or the open one that another transaction added meanwhile, and whether it is new."""
        values = {"id": uuid4(), "study_id": study_id, "department": department, "lengths": lengths, "state": RequestState.WAITING.value}
        new = insert(RequestRow).values(**values, attempts=0, section="", tokens=0)
        new = new.on_conflict_do_nothing(index_elements=["study_id", "department"], index_where=text(OPEN))
        added = self.session.scalars(new.returning(RequestRow.id)).one_or_none()
        if added is not None:
            return added, True
        mine = (RequestRow.study_id == study_id) & (RequestRow.department == department)
        return self.session.scalars(select(RequestRow.id).where(mine, _open())).one(), False

    def _study(self, study: str) -> tuple[StudyRow, JobRow | None]:
        """The study, locked, and its current job. Raises NotFound, or NotAllowed where nothing is written for it."""
        row = self.session.scalars(select(StudyRow).where(which(study)).with_for_update(key_share=True)).one_or_none()
        if row is None:
            raise NotFound("no study has this UID or id; `ctreport status` lists them")
        if row.state == StudyState.WITHDRAWN:
            raise NotAllowed(WITHDRAWN.format(row.id))
        job = self.session.scalars(select(JobRow).filter_by(study_id=row.id, revision=row.revision)).one_or_none()
        if row.state in ARRIVED and job is not None and job.state == JobState.UNSUPPORTED:
            raise NotAllowed(UNSUPPORTED.format(row.id, job.reason))
        return row, job

    def _drafts(self, job_ids: list[UUID]) -> dict[tuple[UUID, str], UUID]:
        """Drafts that these jobs have already, by job and department."""
        rows = self.session.execute(select(DraftRow.job_id, DraftRow.department, DraftRow.id).where(DraftRow.job_id.in_(job_ids)))
        return {(job_id, department): draft_id for job_id, department, draft_id in rows}

    def _count(self, study_id: UUID) -> int:
        return self.session.execute(select(func.count()).select_from(RequestRow).where(RequestRow.study_id == study_id)).scalar_one()

    def _mine(self, request_id: UUID, lease: Lease, **values: Any) -> bool:
        held = (RequestRow.id == request_id) & (RequestRow.lease_owner == lease.owner)
        changed = update(RequestRow).where(held).values(**values).returning(RequestRow.id)
        return self.session.execute(changed, execution_options={"synchronize_session": False}).first() is not None

    def _hand_over(self, request: Request, to: RequestState, lease: Lease, **values: Any) -> None:
        if not self._mine(request.id, lease, state=RequestState.DRAFTING.move(to).value, **FREE, **values):
            raise LeaseLost(f"request {request.id} is no longer leased by this worker; the holder goes on")


def _open() -> ColumnElement[bool]:
    """Waiting or being written."""
    return RequestRow.state.in_([fixed(state) for state in (RequestState.WAITING, RequestState.DRAFTING)])
