"""Ports for what modalities tell and ask beside images: performed procedure steps, storage commitments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from pipeline.model import Lease


class StepStatus(StrEnum):
    """Performed Procedure Step Status (0040,0252), PS3.3 C.4.14. COMPLETED and DISCONTINUED are final."""

    IN_PROGRESS = "IN PROGRESS"
    COMPLETED = "COMPLETED"
    DISCONTINUED = "DISCONTINUED"

    @property
    def is_final(self) -> bool:
        """True when the step can change no more."""
        return self is not StepStatus.IN_PROGRESS


@dataclass(frozen=True, slots=True)
class PerformedStep:
    """One performed procedure step as its modality creates it. Its studies may arrive before or after it."""

    sop_uid: str
    status: StepStatus
    calling_aet: str
    modality: str
    study_uids: tuple[str, ...]
    expected: tuple[str, ...]  # SOPInstanceUIDs that the Performed Series Sequence names
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class StepChange:
    """What one N-SET says; None: not mentioned."""

    status: StepStatus | None = None
    expected: tuple[str, ...] | None = None
    ended_at: datetime | None = None


class StepAnswer(StrEnum):
    """What creating or changing a performed step found."""

    DONE = "done"
    DUPLICATE = "duplicate"  # the instance exists already
    UNKNOWN = "unknown"  # no such instance
    FINAL = "final"  # completed or discontinued already: it may change no more


class Performed(Protocol):
    """Modality performed procedure steps (PS3.4 Annex F)."""

    def create(self, step: PerformedStep) -> StepAnswer: ...

    def change(self, sop_uid: str, change: StepChange) -> StepAnswer:
        """Locks the step. A final status stands."""


@dataclass(frozen=True, slots=True)
class Reference:
    """One composite object that somebody names."""

    sop_class: str
    sop_uid: str


@dataclass(frozen=True, slots=True)
class Held:
    """One archived object: what a commitment promises to keep."""

    reference: Reference
    path: str  # archive-relative
    sha256: str


@dataclass(frozen=True, slots=True)
class Commitment:
    """One storage commitment that waits for its report, as claimed under a lease."""

    id: UUID
    transaction_uid: str
    calling_aet: str
    requested: tuple[Reference, ...]
    attempts: int


class Commitments(Protocol):
    """Storage commitments that peers asked for (PS3.4 Annex J). Once asked, one is reported, or failed after a limit."""

    def ask(
        self, transaction_uid: str, calling_aet: str, host: str, requested: Sequence[Reference], association: UUID, lease: Lease
    ) -> Commitment | None:
        """Note the request, leased by the caller. Asked again it waits anew; None when somebody works on the same request right now."""

    def claim(self, limit: int, lease: Lease, calling_aet: str | None = None) -> tuple[Commitment, ...]:
        """Waiting ones under a lease: those that are due, or all of one peer that has just connected."""

    def heartbeat(self, commitment: Commitment, lease: Lease) -> bool:
        """Extend the lease; False when it belongs to somebody else now."""

    def held(self, sop_uids: Sequence[str]) -> tuple[Held, ...]:
        """Archived objects of these SOPInstanceUIDs."""

    def reported(self, commitment: Commitment, failures: int, lease: Lease) -> None:
        """The peer has confirmed the report, in which `failures` objects were refused. Raises LeaseLost."""

    def give_back(self, commitment: Commitment, reason: str, delay_s: float, give_up_s: float, lease: Lease) -> bool:
        """Due again after delay_s; failed when it was asked give_up_s ago or earlier: then False. Raises LeaseLost."""
