"""What encode and draft share: claim jobs under a lease, keep the lease alive, and turn every error into a row's next state."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from pipeline import log, metrics
from pipeline.errors import LeaseLost, Permanent, ServiceUnavailable, Transient, Unsupported
from pipeline.model import MOVES, Job, JobState, Step
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
    """Claim up to `limit` jobs, one after the other, and perform each; returns how many. `perform` commits its own result.

    A claim counts as an attempt, so a job is claimed when its work begins: one that ends the process takes no other job's tries with it.
    """
    for done in range(limit):
        with store.begin() as work:
            jobs = work.studies.claim(step, 1, lease)
        if not jobs:
            return done
        _run_one(store, step, jobs[0], lease, retry, clock, perform)
    return limit


def _run_one(store: Store, step: Step, job: Job, lease: Lease, retry: Retry, clock: Clock, perform: Callable[[Job], None]) -> None:
    started = clock.now()
    with _kept(store, job.id, lease):
        outcome = _perform(store, job, lease, retry, perform)
    seconds = (clock.now() - started) / timedelta(seconds=1)
    metrics.STEPS.labels(step, outcome).inc()
    metrics.STEP_SECONDS.labels(step).observe(seconds)
    logger.info(step.value, job_id=str(job.id), study_id=str(job.study_id), outcome=outcome, seconds=round(seconds, 3))


def _perform(store: Store, job: Job, lease: Lease, retry: Retry, perform: Callable[[Job], None]) -> str:
    """Perform one job; returns done, unsupported, failed, retried or lost."""
    try:
        try:
            perform(job)
        except LeaseLost:
            return "lost"
        except Unsupported as error:
            state = JobState.UNSUPPORTED if JobState.UNSUPPORTED in MOVES[job.state] else JobState.FAILED
            return _end(store, job, state, str(error), lease)
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
def _kept(store: Store, job_id: UUID, lease: Lease) -> Iterator[None]:
    """Extend the job's lease, three times per lease, until the block ends."""
    stop = threading.Event()
    thread = threading.Thread(target=_beat, args=(store, job_id, lease, stop), name="lease-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=lease.seconds)


def _beat(store: Store, job_id: UUID, lease: Lease, stop: threading.Event) -> None:
    while not stop.wait(lease.seconds / 3):
        with suppress(ServiceUnavailable):  # the database is away: try again with the next beat
            with store.begin() as work:
                kept = work.studies.heartbeat(job_id, lease)
            if not kept:
                return
