"""Adaptive draft length: the k of most tokens per second, by what was accepted in each section at each position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pipeline.engine.costs import Costs, Expectation, expectations, fastest
from pipeline.engine.policy import MAX_DRAFT
from pipeline.engine.sections import LOGGED, START_K

START_RATE = 0.9  # acceptance of the first position before anything was observed
START_WEIGHT = 4.0  # observations that a start value, or a position's neighbour, counts for
MEMORY = 0.97  # an observation's weight after each later one at its position
FLOOR = 0.5  # drafts are shortened until this share of them can be expected to be accepted
RECOVERED = 0.6  # the sentence about it may come again once the share was this high
RECENT = 0.9  # a block's weight in the share that was accepted of late, after each later block
ENOUGH = 12.0  # weighted drafts before that share says anything
NEAR = 4  # positions that the share is of: a long draft is a gamble that costs little, its far end says nothing of the MTP layer
PROBE_STEPS = 16  # every so many steps one draft more is tried, so that a shortened section can recover


@dataclass
class Seen:
    """Exponentially weighted counts of one section: at each position, drafts whose predecessors were accepted, and those accepted."""

    drafted: list[float] = field(default_factory=lambda: [0.0] * MAX_DRAFT)
    accepted: list[float] = field(default_factory=lambda: [0.0] * MAX_DRAFT)
    recent: tuple[float, float] = (0.0, 0.0)  # drafted and accepted of late
    steps: int = 0
    told: bool = False

    @property
    def fresh(self) -> bool:
        """True before anything was observed."""
        return not self.drafted[0]

    def add(self, drafted: int, accepted: int) -> None:
        """One verified block: positions behind the first refused one say nothing."""
        for place in range(min(drafted, accepted + 1)):
            self.drafted[place] = self.drafted[place] * MEMORY + 1.0
            self.accepted[place] = self.accepted[place] * MEMORY + (place < accepted)
        self.recent = (self.recent[0] * RECENT + min(drafted, NEAR), self.recent[1] * RECENT + min(accepted, NEAR))

    @property
    def share(self) -> float:
        """Share of the recent drafts that was accepted; 1.0 while there are too few to tell."""
        return self.recent[1] / self.recent[0] if self.recent[0] >= ENOUGH else 1.0

    def rates(self) -> list[float]:
        """Chance of acceptance at each position, given those before it; a position seldom seen leans on the one before."""
        out, before = [], START_RATE
        for drafted, accepted in zip(self.drafted, self.accepted, strict=True):
            before = (accepted + START_WEIGHT * before) / (drafted + START_WEIGHT)
            out.append(before)
        return out


def expected_share(rates: Sequence[float], length: int) -> float:
    """Expected share of `length` drafts that is accepted; 1.0 of none."""
    total, prefix = 0.0, 1.0
    for rate in rates[:length]:
        prefix *= rate
        total += prefix
    return total / length if length else 1.0


def trusted(rates: Sequence[float], limit: int) -> int:
    """The longest draft of which at least FLOOR can be expected to be accepted."""
    return next(length for length in range(limit, -1, -1) if expected_share(rates, length) >= FLOOR)


class Controller:
    """One per engine; deterministic given the calls it got. It never changes the text, only its speed."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._sections: dict[str, Seen] = {}

    def choose(self, section: str, room: int = MAX_DRAFT) -> Expectation:
        """The step to make next in a section, of at most `room` drafts: its length k, expected tokens and seconds. Counts a step."""
        seen = self._seen(section)
        seen.steps += 1
        return self._choices(seen, room)[self._length(section, seen, room)]

    def observe(self, section: str, drafted: int, accepted: int) -> str | None:
        """Learn from one verified MTP block; a sentence for the log when the section's acceptance falls below the floor (once until it recovers)."""
        seen = self._seen(section)
        seen.add(drafted, accepted)
        if seen.share >= RECOVERED:
            seen.told = False
        if seen.share >= FLOOR or seen.told:
            return None
        seen.told = True
        return (
            f"MTP acceptance in {LOGGED[section]} is {seen.share:.2f}, below {FLOOR}: drafts there are shortened to "
            f"{self._best(seen, MAX_DRAFT)} tokens; the text stays the same, only slower; if this lasts, train the MTP layer on such texts"
        )

    def rates(self, section: str) -> tuple[float, ...]:
        """Estimated acceptance at positions 1, 2, … of a section, each given those before it."""
        return tuple(self._seen(section).rates())

    def _length(self, section: str, seen: Seen, room: int) -> int:
        if seen.fresh:
            return min(START_K[section], room)
        probing = seen.steps % PROBE_STEPS == 0
        return min(self._best(seen, room) + probing, room)

    def _best(self, seen: Seen, room: int) -> int:
        """The fastest length, shortened to what the floor trusts."""
        return trusted(seen.rates(), fastest(self._choices(seen, room)).length)

    def _choices(self, seen: Seen, room: int) -> list[Expectation]:
        return expectations(seen.rates(), self._costs, room, drafts=room)

    def _seen(self, section: str) -> Seen:
        return self._sections.setdefault(section, Seen())
