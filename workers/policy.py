"""What the settings say about the order and the pace of work, as the values that the steps take."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.model import Priority, Step
from pipeline.retrying import Family, Retry, RetryRule, usual
from pipeline.settings import Settings, WorkSettings
from pipeline.urgency import USUAL, Slots, UrgencyRule

SWEEP_SHARE = 0.75  # of the sweeper's period: of two schedules that ring at any distance one then leads, and a late bell still counts


def retry(room: WorkSettings) -> Retry:
    """How often and how soon each family of errors is tried again."""
    own = {Family(family): RetryRule(rule.tries, rule.first_s, rule.longest_s) for family, rule in (room.retries or {}).items()}
    return Retry(room.max_attempts, room.retry_delay_s, {**usual(room.max_attempts, room.retry_delay_s), **own})


def slots(room: WorkSettings, step: Step) -> Slots:
    """How many jobs of a step the site works on at once."""
    return Slots({Step.ENCODE: room.max_encoding, Step.DRAFT: room.max_drafting}.get(step), room.stat_slots)


def urgency(room: WorkSettings) -> tuple[UrgencyRule, ...]:
    """Which studies have a priority by where they come from."""
    if room.urgency is None:
        return USUAL
    return tuple(UrgencyRule(Priority[row.priority.upper()], row.aet, row.station, row.service) for row in room.urgency)


def alarms(room: WorkSettings) -> Mapping[bool, float]:
    """Seconds that a STAT job (True) and another (False) may wait."""
    return {True: room.stat_alarm_s, False: room.queue_alarm_s}


def drafting_width(config: Settings) -> int:
    """Jobs that one process drafts at the same time: servers take many texts at once, the embedded engine one."""
    return config.served.concurrency if config.draft_servers else 1
