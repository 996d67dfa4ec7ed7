"""A worker that no bell reaches any more although rows wait for it: a consumer can go quiet for good after its broker came back. It starts again."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from celery import signals
from celery.worker import state

from pipeline import log
from pipeline.errors import ServiceUnavailable

EXIT_DEAF = 75  # EX_TEMPFAIL: the supervisor starts the process again
logger = log.get(__name__)


@dataclass
class Hearing:
    """When the last bell was heard, in seconds of a monotonic clock that is passed in."""

    deaf_s: float
    heard_at: float
    lock: threading.Lock = field(default_factory=threading.Lock)

    def heard(self, now: float) -> None:
        """A bell came, or what it called for has ended."""
        with self.lock:
            self.heard_at = max(self.heard_at, now)

    def is_silent(self, now: float) -> bool:
        """True when no bell came for too long."""
        with self.lock:
            return now - self.heard_at >= self.deaf_s


def is_deaf(hearing: Hearing, now: float, busy: bool, waiting: Callable[[], int], reachable: Callable[[], bool]) -> bool:
    """An idle worker has heard nothing for too long, rows wait for it, and its broker can be reached. Asks no further than it must."""
    if busy or not hearing.is_silent(now):
        return False
    try:
        return waiting() > 0 and reachable()
    except ServiceUnavailable:  # the database is away: nothing could be done anyway
        return False


def watch(deaf_s: float, waiting: Callable[[], int], reachable: Callable[[], bool]) -> None:
    """From now on end this worker when it is deaf."""
    hearing = Hearing(deaf_s, time.monotonic())
    for signal in (signals.task_received, signals.task_postrun):
        signal.connect(lambda **_: hearing.heard(time.monotonic()), weak=False)
    threading.Thread(target=_watch, args=(hearing, waiting, reachable), name="hearing", daemon=True).start()


def _watch(hearing: Hearing, waiting: Callable[[], int], reachable: Callable[[], bool]) -> None:
    while True:
        time.sleep(hearing.deaf_s / 4)
        busy = bool(state.active_requests or state.reserved_requests)
        if is_deaf(hearing, time.monotonic(), busy, waiting, reachable):
            logger.error("worker_deaf", silent_s=round(time.monotonic() - hearing.heard_at))
            os._exit(EXIT_DEAF)
