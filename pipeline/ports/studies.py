"""Studies, their images and jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from pipeline.checking import Draft
from pipeline.choosing import ChoiceRule, SeriesChoice
from pipeline.evidence import Evidence, Patience, Verdict
from pipeline.model import (
    Found,
    Header,
    Job,
    JobState,
    Lease,
    Rejection,
    Step,
    Stored,
    Study,
    StudyState,
)
from pipeline.urgency import UNBOUND, Pick, Slots


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

    def forget(self, days: float, limit: int) -> Mapping[str, int]:
        """Remove what only tells how work went (closed associations, ended MPPS, commitments, nights, samples) and is older, up to `limit` rows of
        each table; how many of each."""
