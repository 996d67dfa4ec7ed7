"""Sweep: hand back expired leases, ring for every step that has rows waiting, and say when one waits too long. What a bell forgot, this finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from pipeline import log, metrics
from pipeline.evidence import Patience
from pipeline.flow.alert import escalate
from pipeline.model import Step
from pipeline.ports import Doorbell, Store

SWEPT = (Step.ASSEMBLE, Step.ENCODE, Step.DRAFT, Step.DELIVER)
QUEUES = (Step.ENCODE, Step.DRAFT)
LANES = {True: "stat", False: "others"}
ALARM_S: Mapping[bool, float] = MappingProxyType({True: 300.0, False: 3600.0})
ROUND = "sweep"
logger = log.get(__name__)


@dataclass(frozen=True)
class Sweeping:
    """What the step works with. `every_s`: no two sweeps of the site begin within it, whoever rings; `alarm_s`: how long a STAT job (True) and
    another (False) may wait until that is an alarm."""

    store: Store
    bell: Doorbell
    max_attempts: int
    patience: Patience
    every_s: float = 0.0
    alarm_s: Mapping[bool, float] = field(default_factory=lambda: ALARM_S)


def sweep(ports: Sweeping) -> dict[Step, int]:
    """Rows waiting per step after letting overdue alerts climb and handing back expired leases; each step with any gets one ring. Nothing where
    another sweep has just begun: two schedules then do one's work."""
    with ports.store.begin() as work:
        if not work.studies.turn(ROUND, ports.every_s):
            return {}
    escalate(ports.store)
    with ports.store.begin() as work:
        reclaimed = work.studies.reclaim_expired(ports.max_attempts)
    with ports.store.begin() as work:
        waiting = {step: work.studies.waiting(step, ports.patience) for step in SWEPT}
        doses = work.doses.waiting()
        ages = {step: work.studies.oldest_s(step) for step in QUEUES}
    metrics.WAITING.labels(Step.DOSE).set(doses)
    for step, rows in waiting.items():
        metrics.WAITING.labels(step).set(rows)
        if rows or (doses and step is Step.ASSEMBLE):  # dose runs inside the assemble task
            ports.bell.ring(step)
    tell_ages(ports, ages)
    if reclaimed:
        metrics.RECLAIMED.inc(reclaimed)
        logger.warning("reclaimed", rows=reclaimed)
    return waiting


def tell_ages(ports: Sweeping, ages: Mapping[Step, Mapping[bool, float]]) -> None:
    """How long the longest waits, per step and lane, as a metric; past its limit as an alarm in the log and in the metric beside."""
    for step, oldest in ages.items():
        for urgent, lane in LANES.items():
            age_s, limit_s = oldest.get(urgent, 0.0), ports.alarm_s[urgent]
            metrics.QUEUE_AGE.labels(step, lane).set(age_s)
            metrics.QUEUE_ALARM.labels(step, lane).set(float(age_s > limit_s))
            if age_s > limit_s:
                logger.error("queue_too_old", step=step.value, lane=lane, age_s=round(age_s), limit_s=round(limit_s))
