"""`stack.json`: what a running stack says about itself to other commands. It holds passwords: mode 0600, never printed whole."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.errors import ServiceUnavailable
from workers.embedded.processes import POLL_S, start_ticks

FILE = "stack.json"


@dataclass(frozen=True, slots=True)
class PartInfo:
    """One process of the stack. `pid` is None while it is down."""

    name: str
    pid: int | None
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class StackInfo:
    """A running stack: its launcher, where its services are, and its processes."""

    pid: int
    started_ticks: int  # of the launcher, clock ticks since boot
    data: Path
    database_url: str = field(repr=False)
    redis_url: str = field(repr=False)
    embedded: bool  # both services are ours
    ports: Mapping[str, int]
    parts: tuple[PartInfo, ...] = ()

    def part(self, name: str) -> PartInfo:
        """The process of that name; KeyError when there is none."""
        return {part.name: part for part in self.parts}[name]


def write_stack(info: StackInfo) -> None:
    """Replace stack.json in one move."""
    path = info.data / FILE
    new = path.with_name(FILE + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        json.dump(dataclasses.asdict(info) | {"data": str(info.data)}, file, indent=1)
    new.replace(path)


def read_stack(data: Path) -> StackInfo | None:
    """The stack that runs on this data folder now; None when none does (a file left by a killed launcher does not count)."""
    try:
        raw = json.loads((data / FILE).read_text(encoding="utf-8"))
        parts = tuple(PartInfo(**part) for part in raw.pop("parts"))
        info = StackInfo(**raw | {"data": Path(raw["data"]), "parts": parts})
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise ServiceUnavailable(f"{data / FILE} cannot be read ({type(error).__name__}); end the launcher, delete it, start again.") from error
    return info if start_ticks(info.pid) == info.started_ticks else None


def wait_for_stack(data: Path, log_file: Path, alive: Callable[[], bool], timeout_s: float) -> StackInfo:
    """The stack on this folder once it stands. Raises ServiceUnavailable with the end of its log when its launcher is gone or the time is over."""
    deadline = time.monotonic() + timeout_s
    while (info := read_stack(data)) is None:
        if not alive() or time.monotonic() > deadline:
            tail = log_file.read_text(errors="replace").strip().splitlines()[-3:]
            raise ServiceUnavailable(f"the embedded stack did not start ({'; '.join(tail) or 'no output'}); see {log_file}")
        time.sleep(POLL_S)
    return info


def stop_stack(data: Path, timeout_s: float = 90.0) -> bool:
    """Ask the stack on this data folder to stop and wait for it; False when none runs, ServiceUnavailable after `timeout_s`."""
    info = read_stack(data)
    if info is None:
        return False
    os.kill(info.pid, signal.SIGTERM)
    deadline = time.monotonic() + timeout_s
    while start_ticks(info.pid) == info.started_ticks:
        if time.monotonic() > deadline:
            raise ServiceUnavailable(f"The stack (process {info.pid}) still runs {timeout_s:.0f} s after it was asked to stop; see {data / 'logs'}.")
        time.sleep(POLL_S)
    return True
