"""The ledger: what this listener acknowledged, one JSON line an instance, in a file per listener and day.

It stands beside the database so that `ctreport verify` can prove from a second source that nothing acknowledged is lost. A line is
synced before its image is answered; a line that a kill cut short was never acknowledged, and readers leave it out.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pipeline.dicom.archive import sync_folder
from pipeline.errors import StorageFull
from pipeline.model import Header


@dataclass(frozen=True, slots=True)
class Entry:
    """One acknowledged instance; `path` is relative to the archive root."""

    sop_uid: str
    sha256: str
    size_bytes: int
    path: str
    time: str  # ISO 8601, UTC


class FileLedger:
    """`ports.Ledger` in a folder. Appends from several threads share one fsync where they can. Lock order: sync, then write."""

    def __init__(self, folder: Path, listener: str, now: Callable[[], datetime] = lambda: datetime.now(UTC), fsync: bool = True) -> None:
        self._folder, self._listener, self._now, self._fsync = folder, listener, now, fsync
        self._write, self._sync = threading.Lock(), threading.Lock()
        self._descriptor: int | None = None
        self._day = ""
        self._written = self._synced = self._lost = 0  # writings ever made, of these synced, and given up after a fault

    def append(self, headers: Sequence[Header]) -> None:
        """Durable when it returns. Raises StorageFull."""
        now = self._now()
        lines, day = b"".join(_line(header, now) for header in headers), now.strftime("%Y-%m-%d")
        try:
            if self._descriptor is None or day != self._day:
                self._open(day)
            self._settle(self._put(lines))
        except OSError as error:
            self._give_up()
            raise StorageFull(f"the ledger cannot be written ({os.strerror(error.errno or 0)}): mend its disk, then send again") from error

    def close(self) -> None:
        """Close the file; the next append opens it again."""
        with self._sync, self._write:
            self._close()

    def _put(self, lines: bytes) -> int:
        """Write lines, not synced yet; returns the number of this writing."""
        with self._write:
            while lines:
                lines = lines[os.write(self._open_descriptor(), lines) :]
            self._written += 1
            return self._written

    def _settle(self, number: int) -> None:
        """Sync once for everything written so far; nothing is left to do for a line that another thread has synced."""
        with self._sync:
            if self._synced >= number > self._lost:
                return
            if number <= self._lost:  # after a failed fsync the kernel may call lost pages clean
                raise OSError(errno.EIO, "another thread's append failed")
            with self._write:
                written, descriptor = self._written, self._open_descriptor()
            if self._fsync:
                os.fsync(descriptor)
            self._synced = written

    def _open(self, day: str) -> None:
        """Open the day's file. A torn last line is ended, so that it cannot grow into the next one."""
        with self._sync, self._write:
            if self._descriptor is not None and day == self._day:
                return
            self._close()
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{self._listener}-{day}.jsonl"
            self._descriptor, self._day = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), day
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                os.write(self._descriptor, b"\n")
            for folder in (self._folder, self._folder.parent):
                sync_folder(folder)

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            try:
                os.fsync(descriptor)
                self._synced = self._written
            finally:
                os.close(descriptor)

    def _give_up(self) -> None:
        """After a fault nothing is known about the end of the file: lines not synced yet fail, the next append opens it anew."""
        with self._sync, self._write:
            self._lost = self._written
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                with contextlib.suppress(OSError):
                    os.close(descriptor)

    def _open_descriptor(self) -> int:
        if self._descriptor is None:
            raise OSError(errno.EIO, "the ledger was closed by another thread's fault")
        return self._descriptor


def _line(header: Header, now: datetime) -> bytes:
    made = header.instance
    entry = {"sop_uid": made.sop_uid, "sha256": made.sha256, "size": made.size_bytes, "path": made.path, "time": now.isoformat()}
    return json.dumps(entry).encode() + b"\n"


def read_ledger(folder: Path) -> tuple[Entry, ...]:
    """Every whole line of every file in the folder, oldest file first; lines cut short by a kill are left out."""
    files = sorted(folder.glob("*.jsonl")) if folder.is_dir() else []
    return tuple(entry for file in files for entry in _entries(file.read_bytes()))


def _entries(data: bytes) -> Iterator[Entry]:
    for line in data.splitlines(keepends=True):
        if line.endswith(b"\n") and (entry := _entry(line)) is not None:
            yield entry


def _entry(line: bytes) -> Entry | None:
    try:
        row = json.loads(line)
        return Entry(str(row["sop_uid"]), str(row["sha256"]), int(row["size"]), str(row["path"]), str(row["time"]))
    except (ValueError, KeyError, TypeError):
        return None
