"""Copies of what an object store holds, kept on this machine's disk up to a limit. Any process may lose any copy: it is fetched again."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

KEEP_S = 3600.0  # what somebody used within this time is never removed: it may be open, or about to be


class Copy(NamedTuple):
    """One file. Sorted: the longest unused first."""

    used: float  # seconds since the epoch
    size_bytes: int
    path: Path


class Copies:
    """The files below some folders. `now` is the wall clock that file times are compared with."""

    def __init__(self, folders: tuple[Path, ...], limit_bytes: int, keep_s: float = KEEP_S, now: Callable[[], float] = time.time) -> None:
        self._folders, self._limit, self._keep_s, self._now = folders, limit_bytes, keep_s, now
        self._grown = 0
        self._lock = threading.Lock()

    def used(self, path: Path) -> None:
        """Somebody reads this copy now."""
        with contextlib.suppress(OSError):  # gone meanwhile, or another user's: it only loses its turn
            os.utime(path)

    def grew(self, size_bytes: int) -> None:
        """So many bytes have come; what is over the limit goes, looked at whenever a sixteenth of it has come."""
        with self._lock:
            self._grown += size_bytes
            due, self._grown = self._grown * 16 >= self._limit, 0 if self._grown * 16 >= self._limit else self._grown
        if due:
            self.trim()

    def trim(self) -> int:
        """Remove the longest unused copies until the rest fits; returns how many. Those in use stay, whatever the limit."""
        copies = sorted(copy for folder in self._folders for copy in _copies(folder))
        gone = over(copies, self._limit, self._now() - self._keep_s)
        for copy in gone:
            copy.path.unlink(missing_ok=True)
        return len(gone)


def over(copies: list[Copy], limit_bytes: int, before: float) -> list[Copy]:
    """Which copies go, the longest unused first: as many as it takes, none that was used at `before` or later."""
    excess = sum(copy.size_bytes for copy in copies) - limit_bytes
    gone: list[Copy] = []
    for copy in copies:
        if excess <= 0 or copy.used >= before:
            break
        gone.append(copy)
        excess -= copy.size_bytes
    return gone


def _copies(folder: Path) -> list[Copy]:
    found = []
    for path in folder.rglob("*.*"):
        with contextlib.suppress(FileNotFoundError):  # another process trims as well
            if not path.is_dir():
                facts = path.stat()
                found.append(Copy(facts.st_mtime, facts.st_size, path))
    return found
