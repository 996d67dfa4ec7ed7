"""What encode and draft share: claim jobs under a lease, keep the lease alive, and turn every error into a row's next state.

A claim counts as an attempt, so a job is claimed when its work begins. Work in company claims several that were never tried before; one that was
is worked on alone, so a job that ends its process costs each other one try at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID

from pipeline import log, metrics
from pipeline.errors import LeaseLost, Permanent, ServiceUnavailable, Transient, Unsupported
from pipeline.model import MOVES, Job, JobState, Lease, Step
from pipeline.ports import Clock, Store

logger = log.get(__name__)
Ending = Callable[[], None]  # commits one job's result; raises what became of it instead


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how soon a transient failure is tried again."""

    max_attempts: int
    delay_s: float

    def delay_after(self, attempts: int) -> float:
        """Seconds until the next try: doubles with each attempt, at most ten minutes."""
        return float(min(self.delay_s * 2 ** max(0, attempts - 1), 600.0))


def run_claimed(store: Store, step: Step, limit: int, lease: Lease, retry: Retry, clock: Clock, perform: Callable[[Job], None]) -> int:
    """Claim up to `limit` jobs, one after the other, and perform each; returns how many. `perform` commits its own result."""
    for done in range(limit):
        with store.begin() as work:
            jobs = work.studies.claim(step, 1, lease)
        if not jobs:
            return done
        _run(store, step, jobs, lease, retry, clock, lambda claimed: [partial(perform, job) for job in claimed])
    return limit


def run_together(
    store: Store, step: Step, limit: int, size: int, lease: Lease, retry: Retry, clock: Clock, compute: Callable[[Sequence[Job]], Sequence[Ending]]
) -> int:
    """Claim up to `limit` jobs, up to `size` at once, and compute what becomes of them; returns how many.

    `compute` answers with one ending per job, which commits that job's result or raises why there is none; what it raises itself is every job's end.
    """
    done = 0
    while done < limit:
        with store.begin() as work:
            jobs = work.studies.claim_together(step, min(size, limit - done), lease)
        if not jobs:
            return done
        _run(store, step, jobs, lease, retry, clock, compute)
        done += len(jobs)
    return done


def _run(
    store: Store, step: Step, jobs: Sequence[Job], lease: Lease, retry: Retry, clock: Clock, compute: Callable[[Sequence[Job]], Sequence[Ending]]
) -> None:
    started = clock.now()
    with _kept(store, [job.id for job in jobs], lease):
        endings = _computed(jobs, compute)
        outcomes = [_settle(store, job, lease, retry, ending) for job, ending in zip(jobs, endings, strict=True)]
    seconds = (clock.now() - started) / timedelta(seconds=1)
    for job, outcome in zip(jobs, outcomes, strict=True):
        metrics.STEPS.labels(step, outcome).inc()
        metrics.STEP_SECONDS.labels(step).observe(seconds / len(jobs))
        logger.info(step.value, job_id=str(job.id), study_id=str(job.study_id), outcome=outcome, seconds=round(seconds, 3), together=len(jobs))


def _computed(jobs: Sequence[Job], compute: Callable[[Sequence[Job]], Sequence[Ending]]) -> Sequence[Ending]:
    try:
        return compute(jobs)
    except (Permanent, Transient) as error:
        return [partial(fail, error)] * len(jobs)


def fail(error: Permanent | Transient) -> None:
    """An ending without a result."""
    raise error


def _settle(store: Store, job: Job, lease: Lease, retry: Retry, ending: Ending) -> str:
    """Bring one job to its end; returns done, unsupported, failed, retried or lost."""
    try:
        try:
            ending()
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
def _kept(store: Store, job_ids: Sequence[UUID], lease: Lease) -> Iterator[None]:
    """Extend the jobs' leases, three times per lease, until the block ends."""
    stop = threading.Event()
    thread = threading.Thread(target=_beat, args=(store, list(job_ids), lease, stop), name="lease-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=lease.seconds)


def _beat(store: Store, job_ids: list[UUID], lease: Lease, stop: threading.Event) -> None:
    while job_ids and not stop.wait(lease.seconds / 3):
        with suppress(ServiceUnavailable), store.begin() as work:  # the database is away: try again with the next beat
            job_ids[:] = [job_id for job_id in job_ids if work.studies.heartbeat(job_id, lease)]
