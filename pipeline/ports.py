"""The Protocols that `flow` needs. Rooms implement them; `workers/wiring.py` is the only place where they meet.

A `Store` gives one `Work` per transaction: leaving the `with` block commits, an exception rolls back. Doorbells are rung after that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from uuid import UUID

from pipeline.alerting import Alerts
from pipeline.asking import Requests
from pipeline.checking import Draft, Hit, Prior, RuleSet
from pipeline.choosing import ChoiceRule, SeriesChoice
from pipeline.errors import Permanent
from pipeline.evidence import Evidence, Patience, Verdict
from pipeline.irradiation import DoseEvent, DoseFactor, DoseReportState, WeighedDose
from pipeline.modalities import Commitments, Performed
from pipeline.model import (
    DraftAnswer,
    Features,
    Found,
    Header,
    Job,
    JobState,
    Lease,
    Patient,
    Rejection,
    Report,
    ReportState,
    Step,
    Stored,
    Study,
    StudyState,
)
from pipeline.nightly import NightShift
from pipeline.renewing import Kept, Renewals
from pipeline.sampling import Samples
from pipeline.urgency import UNBOUND, Pick, Slots


class Clock(Protocol):
    """Wall time in UTC. Leases and time windows use PostgreSQL's now() instead."""

    def now(self) -> datetime: ...


class Incoming(Protocol):
    """One file on its way into the archive, not yet under a final name."""

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. Raises StorageFull."""

    def seal(self) -> Stored:
        """Write out what waits; nothing can be added any more. Returns where it will stand, `fresh` as far as is known. Raises StorageFull."""

    def commit(self) -> Stored:
        """fsync, then rename to the content-addressed final name. Idempotent per content. `Archive.settle` makes the name durable. Raises
        StorageFull."""

    def quarantine(self, reason: str) -> Stored:
        """Keep the bytes apart from the archive, with the reason, also when they are committed already. Durable when it returns."""

    def discard(self) -> None:
        """Remove the temporary file."""


class Archive(Protocol):
    """Bytes as they came. A final name holds whole, synced bytes or does not exist."""

    def has_room(self) -> bool:
        """False below the free-space floor."""

    def open(self) -> Incoming:
        """Start a file in `incoming/`. Raises StorageFull below the floor."""

    def settle(self, stored: Sequence[Stored]) -> None:
        """Make the names of committed files durable. Raises StorageFull."""

    def path(self, relative: str) -> Path:
        """A local file with what an archive-relative path names, absent where the archive has none. Refuses paths that leave the archive (BadInput);
        raises ServiceUnavailable where it has to be fetched and cannot be."""

    def paths(self, relatives: Sequence[str]) -> list[Path]:
        """As `path`, for several at once: from an object store they come side by side."""

    def features_path(self, identity: str, source: str) -> str:
        """Archive-relative path of what an encoder (its identity) makes of some files (their digest); its folder exists."""

    def publish(self, relative: str) -> None:
        """What was written whole at `path(relative)` is durable and found by every machine when this returns. Raises StorageFull."""

    def sha256(self, relative: str) -> str | None:
        """Hash of the bytes as the archive holds them now, not of a copy; None where it holds none. Raises ServiceUnavailable."""

    def prepare(self) -> None:
        """Make ready for images, once at start. Raises StorageFull."""

    def sweep(self) -> int:
        """Remove what a crash left in `incoming/`; returns how many files."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One C-STORE request. Its bytes wait in an Incoming: group 2 written by us, then the data set as it came."""

    sop_class: str
    sop_uid: str
    transfer_syntax: str
    head: bytes  # of the data set: all of a small one, the beginning of a large one
    size: int  # bytes of the whole data set
    association: UUID | None
    calling_aet: str = ""


class Answer(StrEnum):
    """What receiving one instance came to. The listener knows each one's DIMSE status."""

    STORED = "stored"  # durable, or the same bytes were already there
    ODD = "odd"  # durable and flagged
    MISMATCH = "mismatch"  # the data set is not of the SOP class that was asked for; quarantined
    UNREADABLE = "unreadable"  # no usable header; quarantined
    FULL = "full"  # nothing kept now; the sender should try again
    TOO_LARGE = "too_large"  # over the size limit; nothing kept


class HeaderReader(Protocol):
    """Reads the header facts of one arrival. Raises UnreadableDicom; nothing else, whatever the bytes."""

    def __call__(self, arrival: Arrival) -> Header:
        """The archive's part of the instance (path, sha256, size) is empty: the bytes may not be filed yet."""


class Receiver(Protocol):
    """The receive step, as the listener calls it."""

    def __call__(self, arrival: Arrival, content: Incoming) -> Answer:
        """File one instance; `content` is committed, quarantined or discarded when it returns."""


class Filing(StrEnum):
    """What registering an instance found."""

    NEW = "new"
    SAME = "same"  # same SOPInstanceUID, same bytes
    CONFLICT = "conflict"  # same SOPInstanceUID, other bytes: kept beside the first and flagged


@dataclass(frozen=True, slots=True)
class Registered:
    """The internal id of the study that an instance belongs to, and what was found."""

    study_id: UUID
    filing: Filing
    patient_differs: bool = False  # another PatientID than the study's first image


@dataclass(frozen=True, slots=True)
class Rejected:
    """What a rejection note did to one study. `images` counts those that it newly takes back and that are here."""

    study_id: UUID
    images: int
    before: StudyState
    after: StudyState


class Studies(Protocol):
    """Rows of studies, instances and jobs inside the current transaction."""

    # receive
    def register(self, filed: Sequence[tuple[Header, UUID | None]]) -> tuple[Registered, ...]:
        """File instances with their associations, create patients, studies and series as needed, restart the studies' clocks. A late
        image moves its study back to receiving; another PatientID than the study's holds it. Idempotent per (SOPInstanceUID, sha256)."""

    def quarantined(self, stored: Stored, reason: str, association: UUID | None) -> None:
        """Note bytes that could not be understood."""

    def open_association(self, association: UUID, listener: str, calling_aet: str, host: str) -> None: ...

    def close_association(self, association: UUID, how: str) -> None:
        """`how` is released, aborted or lost."""

    def close_orphans(self, listener: str) -> int:
        """Close what an earlier process of this listener left open; returns how many."""

    # assemble
    def claim_quiet(self, patience: Patience, limit: int, lease: Lease) -> tuple[Study, ...]:
        """Studies in `receiving` that may be complete (quiet, no open association, or past the limit), with their series, oldest first."""

    def evidence(self, study: Study) -> Evidence:
        """What the database knows for and against the study being complete; nothing yet of its series."""

    def postpone(self, study: Study, verdict: Verdict, lease: Lease) -> bool:
        """Free the study and look again after `verdict.wait_s`, with the reason; False when a new image arrived or somebody else holds it."""

    def choice_rules(self) -> tuple[ChoiceRule, ...]:
        """The site's rules of which series is read that are in force, in their order."""

    def freeze(
        self, study: Study, choice: SeriesChoice, is_phantom: bool, reason: str | None, verdict: Verdict, night_in_s: float = 0.0
    ) -> UUID | None:
        """Study → complete or partial, revision n+1, older live jobs → superseded, a job row (ready; or unsupported with `reason` when set) that
        keeps the verdict and why it was made. A night job is due after `night_in_s`. Returns its id, or None when nothing changed or a new image
        arrived since the study was claimed."""

    def reject(self, note_study_uid: str, rejection: Rejection) -> tuple[Rejected, ...]:
        """Bar what the note names in its own study and in others of the same patient: studies whose every image it takes back are withdrawn,
        the others assembled again without them. Also for images that come later. Idempotent; audited. Returns what it did to each study."""

    def withdraw_rejected(self, study: Study) -> bool:
        """A claimed study of which every image is rejected → withdrawn, audited; False when a new image arrived since it was claimed."""

    # encode, draft
    def claim(self, step: Step, limit: int, lease: Lease, pick: Pick = Pick.FIRST, slots: Slots = UNBOUND) -> tuple[Job, ...]:
        """Up to `limit` jobs for ENCODE (ready → encoding) or DRAFT (encoded → drafting), STAT alone or others alone by `pick`, each in the order of
        their rank, then due time, FOR UPDATE SKIP LOCKED; no more than `slots` lets the site work on. Each claim counts one attempt."""

    def claim_together(self, step: Step, limit: int, lease: Lease, pick: Pick = Pick.FIRST, slots: Slots = UNBOUND) -> tuple[Job, ...]:
        """As `claim`, for work in company: the first job alone where it was tried before, else up to `limit` that were not. So a job that ends its
        process costs another one try at most."""

    def heartbeat(self, job_id: UUID, lease: Lease) -> bool:
        """Extend the lease; False when it belongs to somebody else now."""

    def encoded(self, job: Job, features_path: str, encoder: str, version: str, lease: Lease, passed: Sequence[str] = ()) -> None:
        """encoding → encoded. `passed`: why the stacks that rank before the one that was read were not; that one is now the job's, with its files.
        Raises LeaseLost."""

    def give_back(self, job: Job, reason: str, delay_s: float, lease: Lease) -> None:
        """encoding → ready, drafting → encoded, due again after delay_s. Raises LeaseLost."""

    def end(self, job: Job, state: JobState, reason: str, lease: Lease) -> None:
        """→ failed or unsupported with a sentence for a person. Raises LeaseLost."""

    # persist
    def save_draft(self, job: Job, draft: Draft, lease: Lease) -> UUID:
        """Draft, findings, flags, report row (waiting) and drafting → drafted. Raises LeaseLost."""

    def save_further(self, job: Job, draft: Draft) -> UUID:
        """The draft of one more department of a drafted job; the id of the one that is there where there is one. Raises LeaseLost when the revision
        was superseded meanwhile."""

    def found(self, job_id: UUID) -> Found | None:
        """The frozen findings of a job's revision, None while there are none."""

    def keep_found(self, job: Job, found: Found) -> Found:
        """Freeze findings; the first word stands, and is what this returns."""

    # maintenance
    def reclaim_expired(self, max_attempts: int) -> int:
        """Hand back jobs and studies whose lease ran out (max_attempts times: failed, with a sentence); returns how many."""

    def waiting(self, step: Step, patience: Patience) -> int:
        """How many rows `step` could claim right now."""

    def oldest_s(self, step: Step) -> Mapping[bool, float]:
        """Seconds that the longest waiting job of encode or draft could have been claimed: of STAT under True, of all others under False; without
        a lane where nothing waits."""

    def turn(self, name: str, every_s: float) -> bool:
        """True once per period over the whole site, for whoever asks first: two schedules then do one's work."""

    def hand_back(self, owner: str) -> int:
        """Free every row that this owner holds, due at once and without counting the claim; returns how many."""


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


class Work(Protocol):
    """One transaction."""

    @property
    def studies(self) -> Studies: ...

    @property
    def rules(self) -> Rules: ...

    @property
    def doses(self) -> Doses: ...

    @property
    def reports(self) -> Reports: ...

    @property
    def alerts(self) -> Alerts: ...

    @property
    def requests(self) -> Requests: ...

    @property
    def night(self) -> NightShift: ...

    @property
    def renewals(self) -> Renewals: ...

    @property
    def samples(self) -> Samples: ...

    @property
    def deliveries(self) -> Deliveries: ...

    @property
    def performed(self) -> Performed: ...

    @property
    def commitments(self) -> Commitments: ...

    @property
    def audit(self) -> Audit: ...


class Store(Protocol):
    """Gives transactions. Raises ServiceUnavailable when the database does not answer."""

    def begin(self) -> AbstractContextManager[Work]: ...


class Encoder(Protocol):
    """Volume → features. Same input, same bytes, in any company."""

    @property
    def identity(self) -> str:
        """`Features.identity` of all that it makes: the same identity and the same files give the same features. Raises ModelMissing."""

    @property
    def batch(self) -> int:
        """Studies that it takes at once; at least 1."""

    def encode(self, paths: Sequence[Path]) -> Features:
        """Read one series and encode it. Raises Unsupported (no volume, no lungs) or BadInput."""

    def encode_many(self, studies: Sequence[Sequence[Path]]) -> Sequence[Features | Permanent]:
        """One answer per study, in order: its features, or why it has none. Raises Transient or ModelMissing for all of them."""

    def save_features(self, features: Features, path: Path) -> None:
        """Write as safetensors, durable and byte-identical for the same features."""

    def load_features(self, path: Path) -> Features:
        """Raises BadInput."""


def quiet(section: str, tokens: int) -> None:
    """Tell nobody that a section of so many tokens is written."""


class Drafter(Protocol):
    """Features + indication → findings, once, and from them each department's text. `lengths`: section, or empty for all → tokens drafted a step."""

    @property
    def phantom_only(self) -> bool:
        """True when the model's card forbids real studies outside demo mode."""

    def find(
        self,
        features: Features,
        indication: str,
        department: str,
        lengths: Mapping[str, int] | None = None,
        told: Callable[[str, int], None] = quiet,
    ) -> Found:
        """The findings of a study; with the department's report where it is written in the same call. Raises ModelMissing, NotAllowed,
        ServiceUnavailable or BadDraft."""

    def write(
        self,
        features: Features,
        indication: str,
        found: Found,
        department: str,
        lengths: Mapping[str, int] | None = None,
        told: Callable[[str, int], None] = quiet,
        kept: Kept | None = None,
    ) -> DraftAnswer:
        """A whole report's JSON text with exactly the frozen findings; sections that are kept are not written again. Raises as `find`."""


class Doorbell(Protocol):
    """Tells workers to look. Carries no study; losing or doubling a ring changes nothing."""

    def ring(self, step: Step) -> None:
        """Never raises: a broker that is down is logged, the sweeper rings again."""


class Ledger(Protocol):
    """The listener's own append-only record of acknowledged images, beside the database."""

    def append(self, headers: Sequence[Header]) -> None:
        """Written when it returns, synced soon after. Raises StorageFull."""


class PhantomLedger(Protocol):
    """Which SOP instances are phantoms that this installation made."""

    def holds_all(self, sop_uids: Sequence[str]) -> bool: ...
