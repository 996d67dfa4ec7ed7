"""One entry of the lexicon: what a report may say, in the standard word and in those that mean the same."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What an entry names. `OBSERVED` kinds are findings; `DESCRIBING` kinds say something about one; cues govern a stretch of text."""

    ANATOMY = "anatomy"
    SIDE = "side"
    FINDING = "finding"
    DISEASE = "disease"
    DEVICE = "device"
    DENSITY = "density"
    MARGIN = "margin"
    SHAPE = "shape"
    STRUCTURE = "structure"
    ENHANCEMENT = "enhancement"
    DISTRIBUTION = "distribution"
    CHANGE = "change"
    QUALIFIER = "qualifier"
    NORMAL = "normal"
    UNIT = "unit"
    PROCEDURE = "procedure"
    PHASE = "phase"
    CONTRAST = "contrast"
    RECOMMENDATION = "recommendation"
    NEGATION = "negation"
    UNCERTAINTY = "uncertainty"
    HISTORY = "history"
    ASSERTION = "assertion"  # 见, 可见, 示: something is there, whatever a cue before it said
    GUARD = "guard"  # a word that only looks as if it held another entry

    __hash__ = str.__hash__  # Enum's own is a Python function, and every word of every report is looked up by its kind


OBSERVED = frozenset({Kind.FINDING, Kind.DISEASE, Kind.DEVICE})
DESCRIBING = frozenset(
    {Kind.DENSITY, Kind.MARGIN, Kind.SHAPE, Kind.STRUCTURE, Kind.ENHANCEMENT, Kind.DISTRIBUTION, Kind.CHANGE, Kind.QUALIFIER, Kind.NORMAL}
)
CUES = frozenset({Kind.NEGATION, Kind.UNCERTAINTY, Kind.HISTORY})


class Scope(StrEnum):
    """Where the words stand that a cue governs, seen from the cue. NEAREST: behind it where something is, else before it."""

    FORWARD = "forward"
    BACKWARD = "backward"
    NEAREST = "nearest"


class Level(StrEnum):
    """Which rung of its organ's tree an anatomical entry is."""

    ORGAN = "organ"
    SIDE = "side"  # one of two: the left lung
    LOBE = "lobe"
    SEGMENT = "segment"
    STATION = "station"  # of lymph nodes
    PART = "part"


@dataclass(frozen=True, slots=True)
class Entry:
    """One standard term. Every form (term, synonyms, forbidden forms) stands in the lexicon once. `parent` and `organ` name other entries."""

    term: str
    kind: Kind
    source: str  # a public nomenclature, or "radiology usage"
    synonyms: tuple[str, ...] = ()  # may stay in a text
    forbidden: tuple[str, ...] = ()  # are replaced by the term
    side: str = ""  # 左 | 右 | 双
    parent: str = ""  # the wider term: 结节 of 实性结节, 左肺 of 左肺上叶
    organ: str = ""  # where a finding is by its nature: 肝 of 肝囊肿
    level: Level | None = None
    scope: Scope | None = None  # cues only
    tags: tuple[str, ...] = ()  # critical, male, female, needs-contrast, malignant, none-left …
    english: str = ""

    def forms(self) -> tuple[str, ...]:
        """Everything that is read as this entry."""
        return (self.term, *self.synonyms, *self.forbidden)
