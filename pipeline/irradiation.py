"""Dose: irradiation events as reports tell them, factors to effective dose, and the rules about it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import date, datetime

from pipeline.model import Patient


class DoseSource(enum.StrEnum):
    """Where an irradiation event was read, the strongest first."""

    RDSR = "rdsr"  # X-Ray Radiation Dose SR, event by event
    ENHANCED_SR = "enhanced-sr"  # the same content under another SOP class, as GE sends it
    TOTAL = "total"  # a structured report that gives only the sum of an examination
    HEADER = "header"  # estimated from headers of images

    @property
    def strength(self) -> int:
        """A higher one takes the place of a lower one."""
        return len(DoseSource) - list(DoseSource).index(self)


class DoseReportState(enum.StrEnum):
    """Where one dose object stands: not looked at, its dose stored and open drafts to be checked again, done, or kept without a dose read from it."""

    WAITING = "waiting"
    RECHECK = "recheck"
    READ = "read"
    UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class Irradiation:
    """One irradiation event as an object reports it: no effective dose yet. `dlp_mgy_cm` is None where it cannot be known."""

    event_uid: str
    source: DoseSource
    region: str  # of the factors' table (chest, head …); empty: unknown
    dlp_mgy_cm: float | None
    ctdivol_mgy: float | None = None
    phantom_cm: int | None = None  # 16 or 32
    kind: str = ""  # spiral, sequenced, localizer, stationary, free, cone-beam
    kvp: float | None = None
    started: datetime | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DoseReading:
    """What one dose report, or the headers of one study's images, say about dose."""

    source: DoseSource
    study_uid: str  # that the dose belongs to
    patient: Patient
    study_date: date | None
    events: tuple[Irradiation, ...]
    age_years: float | None = None  # at the examination, as the object says
    total_dlp_mgy_cm: float | None = None  # as the object sums up
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WeighedDose:
    """One event with its factor and effective dose, both None without a DLP. `notes` adds what had to be assumed."""

    event: Irradiation
    k: float | None
    msv: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DoseFactor:
    """Effective dose per DLP: `msv = k * dlp_mgy_cm` for one region, age group and dosimetry phantom."""

    region: str
    age_years: int  # the group begins here: 0, 1, 5, 10, 18 (adult)
    phantom_cm: int
    k: float  # mSv per mGy cm
    source: str


@dataclass(frozen=True, slots=True)
class DoseEvent:
    """One irradiation event of a patient, as stored in `dose_events`."""

    event_uid: str
    when: date
    region: str
    dlp_mgy_cm: float
    msv: float  # not a number where the event is known without its dose
    k: float | None = None
    doubt: str = ""  # why it may not be this patient's; then it is named, and not counted
    source: str = ""


@dataclass(frozen=True, slots=True)
class DoseRule:
    """Warn when the dose of the past `window_months` exceeds `threshold_msv` and the text asks for more CT."""

    id: str
    version: int
    window_months: int
    threshold_msv: float
    triggers: tuple[str, ...]
    message: str
    region: str = ""  # only events of this region count; empty: all
    min_age_years: float | None = None  # only patients of this age and older; an unknown age is not left out
    max_age_years: float | None = None  # only patients younger than this
