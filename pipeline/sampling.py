"""The nightly quality sample: what is measured of a draft, what a control chart says of many, and the port to its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from pipeline.model import Candidate, Report


class Worse(StrEnum):
    """Which way a figure goes when drafts get worse."""

    LOWER = "lower"
    HIGHER = "higher"
    EITHER = "either"


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a draft. A chart takes no spread below `least_sd` for true, and no shift below `least_shift` for drift."""

    name: str
    worse: Worse
    least_sd: float
    least_shift: float
    meaning: str


FIGURES = (
    Figure("fields", Worse.LOWER, 0.02, 0.02, "share of the fields of a report that are there: its sections, each finding's place, size and shape"),
    Figure("terms", Worse.HIGHER, 0.3, 0.3, "words that are not on the list of terms, also those that a rule has replaced"),
    Figure("sides", Worse.LOWER, 0.03, 0.03, "share of findings on the side where their candidate lies, seen from the midline"),
    Figure("repetition", Worse.HIGHER, 0.02, 0.03, "share of sentences that were said before in the same section"),
    Figure("length", Worse.EITHER, 10.0, 20.0, "characters of the report"),
    Figure("acceptance", Worse.LOWER, 0.03, 0.05, "tokens accepted per token drafted"),
)
Figures = Mapping[str, float | None]  # None: there was nothing to measure


@dataclass(frozen=True, slots=True)
class Drafted:
    """One draft that may be sampled."""

    id: UUID
    department: str
    scanner: str


@dataclass(frozen=True, slots=True)
class Sampled:
    """One draft of the sample, as it was written and checked."""

    id: UUID
    department: str
    scanner: str
    model: str  # name and the first digits of its digest
    rules_version: int
    report: Report
    indication: str
    candidates: tuple[Candidate, ...]
    midline_mm: float | None  # x of patient LPS; None where nobody kept it
    replaced: int  # words that the rules replaced
    acceptance: float | None  # None: no token was drafted


@dataclass(frozen=True, slots=True)
class Measured:
    """The figures of one draft, and what it belongs to."""

    draft_id: UUID
    night: date
    department: str
    scanner: str
    model: str
    rules_version: int
    figures: Figures


class Chart(StrEnum):
    """How a chart found drift."""

    JUMP = "jump"  # this night alone lies outside the limits
    TREND = "trend"  # the weighted mean of the last nights does


@dataclass(frozen=True, slots=True)
class Alarm:
    """One figure of one group of drafts that left its limits. `fresh`: models and rule versions that the baseline does not know."""

    night: date
    figure: str
    chart: Chart
    scanners: tuple[str, ...]
    departments: tuple[str, ...]
    models: tuple[str, ...]
    rules_versions: tuple[int, ...]
    value: float
    expected: float
    limit: float
    drafts: int
    baseline_drafts: int
    fresh: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stratum:
    """The drafts of one department and scanner in the sampled time."""

    department: str
    scanner: str
    drafts: int
    sampled: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One night's sample. `learning`: how many more drafts the baseline of all drafts needs until it can tell drift."""

    night: date
    since: datetime
    until: datetime
    share: float
    seed: int
    strata: tuple[Stratum, ...] = ()
    measured: tuple[Measured, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    learning: int = 0

    @property
    def drafts(self) -> int:
        """All drafts of the sampled time."""
        return sum(one.drafts for one in self.strata)


class Samples(Protocol):
    """The rows of the nightly samples."""

    def open(self, sample: Sample) -> bool:
        """Note that a night is sampled; False where it was already, also by somebody who is still at it."""

    def drafts(self, since: datetime, until: datetime) -> tuple[Drafted, ...]:
        """What was drafted from `since` until just before `until`."""

    def read(self, ids: Sequence[UUID]) -> tuple[Sampled, ...]:
        """These drafts, whole."""

    def history(self, before: date, nights: int) -> tuple[Measured, ...]:
        """What was measured in the last `nights` sampled nights before one, none older than the last new beginning. Oldest first."""

    def keep(self, sample: Sample) -> None:
        """Fill in the night that was opened."""

    def get(self, night: date) -> Sample | None:
        """One night's sample."""

    def last(self) -> date | None:
        """The newest night that was sampled."""

    def alarms(self, night: date) -> tuple[Alarm, ...]:
        """What drifted in one night."""

    def begin_anew(self, night: date) -> bool:
        """What is measured from this night on is the new baseline; False where the night was not sampled."""
