"""The plan of one trial: which fault strikes when and for how long. A pure function of the seed, so that what was found can be had again."""

from __future__ import annotations

import enum
import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType


class Fault(enum.StrEnum):
    """What goes wrong."""

    KILL_LISTENER = "kill-listener"
    KILL_ENCODE = "kill-worker-encode"
    KILL_DRAFT = "kill-worker-draft"
    KILL_IO = "kill-worker-io"
    KILL_BEAT = "kill-beat"
    BROKER_STOPPED = "broker-stopped"
    BROKER_EMPTIED = "broker-emptied"
    BROKER_PAUSED = "broker-paused"
    DATABASE_RESTARTED = "database-restarted"
    DATABASE_CUT = "database-cut"  # every connection ends, the server stays
    DRAFTER_HANGS = "draft-server-hangs"
    DRAFTER_GARBAGE = "draft-server-garbage"
    DRAFTER_ERRORS = "draft-server-500"
    DRAFTER_DIES = "draft-server-dies"  # in the middle of each answer
    DISK_FULL = "disk-full"
    CLOCK_JUMPS = "clock-jumps"  # an hour ahead, and back


PROCESSES: Mapping[Fault, str] = MappingProxyType(
    {
        Fault.KILL_LISTENER: "listener",
        Fault.KILL_ENCODE: "worker-encode",
        Fault.KILL_DRAFT: "worker-draft",
        Fault.KILL_IO: "worker-io",
        Fault.KILL_BEAT: "beat",
    }
)
BROKER = frozenset({Fault.BROKER_STOPPED, Fault.BROKER_EMPTIED})  # a broker that is paused does neither
DRAFTER = frozenset({Fault.DRAFTER_HANGS, Fault.DRAFTER_GARBAGE, Fault.DRAFTER_ERRORS, Fault.DRAFTER_DIES})


@dataclass(frozen=True, slots=True)
class Shape:
    """How often a fault strikes in one trial, and from how many seconds to how many it lasts."""

    times: int = 1
    least_s: float = 0.0
    most_s: float = 0.0


SHAPES: Mapping[Fault, Shape] = MappingProxyType(
    {
        Fault.KILL_LISTENER: Shape(times=2),
        Fault.KILL_ENCODE: Shape(times=2),
        Fault.KILL_DRAFT: Shape(times=2),
        Fault.KILL_IO: Shape(times=2),
        Fault.KILL_BEAT: Shape(),
        Fault.BROKER_STOPPED: Shape(),
        Fault.BROKER_EMPTIED: Shape(times=2),
        Fault.BROKER_PAUSED: Shape(1, 31.0, 33.0),  # longer than the 30 s that a worker's socket waits for Redis
        Fault.DATABASE_RESTARTED: Shape(),
        Fault.DATABASE_CUT: Shape(times=2),
        Fault.DRAFTER_HANGS: Shape(1, 2.0, 5.0),
        Fault.DRAFTER_GARBAGE: Shape(1, 2.0, 4.0),
        Fault.DRAFTER_ERRORS: Shape(1, 2.0, 4.0),
        Fault.DRAFTER_DIES: Shape(1, 2.0, 4.0),
        Fault.DISK_FULL: Shape(1, 3.0, 6.0),
        Fault.CLOCK_JUMPS: Shape(1, 6.0, 12.0),
    }
)
EVERYTHING = frozenset(Fault)


@dataclass(frozen=True, slots=True)
class Strike:
    """One fault at one time, in seconds since the trial began. `hard`: SIGKILL where there is also a gentle way."""

    at_s: float
    fault: Fault
    for_s: float = 0.0
    hard: bool = False

    @property
    def until_s(self) -> float:
        """When it is over."""
        return self.at_s + self.for_s


def plan(seed: int, seconds: float, faults: Collection[Fault] = EVERYTHING, *, once: bool = False) -> tuple[Strike, ...]:
    """The strikes of a seed in `seconds`, in order of time; each fault at least once, never two of one fault at the same time, and none at a broker
    while it is paused. `once`: no fault twice."""
    strikes = [strike for fault in Fault if fault in faults for strike in _strikes(seed, seconds, fault, once=once)]
    pause = next((strike for strike in strikes if strike.fault is Fault.BROKER_PAUSED), None)
    placed = [strike if pause is None or strike.fault not in BROKER else _beside(strike, pause, seconds) for strike in strikes]
    return tuple(sorted(placed, key=lambda strike: (strike.at_s, strike.fault)))


def _beside(strike: Strike, pause: Strike, seconds: float) -> Strike:
    """The same strike in the time that the pause leaves."""
    at_s = strike.at_s * max(0.0, seconds - pause.for_s) / seconds
    return replace(strike, at_s=round(at_s + (pause.for_s if at_s >= pause.at_s else 0.0), 2))


def _strikes(seed: int, seconds: float, fault: Fault, *, once: bool) -> list[Strike]:
    """One strike in each equal part of the time, so that two of one fault stay apart."""
    rng, shape = random.Random(f"{seed} {fault}"), SHAPES[fault]
    times = 1 if once else shape.times
    part_s = seconds / times
    strikes = []
    for number in range(times):
        for_s = rng.uniform(shape.least_s, shape.most_s)
        at_s = number * part_s + rng.uniform(0.05, 0.95) * max(0.0, part_s - for_s)
        strikes.append(Strike(round(at_s, 2), fault, round(for_s, 2), rng.random() < 0.5))
    return strikes
