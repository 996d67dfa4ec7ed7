"""Which series is read: scores with their reasons, and the rules of a site."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pipeline.model import RankedStack, Series


class RuleEffect(enum.StrEnum):
    """What a site's rule does with a series that it fits."""

    PREFER = "prefer"  # before every series that no such rule fits
    REFUSE = "refuse"
    POINTS = "points"


@dataclass(frozen=True, slots=True)
class ChoiceRule:
    """A site's rule of which series is read. Patterns are searched without regard to case; an empty one fits all."""

    effect: RuleEffect
    reason: str  # as a reader is told
    station: str = ""  # pattern of StationName
    study: str = ""  # pattern of StudyDescription
    series: str = ""  # pattern of SeriesDescription
    points: int = 0  # of the effect `points`
    version: int = 0


@dataclass(frozen=True, slots=True)
class ScorePart:
    """What one rule says of one stack: points, and the sentence for a reader."""

    rule: str
    points: int
    reason: str


@dataclass(frozen=True, slots=True)
class SeriesScore:
    """Why a series, or one of the stacks that it holds, was read or not. `refusal` is empty for the one that is read."""

    series_uid: str
    number: int | None
    description: str
    stack: str  # which part of the series; empty for all of its images
    images: int
    parts: tuple[ScorePart, ...]
    refusal: str = ""

    @property
    def score(self) -> int:
        """Sum of the points."""
        return sum(part.points for part in self.parts)


@dataclass(frozen=True, slots=True)
class SeriesChoice:
    """The series that will be read, and why each other one will not."""

    chosen: tuple[Series, ...]
    refused: tuple[tuple[str, str], ...]  # (series uid, reason)
    region: str  # "chest", or the region that nobody reads here
    scores: tuple[SeriesScore, ...] = ()  # best first
    ranked: tuple[RankedStack, ...] = ()  # the chosen one and those that are tried where its pixels cannot be read, best first
