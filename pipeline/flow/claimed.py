"""What encode and draft share: claim jobs under a lease, keep the lease alive, and turn every error into a row's next state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from pipeline import log, metrics
from pipeline.errors import LeaseLost, Permanent, ServiceUnavailable, Transient, Unsupported
from pipeline.model import Job, JobState, Step
from pipeline.ports import Clock, Lease, Store

logger = log.get(__name__)


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how soon a transient failure is tried again."""

    max_attempts: int
    delay_s: float

    def delay_after(self, attempts: int) -> float:
        """Seconds until the next try: doubles with each attempt, at most ten minutes."""
        return float(min(self.delay_s * 2 ** max(0, attempts - 1), 600.0))


def run_claimed(store: Store, step: Step, limit: int, lease: Lease, retry: Retry, clock: Clock, perform: Callable[[Job], None]) -> int:
    """Claim up to `limit` jobs and perform each; returns how many were claimed. `perform` commits its own result."""
    with store.begin() as work:
        jobs = work.studies.claim(step, limit, lease)
    with _kept(store, [job.id for job in jobs], lease) as held:
        for job in jobs:
            started = clock.now()
            outcome = _perform(store, job, lease, retry, perform)
            held.discard(job.id)
            seconds = (clock.now() - started) / timedelta(seconds=1)
            metrics.STEPS.labels(step, outcome).inc()
            metrics.STEP_SECONDS.labels(step).observe(seconds)
            logger.info(step.value, job_id=str(job.id), study_id=str(job.study_id), outcome=outcome, seconds=round(seconds, 3))
    return len(jobs)


def _perform(store: Store, job: Job, lease: Lease, retry: Retry, perform: Callable[[Job], None]) -> str:
    """Perform one job; returns done, unsupported, failed, retried or lost."""
    try:
        try:
            perform(job)
        except LeaseLost:
            return "lost"
        except Unsupported as error:
            return _end(store, job, JobState.UNSUPPORTED, str(error), lease)
        except Permanent as error:
            return _end(store, job, JobState.FAILED, str(error), lease)
        except Transient as error:
            if job.attempts >= retry.max_attempts:
                return _end(store, job, JobState.FAILED, f"{error} (tried {job.attempts} times; `ctreport retry` starts again)", lease)
            with store.begin() as work:
                work.studies.give_back(job, str(error), retry.delay_after(job.attempts), lease)
            return "retried"
    except (LeaseLost, ServiceUnavailable):
        return "lost"  # the row stays under its lease; the sweeper hands it back when that runs out
    return "done"


def _end(store: Store, job: Job, state: JobState, reason: str, lease: Lease) -> str:
    with store.begin() as work:
        work.studies.end(job, state, reason, lease)
        work.audit.append(state.value, study_id=job.study_id, job_id=job.id)
    return state.value


@contextmanager
def _kept(store: Store, job_ids: Sequence[UUID], lease: Lease) -> Iterator[set[UUID]]:
    """Extend the leases of the jobs still in the yielded set, three times per lease, until the block ends."""
    held, stop = set(job_ids), threading.Event()
    thread = threading.Thread(target=_beat, args=(store, held, lease, stop), name="lease-heartbeat", daemon=True)
    if held:
        thread.start()
    try:
        yield held
    finally:
        stop.set()
        if held or thread.is_alive():
            thread.join(timeout=lease.seconds)


def _beat(store: Store, held: set[UUID], lease: Lease, stop: threading.Event) -> None:
    while not stop.wait(lease.seconds / 3):
        for job_id in tuple(held):
            try:
                with store.begin() as work:
                    kept = work.studies.heartbeat(job_id, lease)
            except ServiceUnavailable:
                break  # the database is away: try again with the next beat
            if not kept:
                held.discard(job_id)
