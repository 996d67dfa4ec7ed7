"""What the whole site does once per period, what a process that ends hands back, and how long the longest waits."""

from __future__ import annotations

from typing import TypeVar

from sqlalchemy import func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.model import JobState, RequestState, Step
from pipeline.store.audit import PgAudit
from pipeline.store.jobs import BACK, FREE, claimable
from pipeline.store.naming import STEPS
from pipeline.store.repository import Repository, in_seconds
from pipeline.store.tables import DeliveryRow, JobRow, RequestRow, RoundRow, StudyRow

Held = TypeVar("Held", JobRow, RequestRow)


class Rounds(Repository):
    """Upkeep that no single row is about."""

    def turn(self, name: str, every_s: float) -> bool:
        """True once per period over the whole site, for whoever asks first; also when the clock was set back. See the Studies port."""
        due = or_(RoundRow.at <= in_seconds(-every_s), RoundRow.at > func.now())
        taken = insert(RoundRow).values(name=name).on_conflict_do_update(index_elements=["name"], set_={"at": func.now()}, where=due)
        return self.session.execute(taken.returning(RoundRow.name)).first() is not None

    def hand_back(self, owner: str) -> int:
        """Free every row that a process holds which ends now: due at once, and the claim does not count as a try. Returns how many."""
        audit = PgAudit(self.session)
        jobs, asked = self._held(JobRow, owner), self._held(RequestRow, owner)
        for job in jobs:
            state = JobState(job.state)
            job.state, job.due_at = state.move(BACK[state]).value, func.now()
            job.attempts, job.lease_owner, job.lease_until = max(0, job.attempts - 1), None, None
            audit.append("handed_back", study_id=job.study_id, job_id=job.id, step=STEPS[state])
        for request in asked:
            request.state = RequestState.DRAFTING.move(RequestState.WAITING).value
            request.attempts, request.lease_owner, request.lease_until = max(0, request.attempts - 1), None, None
        self.session.flush()
        return len(jobs) + len(asked) + self._free(StudyRow, owner) + self._free(DeliveryRow, owner)

    def oldest_s(self, step: Step) -> dict[bool, float]:
        """Seconds that the longest waiting job of encode or draft could have been claimed, of STAT (True) and of the others. See the Studies port."""
        ages: dict[bool, float] = {}
        for urgent in (True, False):
            due = claimable(step, urgent).order_by(None).with_only_columns(JobRow.due_at).subquery()
            age = self.session.execute(select(func.extract("epoch", func.now() - func.min(due.c.due_at)))).scalar()
            if age is not None:
                ages[urgent] = float(age)
        return ages

    def _held(self, table: type[Held], owner: str) -> list[Held]:
        query = select(table).where(table.lease_owner == owner, table.lease_until.is_not(None)).with_for_update(skip_locked=True)
        return list(self.session.scalars(query, execution_options={"populate_existing": True}))

    def _free(self, table: type[StudyRow] | type[DeliveryRow], owner: str) -> int:
        held = (table.lease_owner == owner) & table.lease_until.is_not(None)
        freed = update(table).where(held).values(attempts=func.greatest(0, table.attempts - 1), **FREE).returning(table.id)
        return len(self.session.execute(freed, execution_options={"synchronize_session": False}).all())
