"""Drafts that somebody asked for beside what a study's own job writes: claimed once that job is drafted, written from its frozen findings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from uuid import UUID

from pipeline import log, metrics
from pipeline.asking import Lengths, Request
from pipeline.errors import LeaseLost, Permanent, ServiceUnavailable, Transient
from pipeline.flow.claimed import kept
from pipeline.flow.draft import Drafting, write_for
from pipeline.model import Lease, Step

EVERY = ""  # the key of one length for every section
logger = log.get(__name__)


def draft_asked(ports: Drafting, limit: int, lease: Lease) -> int:
    """Write up to `limit` drafts that were asked for, one after the other; returns how many were claimed."""
    done = 0
    while done < limit:
        if ports.claims.stopping():
            break
        with ports.store.begin() as work:
            claimed = work.requests.claim(1, lease, ports.claims.slots)
        if not claimed:
            break
        _run(ports, claimed[0], lease)
        done += 1
    if done:
        ports.bell.ring(Step.DELIVER)
    return done


def by_section(lengths: Lengths) -> Mapping[str, int] | None:
    """Tokens drafted per step by section, as the draft step takes them."""
    return {EVERY: lengths} if isinstance(lengths, int) else lengths


def _run(ports: Drafting, request: Request, lease: Lease) -> None:
    started = ports.clock.now()
    with kept(ports.store, [request.id], lease, lambda work, request_id: work.requests.heartbeat(request_id, lease)):
        outcome = _settle(ports, request, lease)
    seconds = (ports.clock.now() - started) / timedelta(seconds=1)
    metrics.STEPS.labels(Step.DRAFT, outcome).inc()
    metrics.STEP_SECONDS.labels(Step.DRAFT).observe(seconds)
    logger.info("draft_asked", request_id=str(request.id), study_id=str(request.job.study_id), outcome=outcome, seconds=round(seconds, 3))


def _settle(ports: Drafting, request: Request, lease: Lease) -> str:
    """Bring one request to its end; returns done, failed, retried or lost."""
    try:
        try:
            draft_id = request.draft_id or _write(ports, request, lease)
            with ports.store.begin() as work:
                work.requests.drafted(request, draft_id, lease)
        except LeaseLost as error:  # the revision was superseded while its text was written: the next one is waited for
            return _again(ports, request, error, ports.retry.after(error, 1) or 0.0, lease)
        except Permanent as error:
            return _end(ports, request, str(error), lease)
        except Transient as error:
            pause_s = ports.retry.after(error, request.attempts)
            if pause_s is None:
                return _end(ports, request, f"{error} (tried {request.attempts} times; ask for the draft again)", lease)
            return _again(ports, request, error, pause_s, lease)
    except (LeaseLost, ServiceUnavailable):
        return "lost"  # the row stays under its lease; the sweeper hands it back when that runs out
    return "done"


def _write(ports: Drafting, request: Request, lease: Lease) -> UUID:
    def told(section: str, tokens: int) -> None:
        with suppress(ServiceUnavailable), ports.store.begin() as work:  # how far it is may be lost, the text not
            work.requests.told(request.id, section, tokens, lease)

    return write_for(ports, request.job, request.department, by_section(request.lengths), told)


def _again(ports: Drafting, request: Request, error: Transient, pause_s: float, lease: Lease) -> str:
    with ports.store.begin() as work:
        work.requests.give_back(request, str(error), pause_s, lease)
    return "retried"


def _end(ports: Drafting, request: Request, reason: str, lease: Lease) -> str:
    with ports.store.begin() as work:
        work.requests.end(request, reason, lease)
        work.audit.append("draft_unwritten", study_id=request.job.study_id, job_id=request.job.id, department=request.department)
    return "failed"
