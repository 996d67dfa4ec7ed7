"""Port of drafts that somebody asked for: one department's text of one study, and how many tokens are to be drafted per step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol
from uuid import UUID

from pipeline.model import Job, Lease, RequestState
from pipeline.urgency import UNBOUND, Slots

Lengths = int | Mapping[str, int] | None  # tokens drafted per step: one number, one per section, or None for the engine's own policy


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as who asked sees it. `state` is failed also while the study's own job is: it goes on if that is started again."""

    id: UUID
    study_id: UUID
    department: str
    state: RequestState
    lengths: Lengths
    asked_at: datetime
    revision: int | None = None  # of the study, once that is known
    step: str | None = None  # the step that it is in or waits for; None: no step will take it
    section: str = ""  # the section that is being written
    tokens: int = 0  # written so far
    reason: str = ""  # why it stands where it does, as a person reads it
    ended_at: datetime | None = None
    draft_id: UUID | None = None
    barred: str = ""  # why its draft may be read no more; empty: it may

    @property
    def over(self) -> bool:
        """True when nothing more happens by itself."""
        return self.state.final


@dataclass(frozen=True, slots=True)
class Request:
    """One request as claimed under a lease. `draft_id`: the job has that department's draft already."""

    id: UUID
    job: Job
    department: str
    lengths: Lengths
    attempts: int
    draft_id: UUID | None = None


class Requests(Protocol):
    """Drafts that somebody asked for."""

    def ask(self, study_id: UUID, revision: int, department: str, lengths: Lengths = None) -> UUID:
        """The study's open request for this department, else the one that has ended for this revision, else a new one."""

    def ask_for(self, study: str, department: str, lengths: Lengths, actor: str) -> tuple[Asked, bool]:
        """The open request for this study (UID or internal id) and department, else the one whose draft of the current revision is written, else a
        new one (then True), which is audited. Raises NotFound, or NotAllowed for a study that nothing is written for."""

    def carry(self, study_id: UUID, revision: int) -> int:
        """Ask again for every department that was asked for an earlier revision, as then; returns how many are new. Idempotent."""

    def get(self, request_id: UUID) -> Asked:
        """Raises NotFound."""

    def recent(self, limit: int) -> tuple[Asked, ...]:
        """The newest ones, newest first."""

    def claim(self, limit: int, lease: Lease, slots: Slots = UNBOUND) -> tuple[Request, ...]:
        """Up to `limit` due requests whose study's current job is drafted, no more than `slots` lets the site draft; each counts one attempt."""

    def heartbeat(self, request_id: UUID, lease: Lease) -> bool:
        """Extend the lease; False when it belongs to somebody else now."""

    def told(self, request_id: UUID, section: str, tokens: int, lease: Lease) -> None:
        """Note how far the writing is. Nothing happens when the lease is lost."""

    def drafted(self, request: Request, draft_id: UUID, lease: Lease) -> None:
        """drafting → drafted. Raises LeaseLost."""

    def give_back(self, request: Request, reason: str, delay_s: float, lease: Lease) -> None:
        """drafting → waiting, due again after `delay_s`. Raises LeaseLost."""

    def end(self, request: Request, reason: str, lease: Lease) -> None:
        """drafting → failed with a sentence for a person. Raises LeaseLost."""
