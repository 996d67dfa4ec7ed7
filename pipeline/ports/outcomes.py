"""What is known of studies and leaves the house: deliveries, reports, doses, rules, the audit trail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Protocol
from uuid import UUID

from pipeline.checking import Hit, Prior, RuleSet
from pipeline.irradiation import DoseEvent, DoseFactor, DoseReportState, WeighedDose
from pipeline.model import (
    Lease,
    Patient,
    Report,
    ReportState,
)


@dataclass(frozen=True, slots=True)
class Delivery:
    """One report that somebody asked for, as claimed under a lease."""

    id: UUID
    draft_id: UUID
    study_id: UUID
    kind: str  # markdown, withdrawal
    attempts: int


class Deliveries(Protocol):
    """Who gets which draft."""

    def ask(self, draft_id: UUID, kind: str) -> None:
        """A delivery row (waiting). Idempotent per (draft, kind). Raises NotAllowed for a demo-only draft."""

    def claim(self, limit: int, lease: Lease, kind: str | None = None) -> tuple[Delivery, ...]:
        """Up to `limit` due rows, of every kind or of one."""

    def done(self, delivery: Delivery, lease: Lease) -> None:
        """Raises LeaseLost."""

    def give_back(self, delivery: Delivery, reason: str, delay_s: float | None, lease: Lease) -> None:
        """Waiting again after delay_s, or failed with the reason where there is no next time. Raises LeaseLost."""


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One report as readers move it. `demo_only`: a phantom-only model wrote it for a real study; it can never be signed."""

    id: UUID
    study_id: UUID
    state: ReportState
    demo_only: bool
    draft_id: UUID


@dataclass(frozen=True, slots=True)
class Block:
    """One unresolved hit that bars a report from being finished and delivered. `position` is its place among the draft's hits, from 0."""

    position: int
    rule: str
    section: str
    message: str


class Reports(Protocol):
    """Reports as readers see and move them."""

    def get(self, report_id: UUID) -> ReportRow:
        """Locks the row. Raises BadInput for an unknown id."""

    def move(self, report: ReportRow, to: ReportState, actor: str) -> None:
        """Raises IllegalMove."""

    def blocks(self, report: ReportRow) -> tuple[Block, ...]:
        """Unresolved hits that block it, locked."""

    def resolve(self, report: ReportRow, block: Block, actor: str, reason: str) -> None:
        """Note who answers for one, when and why."""

    def shown(self, draft_id: UUID) -> Mapping[str, object]:
        """What `ctreport show` prints of one draft."""


@dataclass(frozen=True, slots=True)
class DoseReport:
    """One dose object that waits to be read, as claimed. `study_id` is the study that it arrived under."""

    instance_id: UUID
    study_id: UUID
    state: DoseReportState
    content: str  # dose-report, dose-screen
    path: str  # archive-relative
    attempts: int


@dataclass(frozen=True, slots=True)
class OpenReport:
    """One unsigned report that readers see now, its row locked. `untouched`: nobody has opened it yet."""

    id: UUID
    study_id: UUID
    job_id: UUID
    draft_id: UUID
    untouched: bool
    report: Report
    hits: tuple[Hit, ...]
    indication: str


class Doses(Protocol):
    """What patients have had of radiation, and the dose objects that say so."""

    def claim(self, limit: int, lease: Lease, max_attempts: int) -> tuple[DoseReport, ...]:
        """Up to `limit` due dose objects, nobody else's for `lease.seconds`; those whose attempts have run out end as unread."""

    def waiting(self) -> int:
        """How many could be claimed right now."""

    def factors(self) -> tuple[DoseFactor, ...]:
        """The factors k in force."""

    def patient(self, study_id: UUID) -> Patient:
        """Whose study it is, as the store knows the patient."""

    def record(self, study_id: UUID, study_uid: str, instance_id: UUID | None, events: Sequence[WeighedDose], doubt: str = "") -> int:
        """Store events for the study's patient, under the patient's study `study_uid` where there is one; each UID once, the strongest source (then
        the larger dose) stands, and events of a weaker kind of source give way. Returns how many events are new or changed. Idempotent."""

    def needs_estimate(self, study_id: UUID) -> bool:
        """True when the study has no dose event, and no dose report of it waits."""

    def move(self, report: DoseReport, to: DoseReportState, *, events: int | None = None, reason: str | None = None, due_s: float = 0.0) -> bool:
        """The claimed row's next state; with `due_s` it is free again then. False when somebody else has claimed it since."""

    def drafting(self, study_id: UUID) -> bool:
        """True while a job of the study's patient is being drafted: it may have read the doses before the newest."""

    def open_reports(self, study_id: UUID) -> tuple[OpenReport, ...]:
        """Unsigned reports of the study's patient that readers see."""

    def renew(self, report: OpenReport, advice: str, hits: Sequence[Hit]) -> bool:
        """New hits and, where it differs, a new 建议; what was handed out is then handed out again. True when something is to be delivered."""


class Rules(Protocol):
    """Rules and doses as rows."""

    def current(self) -> RuleSet: ...

    def doses(self, study_id: UUID, since: date, until: date) -> tuple[DoseEvent, ...]:
        """Irradiation events of the study's patient by examination date, `since` < date <= `until`, each once."""

    def studies_without_dose(self, study_id: UUID, since: date, until: date) -> tuple[date, ...]:
        """Examination dates of the patient's CT studies of the same window that have no dose event, oldest first."""

    def study_date(self, study_id: UUID) -> date:
        """Examination date; the day of arrival where the header has none."""

    def age_years(self, study_id: UUID) -> float | None:
        """The patient's age at the examination; None where nobody knows."""

    def sex(self, study_id: UUID) -> str:
        """PatientSex of the study's patient: M, F, O, or empty."""

    def priors(self, study_id: UUID, before: date) -> tuple[Prior, ...]:
        """Examinations of the study's patient on days before `before`, the newest first: each with its signed report, else its newest draft."""


class Audit(Protocol):
    """Append-only trail. `detail` holds no patient data."""

    def append(self, action: str, *, study_id: UUID | None = None, job_id: UUID | None = None, actor: str = "system", **detail: str) -> None: ...
