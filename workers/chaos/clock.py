"""The clock of processes under fire: libfaketime (Debian's package) in front of them, and a file that says how far their time is off."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex

FOLDERS = ("/usr/lib/*/faketime", "/usr/local/lib/faketime", "/usr/lib/faketime")
FILE = "FAKETIME_TIMESTAMP_FILE"
LIBRARY = "libfaketimeMT.so.1"  # for programs with threads
ABSENT = "libfaketime is not installed (Debian: apt-get install libfaketime), so the clock does not jump"
SHARED, SHARES = Path("/dev/shm"), "*faketime_*"  # what each process lays down for its children, and leaves behind when it is killed
HOUR_S = 3600


@dataclass(frozen=True)
class FalseClock:
    """A library and the file that it reads again every second. Monotonic clocks stay right, as they do when a real clock is set."""

    library: Path
    file: Path

    def settings(self) -> Mapping[str, str]:
        """What a process needs in its environment to live by this clock."""
        return {
            "LD_PRELOAD": str(self.library),
            FILE: str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "NO_FAKE_STAT": "1",  # times of files are the disk's
        }

    def set(self, ahead_s: int) -> None:
        """So many seconds ahead of the right time, from the next second on."""
        new = self.file.with_suffix(".new")
        new.write_text(f"{ahead_s:+d}\n", encoding="ascii")
        new.replace(self.file)


def lives_by_a_false_clock() -> bool:
    """True in a process that was started with `FalseClock.settings`."""
    return FILE in os.environ


def mend_sleep() -> None:
    """Give this process a `time.sleep` that works: libfaketime up to 0.9.10 takes the monotonic moment until which Python sleeps for one of its own
    wall clock, and every sleep ends with EINVAL."""
    time.sleep = _sleep


def _sleep(seconds: float | SupportsIndex, /) -> None:
    length_s = float(seconds)
    if length_s < 0:
        raise ValueError("sleep length must be non-negative")
    select.select([], [], [], length_s)


def find_library(folders: tuple[str, ...] = FOLDERS) -> Path | None:
    """libfaketime on this machine; None where it is not installed."""
    found = [path for pattern in folders for path in Path("/").glob(f"{pattern.lstrip('/')}/{LIBRARY}")]
    return found[0] if found else None


def false_clock(folder: Path) -> FalseClock | None:
    """A clock that is right for now, with its file in `folder`; None without libfaketime."""
    library = find_library()
    if library is None:
        return None
    clock = FalseClock(library, folder / "faketime")
    clock.set(0)
    return clock


@contextmanager
def swept(folder: Path = SHARED) -> Iterator[None]:
    """What killed processes of this block have left in shared memory is gone when it ends."""
    before = set(folder.glob(SHARES))
    try:
        yield
    finally:
        for share in set(folder.glob(SHARES)) - before:
            if not Path("/proc", share.name.rpartition("_")[2]).exists():
                share.unlink(missing_ok=True)
