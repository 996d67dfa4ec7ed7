"""The night shift's values and port: the off-peak window, what waits for a draft, the plan, and what the morning report is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Protocol
from uuid import UUID
from zoneinfo import ZoneInfo

from pipeline.model import JobState, Priority

DAY = timedelta(days=1)


class Kind(StrEnum):
    """Why a study is in a night's plan."""

    UNREAD = "unread"  # a reader will want it
    PRIOR = "prior"  # an earlier examination of somebody who will be read
    BACKLOG = "backlog"  # nobody is known to want it; when there is time


@dataclass(frozen=True, slots=True)
class Window:
    """One off-peak span of time, from `opens` until just before `closes`."""

    opens: datetime
    closes: datetime

    def __contains__(self, moment: datetime) -> bool:
        return self.opens <= moment < self.closes


@dataclass(frozen=True, slots=True)
class OffPeak:
    """Every day's window in the site's own time, also across midnight and when clocks change; equal times mean that it never closes."""

    start: time
    end: time
    zone: ZoneInfo
    first_reader: time

    def opening_on(self, day: date) -> Window:
        """The window that opens on that day. A time that the clocks show twice begins with the first and ends with the second; a window that they
        skip is empty."""
        last = day if self.end > self.start else day + DAY
        opens, following = self._at(day, self.start), self._at(day + DAY, self.start)
        return Window(opens, max(opens, min(self._at(last, self.end, fold=1), following)))

    def current(self, now: datetime) -> Window | None:
        """The window that `now` lies in."""
        return next((window for window in self._around(now) if now in window), None)

    def following(self, now: datetime) -> Window:
        """The first window that opens after `now`."""
        return next(window for window in self._around(now) if window.opens > now)

    def latest(self, now: datetime) -> Window:
        """The window that opened last: the present one, or the one that a morning report is about."""
        return [window for window in self._around(now) if window.opens <= now][-1]

    def wait_s(self, now: datetime) -> float:
        """Seconds until a window is open; 0 while one is."""
        return 0.0 if self.current(now) else (self.following(now).opens - now) / timedelta(seconds=1)

    def read_from(self, window: Window) -> datetime:
        """When the first reader comes after this window opened."""
        day = window.opens.astimezone(self.zone).date()
        moments = (self._at(day + days * DAY, self.first_reader, fold=0) for days in range(3))
        return next(moment for moment in moments if moment > window.opens)

    def _around(self, now: datetime) -> list[Window]:
        today = now.astimezone(self.zone).date()
        return [self.opening_on(today + days * DAY) for days in (-2, -1, 0, 1, 2)]

    def _at(self, day: date, clock: time, *, fold: int = 0) -> datetime:
        """In UTC: local times are compared without regard to clocks that change. One that the clocks skip is as much later as they skip."""
        local = datetime.combine(day, clock, self.zone)
        exists = local.astimezone(UTC).astimezone(self.zone).replace(tzinfo=None) == local.replace(tzinfo=None)
        return local.replace(fold=fold if exists else 0).astimezone(UTC)


@dataclass(frozen=True, slots=True)
class Waiting:
    """One study whose current job has not written its draft yet. `reads_at`: its own appointment, or its patient's; None where nobody is known to
    come. `wanted_by`: when something newer of the same patient will be read, so that this is its prior."""

    study_id: UUID
    state: JobState
    priority: Priority
    received: datetime
    modalities: tuple[str, ...]
    reads_at: datetime | None = None
    wanted_by: datetime | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds per study as measured on `studies` that were drafted lately; where none was, the seconds are a guess."""

    encode_s: float
    draft_s: float
    studies: int
    encode_slots: int = 1
    draft_slots: int = 1


@dataclass(frozen=True, slots=True)
class Planned:
    """One study in its place of a plan, and when its draft should be there."""

    study_id: UUID
    kind: Kind
    priority: Priority
    reads_at: datetime | None
    expected_at: datetime


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan's row; `planned_at` is None until its studies stand in it."""

    id: UUID
    window: Window
    first_reader_at: datetime
    planned_at: datetime | None
    ended_at: datetime | None = None
    pace: Pace | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """When a patient is expected to be read, and the accession number of that examination where it is known."""

    patient_id: str
    accession: str
    reads_at: datetime


@dataclass(frozen=True, slots=True)
class NightStudy:
    """One study of the morning report: what was planned for it and what came of it. `step` and `reason` say where it stands without a draft."""

    study_id: UUID
    priority: Priority
    state: str
    step: str | None
    reason: str
    partial: str  # what its images lack; empty: nothing
    received: datetime
    drafted_at: datetime | None
    kind: Kind | None = None  # None: not planned, it came in the night
    reads_at: datetime | None = None
    expected_at: datetime | None = None
    departments: tuple[str, ...] = ()  # whose draft could not be written


@dataclass(frozen=True, slots=True)
class NightDraft:
    """One draft of the night. `served`: by a draft server, so on a GPU as a rule."""

    study_id: UUID
    department: str
    priority: Priority
    received: datetime
    drafted_at: datetime
    seconds: float
    served: bool
    drafted: int  # tokens that were drafted ahead, forced ones excluded
    accepted: int
    flags: Mapping[tuple[str, str], int]  # rule and severity → hits


@dataclass(frozen=True, slots=True)
class Reading:
    """One report that somebody has opened lately, and signed or not."""

    department: str
    priority: Priority
    drafted_at: datetime
    opened_at: datetime
    signed_at: datetime | None


@dataclass(frozen=True, slots=True)
class Encoding:
    """When one study was encoded, and by which encoder."""

    encoder: str
    begins: datetime
    ends: datetime


@dataclass(frozen=True, slots=True)
class Night:
    """Everything that a morning report is made of; `now` is when it was read."""

    window: Window
    first_reader_at: datetime
    now: datetime
    plan: Plan | None
    studies: tuple[NightStudy, ...]
    drafts: tuple[NightDraft, ...]
    readings: tuple[Reading, ...]
    encodings: tuple[Encoding, ...]


class NightShift(Protocol):
    """Plans and what they are made of. Whoever plans has taken the turn."""

    def now(self) -> datetime:
        """The database's clock."""

    def take_turn(self) -> bool:
        """Keep others from planning until the end of the transaction; False while somebody else does."""

    def plan(self, window: Window, first_reader_at: datetime) -> Plan:
        """The window's plan, made where there is none yet."""

    def end_plans(self) -> tuple[UUID, ...]:
        """Plans whose window has closed, ended now, each once."""

    def pace(self, days: float) -> Pace | None:
        """Medians over what was drafted in the last `days`; None where nothing was."""

    def waiting(self, until: datetime) -> tuple[Waiting, ...]:
        """Studies whose current job has no draft yet, with who is expected to be read from now until then."""

    def keep(self, plan: Plan, items: Sequence[Planned], pace: Pace) -> None:
        """Put the studies into the plan in this order, and their waiting jobs into the same order among their priority; those that wait for another
        try keep their time."""

    def defer(self, to: datetime) -> int:
        """Night jobs that nobody works on wait until then; returns how many are new to that."""

    def expect(self, readings: Sequence[Expected], source: str) -> int:
        """Note appointments; returns how many are new."""

    def night(self, window: Window, first_reader_at: datetime) -> Night:
        """What the report of one night is made of."""
