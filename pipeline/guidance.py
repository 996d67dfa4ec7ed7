"""Rows that a site edits about what follows from a finding: guidelines, critical findings, cues of a patient's history, what counts as growth."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class Population(StrEnum):
    """For whom a guideline is made."""

    INCIDENTAL = "incidental"
    SCREENING = "screening"


class Density(StrEnum):
    """Density of a nodule, as guidelines tell them apart."""

    SOLID = "实性"
    PART_SOLID = "部分实性"
    GROUND_GLASS = "磨玻璃"


class Count(StrEnum):
    """One nodule, or more."""

    SINGLE = "single"
    MULTIPLE = "multiple"


class Risk(StrEnum):
    """Risk group of the patient."""

    LOW = "low"
    HIGH = "high"


class Course(StrEnum):
    """How a nodule compares with the examination before. BASELINE: there is none."""

    BASELINE = "baseline"
    NEW = "new"
    GROWING = "growing"
    STABLE = "stable"


@dataclass(frozen=True, slots=True)
class GuidelineRow:
    """One row: whom it is for, and what it advises. Empty and None: the row does not ask. Sizes `from_mm` ≤ size < `below_mm`."""

    id: str
    source: str  # document, table, row
    advice: str
    densities: tuple[Density, ...] = ()
    count: Count | None = None
    risk: Risk | None = None
    courses: tuple[Course, ...] = ()
    from_mm: float | None = None
    below_mm: float | None = None
    solid_from_mm: float | None = None  # of the solid component
    solid_below_mm: float | None = None
    category: str = ""


@dataclass(frozen=True, slots=True)
class Guideline:
    """A published table. `round_mm`: to what it rounds a mean diameter. `growth_mm`: more than this is growth; None where it does not ask."""

    id: str
    name: str
    source: str
    enabled: bool
    population: Population | None  # None: for anybody
    round_mm: float
    rows: tuple[GuidelineRow, ...]
    min_age_years: float | None = None
    excludes: tuple[str, ...] = ()  # inputs that must be known, and be false: cancer, immunosuppressed
    growth_mm: float | None = None
    first_only: bool = False  # for nodules that no earlier examination shows


@dataclass(frozen=True, slots=True)
class HistoryCue:
    """Words in the indication that tell of the patient. `input`: screening, cancer, immunosuppressed, risk, family (lung cancer in the
    family); `answer`: yes, no, high, low."""

    input: str
    answer: str
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CriticalRule:
    """A finding that somebody must be told of at once (危急值). `words` are terms of the lexicon, other forms of them, or words of the site's own;
    `夹层@主动脉` is 夹层 that lies in 主动脉.

    An alert is overdue after `minutes`: it climbs one level then, and one more each `minutes` after, up to `levels`.
    """

    id: str
    finding: str  # as people are told
    words: tuple[str, ...]
    severity: str  # immediate | urgent
    minutes: int
    source: str
    qualifiers: tuple[str, ...] = ()  # one of these must be said of it: 大量, 纵隔移位
    unless: tuple[str, ...] = ()  # none of these may be said of it: 慢性
    percent: int | None = None  # 压缩 of at least this many per cent is as good as a qualifier
    levels: int = 3

    @property
    def step(self) -> timedelta:
        """Between two levels."""
        return timedelta(minutes=self.minutes)


@dataclass(frozen=True, slots=True)
class GrowthRule:
    """What counts as growth between two examinations, and which nodules are the same one."""

    id: str
    source: str
    min_growth_mm: float
    repeatability_mm: float  # 95 % limits of agreement of two readers' diameters
    thickness_factor: float  # slices thicker than this many times the other's are not compared
    match_mm: float  # a nodule this near, in the coordinates of the lungs, may be the same
    place_mm: float  # places of two examinations are not known better than this
    clear_ratio: float  # the next nearest must be this many times as far, or as place_mm


@dataclass(frozen=True, slots=True)
class Guidance:
    """All of these as one version of the rules has them."""

    critical: tuple[CriticalRule, ...] = ()
    guidelines: tuple[Guideline, ...] = ()
    cues: tuple[HistoryCue, ...] = ()
    growth: GrowthRule | None = None
