"""The ledger: what this listener acknowledged, one JSON line an instance, in a file per listener and day.

It stands beside the database so that `ctreport verify` can prove from a second source that nothing acknowledged is lost. A line is written
before its image is answered, after bytes and row are durable, and synced a moment later: the death of any process loses no line, a power cut
may cost the lines of the last moment and no image. A line that was cut short is left out by readers.
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

from pipeline import log
from pipeline.dicom.archive import sync_folder
from pipeline.errors import StorageFull
from pipeline.model import Header

logger = log.get(__name__)
SYNC_S = 0.2


@dataclass(frozen=True, slots=True)
class Entry:
    """One acknowledged instance; `path` is relative to the archive root."""

    sop_uid: str
    sha256: str
    size_bytes: int
    path: str
    time: str  # ISO 8601, UTC


class FileLedger:
    """`ports.Ledger` in a folder. Lock order: sync, then write. `fsync=False` is for benchmarks: nothing is synced then but at the end."""

    def __init__(self, folder: Path, listener: str, now: Callable[[], datetime] = lambda: datetime.now(UTC), fsync: bool = True) -> None:
        self._folder, self._listener, self._now, self._fsync = folder, listener, now, fsync
        self._write, self._sync = threading.Lock(), threading.Lock()
        self._descriptor: int | None = None
        self._day = ""
        self._written = self._synced = 0  # writings ever made, and of these synced
        self._dirty, self._closing = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    def append(self, headers: Sequence[Header]) -> None:
        """Written when it returns, so that no death of a process loses it; synced within SYNC_S. Raises StorageFull."""
        now = self._now()
        lines, day = b"".join(_line(header, now) for header in headers), now.strftime("%Y-%m-%d")
        try:
            if self._descriptor is None or day != self._day:
                self._open(day)
            self._put(lines)
        except OSError as error:
            self._give_up()
            raise StorageFull(f"the ledger cannot be written ({os.strerror(error.errno or 0)}): mend its disk, then send again") from error
        self._dirty.set()

    def sync(self) -> None:
        """Sync what is written. A fault is logged: what the lines say stands in the database, and the next line opens the file anew."""
        try:
            with self._sync:
                with self._write:
                    written, descriptor = self._written, self._descriptor
                if descriptor is not None and written > self._synced:
                    os.fsync(descriptor)
                    self._synced = written
        except OSError as error:
            logger.error("ledger_not_synced", error=os.strerror(error.errno or 0))
            self._give_up()

    def close(self) -> None:
        """Sync and close the file; the next append opens it again."""
        self._closing.set()
        self._dirty.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._sync, self._write:
            self._close()

    def _sync_behind(self) -> None:
        while not self._closing.is_set():
            self._dirty.wait()
            self._dirty.clear()
            self.sync()
            self._closing.wait(SYNC_S)

    def _put(self, lines: bytes) -> None:
        with self._write:
            while lines:
                lines = lines[os.write(self._open_descriptor(), lines) :]
            self._written += 1

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
            if self._fsync and self._thread is None:
                self._closing.clear()
                self._thread = threading.Thread(target=self._sync_behind, name="ledger", daemon=True)
                self._thread.start()

    def _close(self) -> None:
        if self._descriptor is not None:
            descriptor, self._descriptor = self._descriptor, None
            try:
                os.fsync(descriptor)
                self._synced = self._written
            finally:
                os.close(descriptor)

    def _give_up(self) -> None:
        """After a fault nothing is known about the end of the file: the next append opens it anew."""
        with self._sync, self._write:
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
