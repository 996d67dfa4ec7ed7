"""What a report says, as values: each finding with its place, sizes, description and whether it is there. Offsets count characters of a section.

Location and Mention are named tuples, see `lexicon.Token`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.entry import DESCRIBING, OBSERVED, Kind
from pipeline.rules.measures import Measure, MeasureKind
from pipeline.rules.spans import Span


class Location(NamedTuple):
    """A place that the text names, with what the sentence says of it before: 下叶 behind 右肺上叶、 is that of the right lung."""

    term: str
    organ: str
    side: str  # 左 | 右 | 双 | empty
    lobe: str  # 上叶, empty where none is named
    segment: str  # 尖后段, 肝S8段, 4R组; empty where none is named
    start: int
    end: int

    def overlaps(self, other: Location) -> bool:
        """True when both may be the same place: what one of them leaves open fits."""
        sides = not self.side or not other.side or self.side == other.side or "双" in (self.side, other.side)
        lobes = not self.lobe or not other.lobe or self.lobe == other.lobe
        segments = not self.segment or not other.segment or self.segment == other.segment
        return self.organ == other.organ and sides and lobes and segments


class Mention(NamedTuple):
    """One entry of the lexicon where the text uses it. `term` is the standard one, the text's own word is `start:end`.

    An observation (`observed`) has its locations, measures, count and the describing mentions that belong to it (`details`); a describing
    mention that belongs to none stands alone, with the place of its sentence.
    """

    term: str
    kind: Kind
    section: str
    start: int
    end: int
    clause: Span
    sentence: Span
    locations: tuple[Location, ...] = ()
    measures: tuple[Measure, ...] = ()
    details: tuple[Mention, ...] = ()
    negated: bool = False
    uncertain: bool = False
    historical: bool = False  # 术后, 病史, 既往
    tags: tuple[str, ...] = ()
    organ: str = ""  # where it is by its nature, else the organ of its first place; empty where nothing says so

    @property
    def observed(self) -> bool:
        """True for findings, diseases and devices."""
        return self.kind in OBSERVED

    @property
    def describing(self) -> bool:
        """True for densities, margins, changes and the like."""
        return self.kind in DESCRIBING

    @property
    def present(self) -> bool:
        """True when the text says that it is there now, perhaps uncertainly."""
        return not self.negated and not self.historical

    @property
    def side(self) -> str:
        """左, 右, 双 (also where both are named), or empty."""
        sides = {location.side for location in self.locations if location.side}
        return sides.pop() if len(sides) == 1 else "双" if sides else ""

    @property
    def lobe(self) -> str:
        """The lobe where the locations name exactly one."""
        lobes = {location.lobe for location in self.locations if location.lobe}
        return lobes.pop() if len(lobes) == 1 else ""

    @property
    def segment(self) -> str:
        """The segment where the locations name exactly one."""
        segments = {location.segment for location in self.locations if location.segment}
        return segments.pop() if len(segments) == 1 else ""

    @property
    def sizes(self) -> tuple[Measure, ...]:
        """The measures that are sizes of the finding today, in mm."""
        return tuple(one for one in self.measures if one.kind is MeasureKind.SIZE and not one.technical and not one.prior)

    @property
    def prior_sizes(self) -> tuple[Measure, ...]:
        """Those that the text says of an earlier examination: 原约8mm."""
        return tuple(one for one in self.measures if one.kind is MeasureKind.SIZE and one.prior)

    @property
    def largest_mm(self) -> float | None:
        """The largest dimension that is written, None where none is."""
        return max((size.largest_mm for size in self.sizes), default=None)

    @property
    def count(self) -> int | None:  # type: ignore[override]  # hides tuple.count, which nobody asks of a mention
        """How many; 0 for several (多发, 数枚), None where the text does not say."""
        counts = [one for one in self.measures if one.kind is MeasureKind.COUNT]
        return None if not counts else int(counts[0].values[0]) if counts[0].values else 0

    def has(self, kind: Kind, tag: str = "") -> bool:
        """True when a detail of this kind (and tag) belongs to it."""
        return any(detail.kind is kind and (not tag or tag in detail.tags) for detail in self.details)


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a report as it was read."""

    name: str
    text: str
    mentions: tuple[Mention, ...]  # everything but anatomy, sides, cues, units and guards, in the order of the text
    locations: tuple[Location, ...]
    measures: tuple[Measure, ...]
    clauses: tuple[Span, ...]
    sentences: tuple[Span, ...]
    unlisted: tuple[Span, ...] = ()  # words where a finding is expected, that look like one and are not in the lexicon

    def observations(self) -> Iterator[Mention]:
        """Findings, diseases and devices."""
        return (mention for mention in self.mentions if mention.observed)
