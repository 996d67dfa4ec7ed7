"""Port of suspected critical findings: who was told, when and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from pipeline.checking import Suspected
from pipeline.model import AlertState


class Method(StrEnum):
    """How somebody was told of a critical finding."""

    PHONE = "电话"
    IN_PERSON = "当面"
    SYSTEM = "系统"


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """Who told whom of a critical finding, when that was received, how, and whether it was read back (复述)."""

    told_by: str
    received_by: str
    received_at: datetime
    method: Method
    read_back: bool


@dataclass(frozen=True, slots=True)
class Alert:
    """One suspected critical finding of one study. `overdue_s` is 0 for a closed one."""

    id: UUID
    study_id: UUID
    revision: int
    draft_id: UUID
    rule: str
    finding: str
    severity: str  # immediate | urgent
    certain: bool
    state: AlertState
    seen_at: datetime
    due_at: datetime
    level: int
    overdue_s: float
    told_by: str | None = None
    received_by: str | None = None
    received_at: datetime | None = None
    method: str | None = None
    read_back: bool | None = None
    waived_by: str | None = None
    waived_reason: str | None = None


@dataclass(frozen=True, slots=True)
class Escalated:
    """An alert that has climbed to `level`."""

    id: UUID
    study_id: UUID
    rule: str
    level: int


class Alerts(Protocol):
    """Suspected critical findings, and whether somebody who can act knows of them."""

    def suspect(self, study_id: UUID, revision: int, draft_id: UUID, found: Sequence[Suspected]) -> tuple[UUID, ...]:
        """One open alert per finding that the study has none of yet; an open one moves to the newer draft and keeps its clock, one that was waived
        for an older revision is open again. Returns those that are open anew."""

    def open_of(self, study_id: UUID) -> tuple[Alert, ...]:
        """Open alerts of a study, their rows locked."""

    def get(self, alert_id: UUID) -> Alert:
        """Locks the row. Raises BadInput for an unknown id."""

    def listed(self, *, every: bool = False, overdue: bool = False, study: UUID | None = None, limit: int = 1000) -> tuple[Alert, ...]:
        """Open alerts, the one that is due first first; `every`: closed ones behind them."""

    def acknowledge(self, alert: Alert, done: Acknowledgement) -> None:
        """Raises IllegalMove for an alert that is acknowledged already."""

    def waive(self, alert: Alert, by: str, reason: str) -> None:
        """Close it although nobody was told, for this reason. Raises IllegalMove."""

    def escalate(self) -> tuple[Escalated, ...]:
        """Every open alert at the level that its age calls for; returns those that have climbed. Done twice it changes nothing."""

    def counts(self) -> tuple[int, int]:
        """Open alerts, and those of them that are overdue."""

    def received(self, study_id: UUID) -> datetime:
        """When the study's first image came."""

    def now(self) -> datetime:
        """The database's clock."""
