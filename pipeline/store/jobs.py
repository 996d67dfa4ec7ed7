"""Encode and draft: claim jobs under a lease, keep it, and give the row its next state. Only the lease's owner may."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ColumnElement, Select, delete, func, literal_column, select, update
from sqlalchemy.orm import Session

from pipeline.errors import LeaseLost, NotAllowed
from pipeline.model import Job, JobState, Lease, Priority, RequestState, Step, StudyState
from pipeline.store import ranking
from pipeline.store.repository import Repository, fixed, in_seconds, plain
from pipeline.store.tables import FrozenFindingsRow, InstanceRow, JobRow, RequestRow, StudyRow
from pipeline.urgency import UNBOUND, Pick, Slots

FREE = {"lease_owner": None, "lease_until": None}
PLACE = (JobRow.rank_at, JobRow.due_at)
BARRED = (StudyState.HELD.value, StudyState.WITHDRAWN.value)


@dataclass(frozen=True, slots=True)
class Claimed:
    """Where a step's claim starts and ends, and the column that notes when."""

    ready: JobState
    working: JobState
    noted: str


CLAIMS = {
    Step.ENCODE: Claimed(JobState.READY, JobState.READY.move(JobState.ENCODING), "encoding_at"),
    Step.DRAFT: Claimed(JobState.ENCODED, JobState.ENCODED.move(JobState.DRAFTING), "drafting_at"),
}
BACK = {claim.working: claim.working.move(claim.ready) for claim in CLAIMS.values()}


LANES = {Pick.FIRST: (True, False), Pick.URGENT: (True,), Pick.OTHERS: (False,)}  # STAT or not, in the order in which they are looked into
LOCKS = {Step.ENCODE: 0x63740001, Step.DRAFT: 0x63740002}  # advisory locks: claims of a bounded step go one after the other


def in_lane(urgent: bool) -> ColumnElement[bool]:
    """Jobs of STAT studies, or all others; as the partial indexes of the claim have it."""
    stat = literal_column(str(Priority.STAT.value), BigInteger)
    return JobRow.priority == stat if urgent else JobRow.priority > stat


def room(session: Session, step: Step, urgent: bool, limit: int, slots: Slots) -> int:
    """How many rows of a lane a claim may take now. Where the step is bounded, other claims of it wait until this transaction ends."""
    if slots.capacity is None:
        return limit
    session.execute(select(func.pg_advisory_xact_lock(LOCKS[step])))
    working = select(func.count()).select_from(JobRow).where(JobRow.state == fixed(CLAIMS[step].working))
    busy = session.execute(working).scalar_one()
    if step is Step.DRAFT:
        asked = select(func.count()).select_from(RequestRow).where(RequestRow.state == fixed(RequestState.DRAFTING))
        busy += session.execute(asked).scalar_one()
    free = slots.free(urgent, busy)
    return limit if free is None else min(limit, free)


def claimable(step: Step, urgent: bool | None = None) -> Select[UUID]:
    """Ids of the jobs that `step` could claim now, in claim order; of one lane or of both. Raises NotAllowed for a step that claims no jobs."""
    if step not in CLAIMS:
        raise NotAllowed(f"step '{step}' claims no jobs; only encode and draft do")
    ready = (
        select(JobRow.id)
        .join(StudyRow, StudyRow.id == JobRow.study_id)
        .where(JobRow.state == fixed(CLAIMS[step].ready), JobRow.due_at <= func.now(), StudyRow.state.not_in(BARRED))
    )
    if urgent is None:
        return ready.order_by(in_lane(False), *PLACE)
    return ready.where(in_lane(urgent)).order_by(*PLACE)


class Jobs(Repository):
    """The rows of encode and draft."""

    def claim(self, step: Step, limit: int, lease: Lease, pick: Pick = Pick.FIRST, slots: Slots = UNBOUND) -> tuple[Job, ...]:
        """Up to `limit` jobs under a lease, most urgent first; see the Studies port."""
        for urgent in LANES[pick]:
            free = room(self.session, step, urgent, limit, slots)
            if free and (jobs := self._claim(step, claimable(step, urgent).limit(free), lease)):
                return jobs
        return ()

    def claim_together(self, step: Step, limit: int, lease: Lease, pick: Pick = Pick.FIRST, slots: Slots = UNBOUND) -> tuple[Job, ...]:
        """The first job alone where it was tried before, else up to `limit` that were not; see the Studies port."""
        for urgent in LANES[pick]:
            free = room(self.session, step, urgent, limit, slots)
            if free and (jobs := self._company(step, urgent, free, lease)):
                return jobs
        return ()

    def _company(self, step: Step, urgent: bool, limit: int, lease: Lease) -> tuple[Job, ...]:
        ready = claimable(step, urgent)
        tried = self.session.scalars(ready.with_only_columns(JobRow.attempts).limit(1)).one_or_none()
        company = () if limit == 1 or tried else self._claim(step, ready.where(JobRow.attempts == 0).limit(limit), lease)
        return company or self._claim(step, ready.limit(1), lease)

    def _claim(self, step: Step, which: Select[UUID], lease: Lease) -> tuple[Job, ...]:
        chosen = which.with_for_update(of=JobRow, skip_locked=True).cte("chosen")
        claimed = CLAIMS[step]
        leased: dict[str, Any] = {
            "state": claimed.working.value,
            "attempts": JobRow.attempts + 1,
            "lease_owner": lease.owner,
            "lease_until": in_seconds(lease.seconds),
            claimed.noted: func.now(),
        }
        taken = update(JobRow).where(JobRow.id.in_(select(chosen.c.id))).values(**leased).returning(JobRow.id)
        return self.read(self.session.scalars(taken, execution_options={"synchronize_session": False}).all())

    def read(self, ids: Sequence[UUID]) -> tuple[Job, ...]:
        """The jobs with these ids, most urgent first."""
        query = select(JobRow, StudyRow).join(StudyRow, StudyRow.id == JobRow.study_id).where(JobRow.id.in_(ids))
        rows = self.session.execute(query.order_by(in_lane(False), *PLACE), execution_options={"populate_existing": True})
        flags = self._image_flags(ids)
        return tuple(_job(job, study, flags[job.study_id]) for job, study in rows)

    def _image_flags(self, job_ids: Sequence[UUID]) -> dict[UUID, set[str]]:
        """What the listener noted about the images of these jobs' studies, by study."""
        flagged = select(InstanceRow.study_id, InstanceRow.flags).where(
            InstanceRow.study_id.in_(select(JobRow.study_id).where(JobRow.id.in_(job_ids))), func.jsonb_array_length(InstanceRow.flags) > 0
        )
        found: dict[UUID, set[str]] = defaultdict(set)
        for study_id, flags in self.session.execute(flagged):
            found[study_id].update(flags)
        return found

    def heartbeat(self, job_id: UUID, lease: Lease) -> bool:
        """Extend the lease; False when it belongs to somebody else now."""
        mine = (JobRow.id == job_id) & (JobRow.lease_owner == lease.owner)
        extended = update(JobRow).where(mine).values(lease_until=in_seconds(lease.seconds)).returning(JobRow.id)
        return self.session.execute(extended, execution_options={"synchronize_session": False}).first() is not None

    def encoded(self, job: Job, features_path: str, encoder: str, version: str, lease: Lease, passed: Sequence[str] = ()) -> None:
        """encoding → encoded, with a fresh count of attempts; see the Studies port. Raises LeaseLost."""
        made: dict[str, Any] = {"features_path": features_path, "encoder": encoder, "encoder_version": version, **self._read(job, passed)}
        self.session.execute(delete(FrozenFindingsRow).where(FrozenFindingsRow.job_id == job.id))  # they are of other features
        self.hand_over(job, JobState.ENCODED, lease, attempts=0, lost=0, reason=None, due_at=func.now(), encoded_at=func.now(), **made)

    def _read(self, job: Job, passed: Sequence[str]) -> dict[str, Any]:
        """Columns that tell which stack was read. Raises LeaseLost where those of the job changed meanwhile: an image was taken back."""
        if not job.ranked:
            return {}
        row = self.session.scalars(select(JobRow).filter_by(id=job.id).with_for_update(), execution_options={"populate_existing": True}).one()
        now, read = ranking.ranked(row), len(passed)
        if [stack.files for stack in now[: read + 1]] != [stack.files for stack in job.ranked[: read + 1]]:
            raise LeaseLost(f"what job {job.id} may read has changed since it was claimed; its result is dropped, and it is encoded again")
        return ranking.moved(row, passed)

    def give_back(self, job: Job, reason: str, delay_s: float, lease: Lease) -> None:
        """encoding → ready, drafting → encoded, due again after `delay_s`. Raises LeaseLost."""
        self.hand_over(job, BACK.get(job.state, job.state), lease, reason=plain(reason), due_at=in_seconds(delay_s))

    def end(self, job: Job, state: JobState, reason: str, lease: Lease) -> None:
        """→ failed or unsupported, with a sentence for a person. Raises LeaseLost."""
        self.hand_over(job, state, lease, reason=plain(reason), ended_at=func.now())

    def hand_over(self, job: Job, to: JobState, lease: Lease, **values: Any) -> None:
        """Move a job that `lease` holds to `to` and free it. Raises IllegalMove, or LeaseLost when the row is not ours any more."""
        mine: ColumnElement[bool] = (JobRow.id == job.id) & (JobRow.lease_owner == lease.owner) & (JobRow.state == job.state.value)
        moved = update(JobRow).where(mine).values(state=job.state.move(to).value, **FREE, **values).returning(JobRow.id)
        if self.session.execute(moved, execution_options={"synchronize_session": False}).first() is None:
            raise LeaseLost(f"job {job.id} is no longer leased by this worker in state '{job.state}'; its result is dropped, the holder goes on")


def _job(row: JobRow, study: StudyRow, image_flags: set[str]) -> Job:
    return Job(
        id=row.id,
        study_id=row.study_id,
        study_uid=study.study_uid,
        revision=row.revision,
        state=JobState(row.state),
        priority=Priority(row.priority),
        attempts=row.attempts,
        series_uids=tuple(row.series_chosen),
        files=tuple(row.files),
        is_phantom=row.is_phantom,
        indication=study.indication,
        features_path=row.features_path,
        image_flags=tuple(sorted(image_flags)),
        completeness=row.completeness,
        ranked=ranking.ranked(row),
        requesting_service=study.requesting_service,
        cause=row.cause,
    )
