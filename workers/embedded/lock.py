"""One launcher per data folder."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

from pipeline.errors import NotAllowed

LOCK_FILE = "lock"


def wait_until_free(data: Path, timeout_s: float) -> None:
    """Return once no launcher holds the folder's lock: one that was interrupted may still be stopping. Raises NotAllowed after `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while True:
        lock = DataLock(data)
        try:
            lock.acquire()
        except NotAllowed:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            lock.release()
            return


class DataLock:
    """The exclusive lock on a data folder; the kernel lets go of it when the launcher dies, however it dies."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock, or raise NotAllowed with the process that has it."""
        descriptor = os.open(self._data / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 20).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise NotAllowed(
                f"A stack (process {holder}) already runs on the data folder {self._data}; stop it (`ctreport down`) or give another --data."
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        self._descriptor = descriptor

    def release(self) -> None:
        """Let go; the file stays, because deleting it would let two launchers lock two different files."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
