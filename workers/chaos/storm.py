"""The storm: the strikes of a plan at their times, from a thread of its own, with what became of each."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from workers.chaos.blows import HIT, Target, Undo, strike
from workers.chaos.plan import Strike

TRIES_S = 8.0  # a blow at something that is down already waits so long for it
AGAIN_S = 0.3


@dataclass(frozen=True, slots=True)
class Struck:
    """What became of one strike: when it was really made, or why it was not."""

    strike: Strike
    at_s: float
    missed: str = ""  # why it was not made; empty where it was


@dataclass
class Storm:
    """Strikes on their way. Every fault that was begun is ended, whatever happens."""

    target: Target
    strikes: Sequence[Strike]
    deal: Callable[[Target, Strike], Undo] = strike
    struck: list[Struck] = field(default_factory=list)
    _open: list[tuple[float, Undo]] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin now."""
        self._thread = threading.Thread(target=self._run, args=(time.monotonic(),), name="storm", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until the last fault has ended."""
        if self._thread is not None:
            self._thread.join()

    def stop(self) -> None:
        """End it early, and every fault that is on."""
        self._over.set()
        self.wait()

    def _run(self, began: float) -> None:
        try:
            for one in self.strikes:
                if not self._sleep_until(began + one.at_s):
                    return
                self._make(one, began)
            while self._open and self._sleep_until(min(ends for ends, _ in self._open)):
                self._end(time.monotonic())  # what was due before it began to sleep
        finally:
            self._end(float("inf"))

    def _sleep_until(self, moment: float) -> bool:
        """False when the storm is stopped; faults that are over by then are ended at their time."""
        while (left := moment - time.monotonic()) > 0:
            due = min((ends for ends, _ in self._open), default=moment)
            if self._over.wait(max(0.0, min(left, due - time.monotonic()))):
                return False
            self._end(time.monotonic())
        return not self._over.is_set()

    def _make(self, one: Strike, began: float) -> None:
        deadline = time.monotonic() + TRIES_S
        while True:
            try:
                undo = self.deal(self.target, one)
            except HIT as error:
                if time.monotonic() > deadline or self._over.wait(AGAIN_S):
                    self.struck.append(Struck(one, round(time.monotonic() - began, 2), type(error).__name__))
                    return
            else:
                self._open.append((time.monotonic() + one.for_s, undo))
                self.struck.append(Struck(one, round(time.monotonic() - began, 2)))
                return

    def _end(self, now: float) -> None:
        for ends, undo in [entry for entry in self._open if entry[0] <= now]:
            self._open.remove((ends, undo))
            undo()
