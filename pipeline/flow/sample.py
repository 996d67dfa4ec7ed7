"""Sample: every night a share of the drafts is measured and held against the nights before; what drifts is an alarm.

The night is a row, so that it is done once, whoever asks and however often, and made up for after a pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from pipeline import log, metrics
from pipeline.flow.charts import drift, learning
from pipeline.flow.sampled import measured, picked
from pipeline.ports import Clock, Store
from pipeline.sampling import Alarm, Sample

HISTORY_NIGHTS = 40
MADE_UP_NIGHTS = 7  # that are sampled late, after everything stood still
logger = log.get(__name__)


@dataclass(frozen=True)
class Sampling:
    """What the step works with. A night ends at `at` in the site's time zone; it is called by the day on which it ends."""

    store: Store
    clock: Clock
    share: float
    seed: int
    at: time
    zone: ZoneInfo


def sample_due(ports: Sampling) -> tuple[Sample, ...]:
    """Sample the nights that are over and not sampled yet; those that this call sampled."""
    newest = night_of(ports.clock.now(), ports.at, ports.zone)
    with ports.store.begin() as work:
        last = work.samples.last()
    first = newest if last is None else max(last + timedelta(days=1), newest - timedelta(days=MADE_UP_NIGHTS - 1))
    nights = [first + timedelta(days=number) for number in range((newest - first).days + 1)]
    return tuple(done for night in nights if (done := sample(ports, night)) is not None)


def sample(ports: Sampling, night: date) -> Sample | None:
    """Sample one night in one transaction; None where somebody has."""
    since, until = span(night, ports.at, ports.zone)
    opened = Sample(night, since, until, ports.share, ports.seed)
    with ports.store.begin() as work:
        if not work.samples.open(opened):
            return None
        strata, chosen = picked(work.samples.drafts(since, until), ports.share, ports.seed, night)
        ruleset = work.rules.current()
        figures = tuple(measured(one, ruleset, night) for one in work.samples.read([draft.id for draft in chosen]))
        history = work.samples.history(night, HISTORY_NIGHTS)
        done = replace(opened, strata=strata, measured=figures, alarms=drift(figures, history), learning=learning(history))
        work.samples.keep(done)
        for alarm in done.alarms:
            work.audit.append("drift", study_id=None, job_id=None, actor="system", **told(alarm))
    _tell(done.alarms)
    logger.info("sample", night=night.isoformat(), drafts=done.drafts, sampled=len(figures), alarms=len(done.alarms), learning=done.learning)
    return done


def night_of(now: datetime, at: time, zone: ZoneInfo) -> date:
    """The newest night that is over."""
    local = now.astimezone(zone)
    return local.date() if local.time() >= at else local.date() - timedelta(days=1)


def night_with(moment: datetime, at: time, zone: ZoneInfo) -> date:
    """The night whose drafts were written around a moment."""
    return night_of(moment, at, zone) + timedelta(days=1)


def span(night: date, at: time, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """From when until just before when a night's drafts were written: 23, 24 or 25 hours."""
    return datetime.combine(night - timedelta(days=1), at, zone), datetime.combine(night, at, zone)


def told(alarm: Alarm) -> dict[str, str]:
    """An alarm as words: what drifted how far, and of which scanner, department, model and rule version."""
    return {
        "night": alarm.night.isoformat(),
        "figure": alarm.figure,
        "chart": alarm.chart.value,
        "scanner": ", ".join(alarm.scanners),
        "department": ", ".join(alarm.departments),
        "model": ", ".join(alarm.models),
        "rules": ", ".join(map(str, alarm.rules_versions)),
        "value": f"{alarm.value:.4g}",
        "expected": f"{alarm.expected:.4g}",
        "limit": f"{alarm.limit:.4g}",
        "fresh": ", ".join(alarm.fresh),
    }


def _tell(alarms: Sequence[Alarm]) -> None:
    metrics.DRIFT.set(len(alarms))
    for alarm in alarms:
        logger.warning("drift", **told(alarm))
