"""Maintenance: hand back what nobody holds any more, and count what waits. A row never goes in circles: its attempts run out."""

from __future__ import annotations

from typing import Any, TypeVar

from sqlalchemy import Select, func, select

from pipeline.evidence import Patience
from pipeline.model import JobState, RequestState, Step, StudyState
from pipeline.store import requests
from pipeline.store.audit import PgAudit
from pipeline.store.deliveries import is_due
from pipeline.store.evidence import is_candidate
from pipeline.store.jobs import BACK, claimable
from pipeline.store.repository import Repository
from pipeline.store.tables import DeliveryRow, DeliveryState, JobRow, RequestRow, StudyRow

Row = TypeVar("Row", JobRow, StudyRow, DeliveryRow, RequestRow)
BATCH = 500  # rows handed back per transaction; the next sweep takes the rest
GAVE_UP = "{step} was started {attempts} times and never ended (its worker died or hung); `ctreport retry` starts again"
HELD = "assembling was started {attempts} times and never ended; `ctreport release` tries again"
UNWRITTEN = "drafting was started {attempts} times and never ended (its worker died or hung); ask for the draft again"
UNDELIVERED = "delivery was started {attempts} times and never ended; look at the log of worker-io"


class Upkeep(Repository):
    """The sweeper's rows."""

    def reclaim_expired(self, max_attempts: int) -> int:
        """Hand back jobs, studies, deliveries and requests whose lease ran out; returns how many. See the Studies port."""
        return self._jobs(max_attempts) + self._studies(max_attempts) + self._deliveries(max_attempts) + self._requests(max_attempts)

    def waiting(self, step: Step, patience: Patience) -> int:
        """How many rows `step` could claim right now; 0 for a step that claims none."""
        countable: dict[Step, Select[Any]] = {
            Step.ASSEMBLE: select(StudyRow.id).where(is_candidate(patience)),
            Step.ENCODE: claimable(Step.ENCODE),
            Step.DRAFT: claimable(Step.DRAFT),
            Step.DELIVER: select(DeliveryRow.id).where(is_due()),
        }
        if step not in countable:
            return 0
        asked = self._count(requests.claimable()) if step is Step.DRAFT else 0
        return self._count(countable[step]) + asked

    def _count(self, which: Select[Any]) -> int:
        return self.session.execute(select(func.count()).select_from(which.order_by(None).subquery())).scalar_one()

    def _jobs(self, max_attempts: int) -> int:
        rows = self._expired(JobRow)
        audit = PgAudit(self.session)
        for job in rows:
            state, step = JobState(job.state), "encode" if job.state == JobState.ENCODING else "draft"
            job.lost += 1
            gave_up = job.lost >= max_attempts
            after = state.move(JobState.FAILED if gave_up else BACK[state])
            job.state, job.lease_owner, job.lease_until, job.due_at = after.value, None, None, func.now()
            if gave_up:
                job.reason, job.ended_at = GAVE_UP.format(step=step, attempts=job.lost), func.now()
            audit.append("failed" if gave_up else "reclaimed", study_id=job.study_id, job_id=job.id, step=step, attempts=str(job.attempts))
        self.session.flush()
        return len(rows)

    def _studies(self, max_attempts: int) -> int:
        rows = self._expired(StudyRow)
        audit = PgAudit(self.session)
        for study in rows:
            study.lease_owner = study.lease_until = None
            if study.attempts >= max_attempts and study.state == StudyState.RECEIVING:
                study.state = StudyState.RECEIVING.move(StudyState.HELD).value
                study.reason = HELD.format(attempts=study.attempts)
            audit.append("reclaimed", study_id=study.id, step="assemble", attempts=str(study.attempts), state=study.state)
        self.session.flush()
        return len(rows)

    def _deliveries(self, max_attempts: int) -> int:
        rows = self._expired(DeliveryRow)
        for delivery in rows:
            delivery.lease_owner = delivery.lease_until = None
            if delivery.attempts >= max_attempts:
                delivery.state, delivery.reason = DeliveryState.FAILED.value, UNDELIVERED.format(attempts=delivery.attempts)
        self.session.flush()
        return len(rows)

    def _requests(self, max_attempts: int) -> int:
        rows = self._expired(RequestRow)
        for request in rows:
            gave_up = request.attempts >= max_attempts
            request.state = RequestState.DRAFTING.move(RequestState.FAILED if gave_up else RequestState.WAITING).value
            request.lease_owner = request.lease_until = None
            if gave_up:
                request.reason, request.ended_at = UNWRITTEN.format(attempts=request.attempts), func.now()
        self.session.flush()
        return len(rows)

    def _expired(self, table: type[Row]) -> list[Row]:
        query = select(table).where(table.lease_until < func.now()).order_by(table.lease_until).limit(BATCH).with_for_update(skip_locked=True)
        return list(self.session.scalars(query, execution_options={"populate_existing": True}))
