"""Sweep: hand back expired leases and ring for every step that has rows waiting. What a lost bell forgot, this finds."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline import log, metrics
from pipeline.evidence import Patience
from pipeline.flow.alert import escalate
from pipeline.model import Step
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
    """Rows waiting per step after letting overdue alerts climb and handing back expired leases; each step with any gets one ring."""
    escalate(ports.store)
    with ports.store.begin() as work:
        reclaimed = work.studies.reclaim_expired(ports.max_attempts)
    with ports.store.begin() as work:
        waiting = {step: work.studies.waiting(step, ports.patience) for step in SWEPT}
        doses = work.doses.waiting()
    metrics.WAITING.labels(Step.DOSE).set(doses)
    for step, rows in waiting.items():
        metrics.WAITING.labels(step).set(rows)
        if rows or (doses and step is Step.ASSEMBLE):  # dose runs inside the assemble task
            ports.bell.ring(step)
    if reclaimed:
        metrics.RECLAIMED.inc(reclaimed)
        logger.warning("reclaimed", rows=reclaimed)
    return waiting
