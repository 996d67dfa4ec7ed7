"""Sweep: hand back expired leases and ring for every step that has rows waiting. What a lost bell forgot, this finds."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline import log, metrics
from pipeline.model import Patience, Step
from pipeline.ports import Doorbell, Store

SWEPT = (Step.ASSEMBLE, Step.ENCODE, Step.DRAFT, Step.DELIVER)
logger = log.get(__name__)


@dataclass(frozen=True)
class Sweeping:
    """What the step works with."""

    store: Store
    bell: Doorbell
    max_attempts: int
    patience: Patience


def sweep(ports: Sweeping) -> dict[Step, int]:
    """Rows waiting per step after handing back expired leases; each step with any gets one ring."""
    with ports.store.begin() as work:
        reclaimed = work.studies.reclaim_expired(ports.max_attempts)
    with ports.store.begin() as work:
        waiting = {step: work.studies.waiting(step, ports.patience) for step in SWEPT}
    for step, rows in waiting.items():
        metrics.WAITING.labels(step).set(rows)
        if rows:
            ports.bell.ring(step)
    if reclaimed:
        metrics.RECLAIMED.inc(reclaimed)
        logger.warning("reclaimed", rows=reclaimed)
    return waiting
