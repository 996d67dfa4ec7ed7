"""A circuit breaker: a server that failed is left alone for a while, then one caller tries it: a dead one costs one time-out, not one per study."""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import StrEnum


class Standing(StrEnum):
    """What is known of a server."""

    UNTRIED = "untried"
    UP = "up"
    DOWN = "down"


class Breaker:
    """One server's standing. `clock` gives monotonic seconds; `check` proves the server and raises what is wrong with it."""

    def __init__(self, check: Callable[[], None], clock: Callable[[], float], again_after_s: float) -> None:
        self._check = check
        self._clock = clock
        self._again_after_s = again_after_s
        self._probing = threading.Lock()
        self._standing = Standing.UNTRIED
        self._due = 0.0
        self.reason = ""

    @property
    def standing(self) -> Standing:
        """As of the last call."""
        return self._standing

    def lets_through(self, failures: tuple[type[Exception], ...]) -> bool:
        """True when the server may be asked now. The first caller, and one after each pause, proves it; at the first proof others wait for it,
        later they are turned away meanwhile. `failures` are what a proof may raise."""
        if self._standing is Standing.UP:
            return True
        if self._standing is Standing.DOWN and self._clock() < self._due:
            return False
        if not self._probing.acquire(blocking=self._standing is Standing.UNTRIED):
            return False
        try:
            return self._proved(failures)
        finally:
            self._probing.release()

    def fail(self, reason: str) -> None:
        """The server failed just now."""
        self.reason = reason
        self._due = self._clock() + self._again_after_s
        self._standing = Standing.DOWN

    def _proved(self, failures: tuple[type[Exception], ...]) -> bool:
        """What the check comes to, or came to for the caller before."""
        if self._standing is Standing.UP:
            return True
        if self._standing is Standing.DOWN and self._clock() < self._due:
            return False
        try:
            self._check()
        except failures as error:
            self.fail(str(error))
            return False
        self.reason, self._standing = "", Standing.UP
        return True
