"""Whether a study is complete: what speaks for and against it, and what that comes to."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a study is waited for, in seconds. Without any sign of trouble it is complete after `quiet_s` without a new image."""

    quiet_s: float
    settle_s: float  # instead of quiet_s, once MPPS named every image and all are here
    patience_s: float  # instead of quiet_s, while something is missing
    force_after_s: float  # since the arrival began: then it goes on with what is here


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """What one MPPS says of a study: whether it is over, how many images it names, and how many of them are not here."""

    in_progress: bool
    discontinued: bool
    expected: int
    missing: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Slices missing inside a series that is evenly spaced otherwise. `after_mm` is the place along the slice normal, `after` the slice before it,
    `shown` the InstanceNumbers on both sides, as viewers show them."""

    series: str  # SeriesDescription
    after: int  # 1-based, from the low end of the normal
    after_mm: float
    missing: int
    numbered: bool  # InstanceNumber jumps there as well
    number: int | None = None  # SeriesNumber
    shown: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What speaks for and against a study being complete, at one moment."""

    quiet_s: float  # since the newest image
    age_s: float  # since this arrival began
    images: int = 0  # without rejected ones
    rejected: int = 0
    associations_open: int = 0
    associations_released: int = 0
    associations_aborted: int = 0  # and not made good by a later one of the same sender that was released
    associations_lost: int = 0  # likewise; the listener died
    steps: tuple[StepEvidence, ...] = ()
    gaps: tuple[Gap, ...] = ()
    missing_series: tuple[str, ...] = ()  # names of the rules that ask for them


class VerdictKind(enum.StrEnum):
    """What the evidence comes to."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a study's evidence comes to, and why, in sentences for a reader. `wait_s` says when to look again."""

    kind: VerdictKind
    evidence: Evidence
    reasons: tuple[str, ...] = ()
    wait_s: float = 0.0
    forced: bool = False

    @property
    def reason(self) -> str:
        """The reasons in one line; empty when complete."""
        return "；".join(self.reasons)


@dataclass(frozen=True, slots=True)
class RequiredSeries:
    """A series that each study of some scanner must have. Patterns are searched without regard to case; an empty one fits all."""

    name: str  # as the reader is told
    series: str  # pattern of SeriesDescription
    station: str = ""  # pattern of StationName
    study: str = ""  # pattern of StudyDescription
    images: int = 1
