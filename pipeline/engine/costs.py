"""What a step costs on this machine, and how many tokens it can be expected to write."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial

from pipeline.engine.policy import MAX_DRAFT

ROUNDS = 5  # of which the median counts
Timer = Callable[[], float]  # seconds of a clock that only goes forward

_MEASURED: dict[Hashable, Costs] = {}


@dataclass(frozen=True)
class Costs:
    """Seconds of one forward pass over 1, 2, … rows, and of one MTP draft."""

    verify_s: tuple[float, ...]
    draft_s: float

    def step_s(self, proposed: int, drafts: int) -> float:
        """Seconds of a step that verifies `proposed` tokens behind the last one after `drafts` MTP passes."""
        return drafts * self.draft_s + self.verify_s[proposed]


@dataclass(frozen=True)
class Expectation:
    """A step that proposes `length` tokens: how many it will write on average, and how long it takes."""

    length: int
    tokens: float
    seconds: float

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


def expectations(rates: Sequence[float], costs: Costs, limit: int, *, drafts: int) -> list[Expectation]:
    """One for each length 0 … limit; `rates[i]` is the chance that token i is accepted if those before it are.

    Tokens = 1 + Σ of the prefix products: the verifying pass writes one token of its own (Leviathan et al. 2023, arXiv 2211.17192, eq. 1).
    The first `drafts` tokens cost an MTP pass each.
    """
    out, tokens, prefix = [Expectation(0, 1.0, costs.step_s(0, 0))], 1.0, 1.0
    for length in range(1, min(limit, len(rates), len(costs.verify_s) - 1) + 1):
        prefix *= rates[length - 1]
        tokens += prefix
        out.append(Expectation(length, tokens, costs.step_s(length, min(length, drafts))))
    return out


def fastest(choices: Sequence[Expectation]) -> Expectation:
    """The most tokens per second; of equals the first."""
    return max(choices, key=lambda choice: choice.rate)


def measure(verify: Callable[[int], object], draft: Callable[[], object], timer: Timer = time.perf_counter, rounds: int = ROUNDS) -> Costs:
    """Time `verify(rows)` for 1 … 17 rows and `draft()`, in alternating rounds behind one that warms up; more rows never count as cheaper."""
    rows = range(1, MAX_DRAFT + 2)
    seen: list[list[float]] = []
    for _ in range(rounds + 1):
        seen.append([_seconds(partial(verify, count), timer) for count in rows] + [_seconds(draft, timer)])
    medians = [statistics.median(column) for column in zip(*seen[1:], strict=True)]
    verify_s = tuple(max(medians[:end]) for end in range(1, len(medians)))
    return Costs(verify_s, medians[-1])


def measured_once(key: Hashable, measuring: Callable[[], Costs]) -> Costs:
    """The costs under `key` (a checkpoint's digest and batch size), measured at the first call in this process."""
    if key not in _MEASURED:
        _MEASURED[key] = measuring()
    return _MEASURED[key]


def _seconds(call: Callable[[], object], timer: Timer) -> float:
    started = timer()
    call()
    return timer() - started
