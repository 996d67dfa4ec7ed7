"""What the rules look at and what they say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from uuid import UUID

from pipeline.entry import Entry
from pipeline.guidance import CriticalRule, GrowthRule, Guideline, HistoryCue
from pipeline.irradiation import DoseEvent, DoseRule
from pipeline.model import Candidate, DraftSource, Frame, Generation, Report, Severity, Side


@dataclass(frozen=True, slots=True)
class Hit:
    """One rule that fired. `start:end` are character offsets into `section`'s text (0:0 when it concerns no span)."""

    rule: str
    version: int
    severity: Severity
    section: str
    start: int
    end: int
    message: str
    original: str = ""


@dataclass(frozen=True, slots=True)
class Suspected:
    """A critical finding that a draft speaks of. Nobody has confirmed it. `certain` is False where the draft itself has doubts."""

    rule: CriticalRule
    version: int
    certain: bool
    section: str


@dataclass(frozen=True, slots=True)
class Grading:
    """Where a guideline's table puts a finding (分级). `category` is empty where the table advises without naming classes."""

    guideline: str  # its name and edition
    row: str  # id of the row that fits
    category: str
    advice: str  # the table's own words
    used: str  # the inputs that the row was found by, as a reader reads them
    source: str  # publication, table and row


@dataclass(frozen=True, slots=True)
class Malignancy:
    """A finding's probability of being malignant by a published formula, with everything that went into it."""

    probability: float  # 0..1
    formula: str
    source: str
    inputs: Mapping[str, float | str | bool]


@dataclass(frozen=True, slots=True)
class Elements:
    """What a report holds of one finding besides what its drafter wrote. `sources` says of each element where it is from: measured (the images
    give what the drafter wrote), draft (the drafter alone), text (read in 描述), guideline or formula. What nobody knows is None."""

    segment: str | None = None
    shape: str | None = None  # 形态
    enhancement: str | None = None  # 强化方式; None without contrast agent
    advice: str | None = None  # 建议 of this finding
    grading: Grading | None = None
    malignancy: Malignancy | None = None
    slice_sop_uid: str | None = None  # the slice that shows its candidate
    slice_frame: int | None = None
    sources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Checked:
    """A report after the rules: replaced text, every hit, and the elements of each finding in the order of the report's list."""

    report: Report
    hits: tuple[Hit, ...]
    rules_version: int
    alerts: tuple[Suspected, ...] = ()
    elements: tuple[Elements, ...] = ()
    differs: tuple[Hit, ...] = ()  # where the text says what its own list of findings does not say


@dataclass(frozen=True, slots=True, eq=False)
class RuleSet:
    """The rules in force, as read from PostgreSQL in one go. Known by identity: what is compiled from one is kept for that one."""

    version: int
    terms: Mapping[str, str]  # forbidden form → standard term
    dose: tuple[DoseRule, ...] = ()
    lexicon: tuple[Entry, ...] = ()
    critical: tuple[CriticalRule, ...] = ()
    guidelines: tuple[Guideline, ...] = ()
    cues: tuple[HistoryCue, ...] = ()
    growth: GrowthRule | None = None


@dataclass(frozen=True, slots=True)
class Spot:
    """One region of an examination that a report may speak of. `stated_mm` is the size that its report gives, None where it does not speak of it."""

    index: int
    kind: str
    center_mm: tuple[float, float, float]  # patient LPS
    side: Side
    lobe: str
    size_mm: float
    stated_mm: int | None = None


@dataclass(frozen=True, slots=True)
class Prior:
    """An earlier examination of the patient, as its signed report or its draft has it. `frame` is None where no positions were kept."""

    when: date
    signed: bool
    spots: tuple[Spot, ...]
    frame: Frame | None
    covers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckContext:
    """What rules may look at besides the text."""

    study_date: date
    doses: tuple[DoseEvent, ...] = ()
    doses_missing: int = 0  # the patient's CT studies without any dose event
    missing_dates: tuple[date, ...] = ()  # their examination dates
    candidates: tuple[Candidate, ...] = ()
    indication: str = ""
    covers: tuple[str, ...] = ()  # organs that the volume shows, as terms of the lexicon; () where nobody knows
    contrast: bool | None = None  # contrast agent was given; None where nobody knows
    sex: str = ""  # PatientSex: M, F, O or empty
    age_years: float | None = None
    has_prior: bool = False  # an earlier examination of the patient is at hand
    frame: Frame | None = None  # of the candidates; None where nobody knows
    priors: tuple[Prior, ...] = ()  # earlier examinations, in any order
    effusion: tuple[Side, ...] | None = None  # where the images show pleural fluid; None: nobody looked
    emphysema: tuple[Side, ...] | None = None  # likewise
    fibrosis: tuple[Side, ...] | None = None
    structured: bool = False  # the report came with its findings as data, an empty list among them
    department: str = "radiology"


@dataclass(frozen=True, slots=True)
class Draft:
    """A finished draft, ready to be persisted in one transaction."""

    job_id: UUID
    department: str
    checked: Checked
    source: DraftSource
    generation: Generation
    watermark: str
    candidates: tuple[Candidate, ...] = ()
    frame: Frame | None = None
    covers: tuple[str, ...] = ()
    ood: float | None = None  # of the features; None where nobody measured
