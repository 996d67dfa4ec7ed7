"""Places for associations, counted across processes: a place is a file that its holder locks, so the kernel frees it when the holder dies."""

from __future__ import annotations

import fcntl
import os
from hashlib import sha256
from pathlib import Path


class Slot:
    """One place that is taken until release()."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Give the place back. Idempotent."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class Slots:
    """Places of any number of keys in one folder of a local disk."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, key: str, limit: int) -> Slot | None:
        """A place among the `limit` of `key`; None when all are taken. Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True)
        stem = sha256(key.encode()).hexdigest()[:16]
        for number in range(limit):
            descriptor = os.open(self._folder / f"{stem}.{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(descriptor)
            else:
                return Slot(descriptor)
        return None
