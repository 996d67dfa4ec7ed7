"""The Protocols that `flow` needs. Rooms implement them; `workers/wiring.py` is the only place where they meet.

A `Store` gives one `Work` per transaction: leaving the `with` block commits, an exception rolls back. Doorbells are rung after that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Protocol
from uuid import UUID

from pipeline.model import (
    DoseEvent,
    Draft,
    DraftAnswer,
    Features,
    Header,
    Job,
    JobState,
    ReportState,
    RuleSet,
    SeriesChoice,
    Step,
    Stored,
    Study,
)


class Clock(Protocol):
    """Wall time in UTC. Leases and time windows use PostgreSQL's now() instead."""

    def now(self) -> datetime: ...


class Incoming(Protocol):
    """One file on its way into the archive, not yet under a final name."""

    def write(self, data: bytes) -> None:
        """Append bytes. Raises StorageFull."""

    def commit(self) -> Stored:
        """fsync, rename to the content-addressed final name, fsync the directory. Idempotent per content."""

    def discard(self) -> None:
        """Remove the temporary file."""


class Archive(Protocol):
    """Bytes as they came. A final name holds whole, synced bytes or does not exist."""

    def has_room(self) -> bool:
        """False below the free-space floor."""

    def open(self) -> Incoming:
        """Start a file in `incoming/`. Raises StorageFull below the floor."""

    def quarantine(self, data: bytes, reason: str) -> Stored:
        """Keep bytes that cannot be understood, apart from the archive."""

    def path(self, relative: str) -> Path:
        """Absolute path of an archive-relative one. Refuses paths that leave the archive (BadInput)."""

    def features_path(self, job_id: UUID) -> str:
        """Archive-relative path where the features of a job belong; its folder exists."""

    def sweep(self) -> int:
        """Remove what a crash left in `incoming/`; returns how many files."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """One C-STORE request: its data set as it came, and the group 2 elements that make it a file."""

    sop_class: str
    sop_uid: str
    transfer_syntax: str
    file_meta: bytes  # preamble, prefix and group 2; written by us
    data_set: bytes
    association: UUID | None


class Answer(StrEnum):
    """What receiving one instance came to. The listener knows each one's DIMSE status."""

    STORED = "stored"  # durable, or the same bytes were already there
    ODD = "odd"  # durable and flagged
    MISMATCH = "mismatch"  # the data set is not of the SOP class that was asked for; quarantined
    UNREADABLE = "unreadable"  # no usable header; quarantined
    FULL = "full"  # nothing kept now; the sender should try again


class HeaderReader(Protocol):
    """Reads the header facts of one arrival. Raises UnreadableDicom; nothing else, whatever the bytes."""

    def __call__(self, arrival: Arrival) -> Header:
        """The archive's part of the instance (path, sha256, size) is empty: the bytes may not be filed yet."""


class Receiver(Protocol):
    """The receive step, as the listener calls it."""

    def __call__(self, arrival: Arrival) -> Answer: ...


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
class Lease:
    """Who works, and for how long without a heartbeat."""

    owner: str
    seconds: float


class Studies(Protocol):
    """Rows of studies, instances and jobs inside the current transaction."""

    # receive
    def register(self, header: Header, association: UUID | None) -> Registered:
        """File one instance, create patient, study and series as needed, restart the study's clock. A late image moves the study
        back to receiving. Idempotent per (SOPInstanceUID, sha256)."""

    def quarantined(self, stored: Stored, reason: str, association: UUID | None) -> None:
        """Note bytes that could not be understood."""

    def open_association(self, association: UUID, listener: str, calling_aet: str, host: str) -> None: ...

    def close_association(self, association: UUID, how: str) -> None:
        """`how` is released, aborted or lost."""

    def close_orphans(self, listener: str) -> int:
        """Close what an earlier process of this listener left open; returns how many."""

    # assemble
    def claim_quiet(self, quiet_s: float, limit: int, lease: Lease) -> tuple[Study, ...]:
        """Studies in `receiving` that had no image for quiet_s and have no open association, with their series, oldest first."""

    def freeze(self, study: Study, choice: SeriesChoice, is_phantom: bool, reason: str | None) -> UUID | None:
        """Study → complete, revision n+1, older live jobs → superseded, a job row (ready; or unsupported with `reason` when set). Returns its id, or
        None when nothing changed or a new image arrived since the study was claimed."""

    # encode, draft
    def claim(self, step: Step, limit: int, lease: Lease) -> tuple[Job, ...]:
        """Up to `limit` jobs for ENCODE (ready → encoding) or DRAFT (encoded → drafting), priority then due time, FOR UPDATE SKIP LOCKED;
        each claim counts one attempt."""

    def heartbeat(self, job_id: UUID, lease: Lease) -> bool:
        """Extend the lease; False when it belongs to somebody else now."""

    def encoded(self, job: Job, features_path: str, encoder: str, version: str, lease: Lease) -> None:
        """encoding → encoded. Raises LeaseLost."""

    def give_back(self, job: Job, reason: str, delay_s: float, lease: Lease) -> None:
        """encoding → ready, drafting → encoded, due again after delay_s. Raises LeaseLost."""

    def end(self, job: Job, state: JobState, reason: str, lease: Lease) -> None:
        """→ failed or unsupported with a sentence for a person. Raises LeaseLost."""

    # persist
    def save_draft(self, job: Job, draft: Draft, lease: Lease) -> UUID:
        """Draft, findings, flags, report row (waiting) and drafting → drafted. Raises LeaseLost."""

    # maintenance
    def reclaim_expired(self, max_attempts: int) -> int:
        """Hand back jobs and studies whose lease ran out (past max_attempts: failed, with a sentence); returns how many."""

    def waiting(self, step: Step, quiet_s: float) -> int:
        """How many rows `step` could claim right now."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One report that somebody asked for, as claimed under a lease."""

    id: UUID
    draft_id: UUID
    study_id: UUID
    kind: str  # markdown
    attempts: int


class Deliveries(Protocol):
    """Who gets which draft."""

    def ask(self, draft_id: UUID, kind: str) -> None:
        """A delivery row (waiting). Idempotent per (draft, kind). Raises NotAllowed for a demo-only draft."""

    def claim(self, limit: int, lease: Lease) -> tuple[Delivery, ...]: ...

    def done(self, delivery: Delivery, lease: Lease) -> None:
        """Raises LeaseLost."""

    def give_back(self, delivery: Delivery, reason: str, delay_s: float, max_attempts: int, lease: Lease) -> None:
        """Waiting again after delay_s, or failed with the reason after max_attempts. Raises LeaseLost."""


@dataclass(frozen=True, slots=True)
class ReportRow:
    """One report as readers move it. `demo_only`: a phantom-only model wrote it for a real study; it can never be signed."""

    id: UUID
    study_id: UUID
    state: ReportState
    demo_only: bool


class Reports(Protocol):
    """Reports as readers see and move them."""

    def get(self, report_id: UUID) -> ReportRow:
        """Locks the row. Raises BadInput for an unknown id."""

    def move(self, report: ReportRow, to: ReportState, actor: str) -> None:
        """Raises IllegalMove."""

    def shown(self, draft_id: UUID) -> Mapping[str, object]:
        """What `ctreport show` prints of one draft."""


class Rules(Protocol):
    """Rules and doses as rows."""

    def current(self) -> RuleSet: ...

    def doses(self, study_id: UUID, since: date, until: date) -> tuple[DoseEvent, ...]:
        """Irradiation events of the study's patient by examination date, `since` < date <= `until`, each once."""

    def studies_without_dose(self, study_id: UUID, since: date, until: date) -> int: ...

    def study_date(self, study_id: UUID) -> date:
        """Examination date; the day of arrival where the header has none."""


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
    def reports(self) -> Reports: ...

    @property
    def deliveries(self) -> Deliveries: ...

    @property
    def audit(self) -> Audit: ...


class Store(Protocol):
    """Gives transactions. Raises ServiceUnavailable when the database does not answer."""

    def begin(self) -> AbstractContextManager[Work]: ...


class Encoder(Protocol):
    """Volume → features. Same input, same bytes."""

    def encode(self, paths: Sequence[Path]) -> Features:
        """Read one series and encode it. Raises Unsupported (no volume, no lungs) or BadInput."""

    def save_features(self, features: Features, path: Path) -> None:
        """Write as safetensors, durable and byte-identical for the same features."""

    def load_features(self, path: Path) -> Features:
        """Raises BadInput."""


class Drafter(Protocol):
    """Features + indication → JSON text under the report schema."""

    @property
    def phantom_only(self) -> bool:
        """True when the model's card forbids real studies outside demo mode."""

    def draft(self, features: Features, indication: str, department: str) -> DraftAnswer:
        """Raises ModelMissing, ServiceUnavailable or BadDraft."""


class Doorbell(Protocol):
    """Tells workers to look. Carries no study; losing or doubling a ring changes nothing."""

    def ring(self, step: Step) -> None:
        """Never raises: a broker that is down is logged, the sweeper rings again."""


class Ledger(Protocol):
    """The listener's own append-only record of acknowledged images, beside the database."""

    def append(self, header: Header) -> None:
        """Durable when it returns. Raises StorageFull."""


class PhantomLedger(Protocol):
    """Which SOP instances are phantoms that this installation made."""

    def holds_all(self, sop_uids: Sequence[str]) -> bool: ...
