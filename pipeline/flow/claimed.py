"""What encode and draft share: claim jobs under a lease, keep the lease alive, and turn every error into a row's next state.

A claim counts as an attempt, so a job is claimed when its work begins. Work in company claims several that were never tried before; one that was
is worked on alone, so a job that ends its process costs each other one try at most.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from uuid import UUID

from pipeline import log, metrics
from pipeline.errors import LeaseLost, Permanent, PipelineError, ServiceUnavailable, Transient, Unsupported
from pipeline.model import MOVES, Job, JobState, Lease, Step
from pipeline.ports import Clock, Store, Work
from pipeline.retrying import Retry, family_of
from pipeline.urgency import UNBOUND, Pick, Slots, Turns

logger = log.get(__name__)
Ending = Callable[[], None]  # commits one job's result; raises what became of it instead


def never() -> bool:
    """A process that nobody has asked to end."""
    return False


@dataclass(frozen=True)
class Claims:
    """How a process claims: how many jobs the site works on at once, whose turn it is, and whether it should take no more."""

    slots: Slots = UNBOUND
    turns: Turns = field(default_factory=Turns)
    stopping: Callable[[], bool] = never


ANYHOW = Claims()


@dataclass(frozen=True)
class Working:
    """What both ways of working need of their step: where its jobs are, under which lease, what follows an error, and how it claims.
    `urgent`: STAT alone is claimed."""

    store: Store
    step: Step
    lease: Lease
    retry: Retry
    clock: Clock
    claims: Claims = ANYHOW
    urgent: bool = False


def run_claimed(working: Working, limit: int, perform: Callable[[Job], None]) -> int:
    """Claim up to `limit` jobs, one after the other, and perform each; returns how many. `perform` commits its own result."""

    def claim(work: Work, pick: Pick) -> Sequence[Job]:
        return work.studies.claim(working.step, 1, working.lease, pick, working.claims.slots)

    done = 0
    while done < limit and (jobs := _claimed(working, claim)):
        _run(working, jobs, lambda claimed: [partial(perform, job) for job in claimed])
        done += len(jobs)
    return done


def run_together(working: Working, limit: int, size: int, compute: Callable[[Sequence[Job]], Sequence[Ending]]) -> int:
    """Claim up to `limit` jobs, up to `size` at once (0: none now), and compute what becomes of them; returns how many.

    `compute` answers with one ending per job, which commits that job's result or raises why there is none; what it raises itself is every job's end.
    """
    done, limit = 0, limit if size else 0

    def claim(work: Work, pick: Pick) -> Sequence[Job]:
        return work.studies.claim_together(working.step, min(size, limit - done), working.lease, pick, working.claims.slots)

    while done < limit and (jobs := _claimed(working, claim)):
        _run(working, jobs, compute)
        done += len(jobs)
    return done


def _claimed(working: Working, claim: Callable[[Work, Pick], Sequence[Job]]) -> Sequence[Job]:
    """The next jobs, with a line in the trail for each; none once the process should take no more."""
    turns = working.claims.turns
    if working.claims.stopping():
        return ()
    picks = (Pick.URGENT,) if working.urgent else tuple(dict.fromkeys((turns.pick(), Pick.FIRST)))
    with working.store.begin() as work:
        jobs: Sequence[Job] = next((found for pick in picks if (found := claim(work, pick))), ())
        for job in jobs:
            work.audit.append("claimed", study_id=job.study_id, job_id=job.id, step=working.step.value, attempt=str(job.attempts))
    if not working.urgent:
        turns.took([job.priority for job in jobs])
    return jobs


def _run(working: Working, jobs: Sequence[Job], compute: Callable[[Sequence[Job]], Sequence[Ending]]) -> None:
    step, started = working.step, working.clock.now()
    with kept(working.store, [job.id for job in jobs], working.lease, lambda work, job_id: work.studies.heartbeat(job_id, working.lease)):
        endings = _computed(jobs, compute)
        outcomes = [_settle(working, job, ending) for job, ending in zip(jobs, endings, strict=True)]
    seconds = (working.clock.now() - started) / timedelta(seconds=1)
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


def _settle(working: Working, job: Job, ending: Ending) -> str:
    """Bring one job to its end; returns done, unsupported, failed, retried or lost."""
    try:
        try:
            ending()
        except LeaseLost:
            return "lost"
        except Unsupported as error:
            state = JobState.UNSUPPORTED if JobState.UNSUPPORTED in MOVES[job.state] else JobState.FAILED
            return _end(working, job, state, error, str(error))
        except (Permanent, Transient) as error:
            return _failed(working, job, error)
    except (LeaseLost, ServiceUnavailable):
        return "lost"  # the row stays under its lease; the sweeper hands it back when that runs out
    return "done"


def _failed(working: Working, job: Job, error: Permanent | Transient) -> str:
    """Given back for another try, or failed where its family has none left."""
    pause_s = working.retry.after(error, job.attempts)
    if pause_s is None:
        tried = f" (tried {job.attempts} times; `ctreport retry` starts again)" if isinstance(error, Transient) else ""
        return _end(working, job, JobState.FAILED, error, f"{error}{tried}")
    with working.store.begin() as work:
        work.studies.give_back(job, str(error), pause_s, working.lease)
        facts = {"step": working.step.value, "family": family_of(error).value, "attempt": str(job.attempts), "pause_s": f"{pause_s:.1f}"}
        work.audit.append("retried", study_id=job.study_id, job_id=job.id, **facts)
    return "retried"


def _end(working: Working, job: Job, state: JobState, error: PipelineError, reason: str) -> str:
    with working.store.begin() as work:
        work.studies.end(job, state, reason, working.lease)
        facts = {"step": working.step.value, "family": family_of(error).value, "attempt": str(job.attempts)}
        work.audit.append(state.value, study_id=job.study_id, job_id=job.id, **facts)
    return state.value


@contextmanager
def kept(store: Store, ids: Sequence[UUID], lease: Lease, extend: Callable[[Work, UUID], bool]) -> Iterator[None]:
    """Extend the leases of these rows, three times per lease, until the block ends. `extend` answers False for one that is somebody else's."""
    stop = threading.Event()
    thread = threading.Thread(target=_beat, args=(store, list(ids), lease, extend, stop), name="lease-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(timeout=lease.seconds)


def _beat(store: Store, ids: list[UUID], lease: Lease, extend: Callable[[Work, UUID], bool], stop: threading.Event) -> None:
    while ids and not stop.wait(lease.seconds / 3):
        with suppress(ServiceUnavailable), store.begin() as work:  # the database is away: try again with the next beat
            ids[:] = [row_id for row_id in ids if extend(work, row_id)]
