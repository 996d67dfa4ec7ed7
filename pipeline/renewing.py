"""Incremental work: what a draft of an earlier revision may keep, and drafts that newer rules must look at again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol
from uuid import UUID

from pipeline.checking import Checked, Hit
from pipeline.model import DraftSource, Found, Job, Report


class Cause(StrEnum):
    """Why a revision was made, or a draft looked at again."""

    ARRIVAL = ""  # the study's first revision
    IMAGES = "images"  # a new series or a late image
    ORDER = "order"  # the order was corrected
    RERUN = "rerun"  # an operator wants all of it anew
    RULES = "rules"  # the rules have a newer version


KEEPING = frozenset({Cause.IMAGES, Cause.ORDER})  # what the change does not concern stays
NOTED = (Cause.IMAGES, Cause.ORDER, Cause.RERUN, Cause.RULES)  # differences are shown


@dataclass(frozen=True, slots=True)
class Kept:
    """Sections of an earlier draft that stay, as they read, and who wrote them."""

    texts: Mapping[str, str]
    source: DraftSource


@dataclass(frozen=True, slots=True)
class Earlier:
    """One department's newest draft of an earlier revision. `indication` is what the order said then, None where nobody noted it."""

    draft_id: UUID
    features_path: str | None
    indication: str | None
    found: Found | None
    report: Report
    source: DraftSource
    hits: tuple[Hit, ...] = ()


@dataclass(frozen=True, slots=True)
class Outdated:
    """One unsigned report that readers see and that older rules have checked, its row locked. `untouched`: nobody has opened it yet."""

    report_id: UUID
    draft_id: UUID
    job: Job
    department: str
    untouched: bool
    rules_version: int
    report: Report
    hits: tuple[Hit, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One section, before and after."""

    section: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Order:
    """What a corrected order says; None: as it was."""

    indication: str | None = None
    requesting_service: str | None = None


class Renewals(Protocol):
    """What changed after a draft was written."""

    def earlier(self, job: Job, department: str) -> Earlier | None:
        """What a job that was made for a change may keep of the department's newest earlier draft; None where all is to be written anew."""

    def outdated(self, limit: int) -> tuple[UUID, ...]:
        """Ids of unsigned reports that readers see and that older rules have checked, oldest first."""

    def take(self, report_id: UUID) -> Outdated | None:
        """Lock one; None where somebody else has, or it is outdated no more."""

    def renew(self, one: Outdated, checked: Checked, hits: Sequence[Hit], changes: Sequence[Change]) -> bool:
        """New hits and, where nobody has touched the report, the new text; differences are noted. True when something is to be delivered again."""

    def pass_over(self, one: Outdated, rules_version: int) -> None:
        """This version of the rules could not look at it; the next one tries."""

    def correct(self, study: str, order: Order, actor: str) -> tuple[UUID, tuple[str, ...], bool]:
        """The order as it reads now: the study's id, which fields are new, and whether a revision is made for it. Raises NotFound or NotAllowed."""
