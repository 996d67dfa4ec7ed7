"""One supervised part of the stack: started again with growing pauses when it dies."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pipeline import log
from pipeline.errors import PipelineError
from workers.embedded.processes import Child

FIRST_DELAY_S = 0.5
LONGEST_DELAY_S = 30.0
STABLE_S = 60.0
ROTATE_BYTES = 10 * 1024 * 1024

_log = log.get("workers.local")


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """A process that the stack runs. Lower `stop_order` stops first, equal ones together; `ready` is asked until it says True."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    ready: Callable[[], bool] | None = None
    stop_order: int = 0
    grace_s: float = 30.0


class Part(Protocol):
    """What can be supervised: Postgres, Valkey, Process."""

    @property
    def name(self) -> str:
        """Name in logs and in stack.json."""

    @property
    def pid(self) -> int | None:
        """Process id while started."""

    def start(self) -> None:
        """Start it; PipelineError when it does not come up."""

    def alive(self) -> bool:
        """True while it runs."""


class Process:
    """A plain process of a ProcessSpec, writing to `log_file`."""

    def __init__(self, spec: ProcessSpec, log_file: Path, env: Mapping[str, str]) -> None:
        self.spec = spec
        self._log_file = log_file
        self._env = dict(env)
        self._child: Child | None = None

    @property
    def name(self) -> str:
        """Name of the spec."""
        return self.spec.name

    @property
    def pid(self) -> int | None:
        """Process id of the last start."""
        return self._child.pid if self._child is not None else None

    @property
    def returncode(self) -> int | None:
        """How it ended (negative: the signal), None while it runs."""
        return self._child.returncode if self._child is not None else None

    def start(self) -> None:
        """Spawn it; a program that does not exist shows as a dead process with a line in its log."""
        self._child = Child(self.spec.argv, self._log_file, self._env)

    def alive(self) -> bool:
        """True while it runs."""
        return self._child is not None and self._child.alive()

    def send(self, signal_number: signal.Signals) -> None:
        """Signal it if it runs."""
        if self._child is not None:
            self._child.send(signal_number)


class Watched:
    """A part and its history. `now` is a monotonic clock in seconds, passed in."""

    def __init__(self, part: Part, now: float) -> None:
        self.part = part
        self.restarts = 0
        self._failures = 0
        self._started = now
        self._due: float | None = None

    def tick(self, now: float) -> bool:
        """Look after the part once; True when it died or came back, so that stack.json is out of date."""
        if self.part.alive():
            if now - self._started > STABLE_S:
                self._failures = 0
            return False
        if self._due is None:
            return self._died(now)
        return now >= self._due and self._restart(now)

    def _died(self, now: float) -> bool:
        pause_s = delay_s(self._failures)
        self._failures += 1
        self._due = now + pause_s
        _log.warning("part_died", part=self.part.name, restart_in_s=pause_s)
        return True

    def _restart(self, now: float) -> bool:
        self.restarts += 1
        try:
            self.part.start()
        except (PipelineError, OSError) as error:
            self._due = now + delay_s(self._failures)
            self._failures += 1
            _log.error("part_not_restarted", part=self.part.name, reason=str(error))
            return True
        self._started, self._due = now, None
        _log.info("part_restarted", part=self.part.name, restarts=self.restarts)
        return True


def delay_s(failures: int) -> float:
    """Pause before the next start after so many failures in a row: half a second, doubling, at most half a minute."""
    return float(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(failures, 10)))


def rotated(log_file: Path) -> Path:
    """The log file, moved aside first when it has grown past 10 MiB."""
    if log_file.exists() and log_file.stat().st_size > ROTATE_BYTES:
        log_file.replace(log_file.with_name(log_file.name + ".1"))
    return log_file
