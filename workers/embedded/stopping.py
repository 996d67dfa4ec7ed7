"""How a stack ends: the signals that ask for it, and the order in which its processes go."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterable
from itertools import groupby
from types import FrameType

from pipeline import log
from workers.embedded.processes import POLL_S
from workers.embedded.watch import Process

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HURRIED_GRACE_S = 2.0

_log = log.get("workers.local")


class StopRequest:
    """Whether the stack should stop, and whether it should hurry.

    While the handlers are in place, the first signal raises KeyboardInterrupt (SIGINT) or SystemExit in the main thread and every
    later one asks to hurry. Plain attributes, no locks: a handler may run while the main thread holds any lock.
    """

    def __init__(self) -> None:
        self.stopping = False
        self.hurry = False
        self._before: dict[signal.Signals, signal._HANDLER] = {}

    def install(self) -> None:
        """Take the signals over. Outside the main thread Python allows no handlers: then nothing happens."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in SIGNALS:
            # nohup ignores SIGHUP: leave it ignored
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)

    def uninstall(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if self.stopping:
            self.hurry = True
            return
        self.stopping = True
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)


def stop_processes(processes: Iterable[Process], hurry: Callable[[], bool]) -> list[str]:
    """SIGTERM by `stop_order`, equal orders together, SIGKILL after the grace; the names in the order in which they stopped."""
    stopped: list[str] = []
    ordered = sorted(processes, key=lambda process: process.spec.stop_order)
    for _, group in groupby(ordered, key=lambda process: process.spec.stop_order):
        stopped += _stop_group(list(group), hurry)
    return stopped


def _stop_group(group: list[Process], hurry: Callable[[], bool]) -> list[str]:
    begun = time.monotonic()
    stopped: list[str] = []
    hurried_at: float | None = None
    for process in group:
        process.send(signal.SIGTERM)
    while running := [process for process in group if process.name not in stopped]:
        now = time.monotonic()
        hurried_at = now if hurried_at is None and hurry() else hurried_at
        for process in running:
            if not process.alive():
                stopped.append(process.name)
                _log.info("part_stopped", part=process.name, returncode=process.returncode, seconds=round(now - begun, 2))
            elif now > begun + process.spec.grace_s or (hurried_at is not None and now > hurried_at + HURRIED_GRACE_S):
                process.send(signal.SIGKILL)
        time.sleep(POLL_S)
    return stopped
