"""What decoding one text took: tokens, passes, and what became of the drafts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pipeline.model import Generation

MTP, LOOKUP = "mtp", "lookup"


@dataclass
class Counts:
    """Counted while a text is written; forced tokens are no drafts."""

    longest: int  # the longest draft that the policy makes
    forced: int = 0
    histogram: list[int] = field(default_factory=list)
    positions: list[list[int]] = field(default_factory=list)  # [drafted, accepted] at position 1, 2, …
    sections: dict[str, list[int]] = field(default_factory=dict)  # section → [tokens, drafted, accepted]
    sources: dict[str, list[int]] = field(default_factory=dict)  # mtp | lookup → [drafted, accepted]

    def __post_init__(self) -> None:
        self.histogram = [0] * (self.longest + 1)

    def wrote(self, section: str, *, forced: bool) -> None:
        """One token was written in a section."""
        self._section(section)[0] += 1
        self.forced += forced

    def verified(self, section: str, sources: Mapping[str, tuple[int, int]]) -> None:
        """One block was verified, whose free tokens are counted by source: (drafted, accepted)."""
        drafted, accepted = (sum(pair[index] for pair in sources.values()) for index in (0, 1))
        self.histogram[accepted] += 1
        for place in range(drafted):
            if place == len(self.positions):
                self.positions.append([0, 0])
            self.positions[place][0] += 1
            self.positions[place][1] += place < accepted
        row = self._section(section)
        row[1], row[2] = row[1] + drafted, row[2] + accepted
        for source, (made, stood) in sources.items():
            pair = self.sources.setdefault(source, [0, 0])
            pair[0], pair[1] = pair[0] + made, pair[1] + stood

    def generation(self, tokens: int, seconds: float) -> Generation:
        """The figures of a finished text."""
        return Generation(
            tokens=tokens,
            verify_count=sum(self.histogram),
            accepted_histogram=tuple(self.histogram),
            seconds=seconds,
            forced=self.forced,
            positions=tuple((drafted, accepted) for drafted, accepted in self.positions),
            sections={name: (row[0], row[1], row[2]) for name, row in self.sections.items()},
            sources={name: (row[0], row[1]) for name, row in self.sources.items()},
        )

    def _section(self, name: str) -> list[int]:
        return self.sections.setdefault(name, [0, 0, 0])
