"""Who goes first. STAT has a lane of its own before all others; in the other lane a job ages: its place is when it came plus how long its class may
wait, so that nothing that waits is passed by for ever, and a place never changes while one waits."""

from __future__ import annotations

import enum
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType

from pipeline.model import Header, Priority

# How long a class stands back behind those that came at the same time: a routine study that has waited two hours goes before a new inpatient.
PATIENCE: Mapping[Priority, timedelta] = MappingProxyType(
    {
        Priority.STAT: timedelta(0),
        Priority.INPATIENT: timedelta(0),
        Priority.ROUTINE: timedelta(hours=2),
        Priority.NIGHT: timedelta(hours=12),
    }
)
IN_A_ROW = 4  # STAT jobs that one worker claims one after the other while others wait
# DICOM PS3.3 C.4.11: Requested Procedure Priority is STAT, HIGH, ROUTINE, MEDIUM or LOW.
BY_CODE: Mapping[str, Priority] = MappingProxyType(
    {"STAT": Priority.STAT, "HIGH": Priority.INPATIENT, "MEDIUM": Priority.ROUTINE, "ROUTINE": Priority.ROUTINE, "LOW": Priority.NIGHT}
)


class Pick(enum.StrEnum):
    """Which jobs a claim takes."""

    FIRST = "first"  # STAT where there is any, else the others
    URGENT = "urgent"  # STAT alone
    OTHERS = "others"  # all but STAT


def rank(priority: Priority, since: datetime) -> datetime:
    """The place in its lane of a job that waits since then: the earlier goes first."""
    return since + PATIENCE[priority]


def is_urgent(priority: Priority) -> bool:
    """True in the lane that goes before all others."""
    return priority is Priority.STAT


class Turns:
    """Whose turn it is with one worker: STAT first, but after so many in a row one of the others, so that no flood of STAT starves them. A STAT that
    comes while others are worked on is the next one. Several threads may ask."""

    def __init__(self, in_a_row: int = IN_A_ROW) -> None:
        self._in_a_row, self._urgent, self._lock = in_a_row, 0, threading.Lock()

    def pick(self) -> Pick:
        """What to look for next."""
        with self._lock:
            return Pick.OTHERS if self._urgent >= self._in_a_row else Pick.FIRST

    def took(self, priorities: Sequence[Priority]) -> None:
        """Note what a claim found. After others, or after nothing where they had their turn, STAT may go on."""
        urgent = sum(1 for priority in priorities if is_urgent(priority))
        with self._lock:
            self._urgent = self._urgent + urgent if urgent and urgent == len(priorities) else 0


@dataclass(frozen=True, slots=True)
class Slots:
    """How many jobs of a step the whole site works on at once, `reserved` of them for STAT alone. Without a capacity there is no bound."""

    capacity: int | None = None
    reserved: int = 0

    def free(self, urgent: bool, working: int) -> int | None:
        """Jobs of a lane that may be claimed while so many are worked on; None: any number. One slot is never kept from all but STAT."""
        if self.capacity is None:
            return None
        kept = 0 if urgent else min(self.reserved, self.capacity - 1)
        return max(0, self.capacity - kept - working)


UNBOUND = Slots()


@dataclass(frozen=True, slots=True)
class UrgencyRule:
    """Studies that have a priority by where they come from; patterns are searched without regard to case, an empty one fits all."""

    priority: Priority
    aet: str = ""  # calling AE title
    station: str = ""  # StationName
    service: str = ""  # RequestingService

    def fits(self, header: Header, calling_aet: str) -> bool:
        """True when every pattern is found in its value."""
        values = ((self.aet, calling_aet), (self.station, header.station), (self.service, header.requesting_service))
        return all(re.search(pattern, value, re.IGNORECASE) for pattern, value in values if pattern)


# A department that calls itself emergency means it.
USUAL = (UrgencyRule(Priority.STAT, service="急诊|急救|抢救|emergency"), UrgencyRule(Priority.STAT, station="急诊|急救"))


def priority_of(header: Header, calling_aet: str, rules: Sequence[UrgencyRule]) -> Priority:
    """The first rule that fits decides, where it is more urgent than what the header says itself."""
    told = next((rule.priority for rule in rules if rule.fits(header, calling_aet)), header.priority)
    return min(told, header.priority)
