"""The archive on disk: bytes as they came, under names made of their own hash. A final name holds whole, synced bytes or does not exist.

incoming/                     files under way, locked by their writer; what a crash left is swept at start
objects/ab/cd/<sha256>.dcm    archived instances
quarantine/ab/cd/<sha256>.dcm what could not be understood
features/ab/<job id>.safetensors
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

from pipeline.errors import BadInput, StorageFull
from pipeline.model import Stored

INCOMING, OBJECTS, QUARANTINE, FEATURES = "incoming", "objects", "quarantine", "features"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class FileArchive:
    """`ports.Archive` on a local folder; any number of processes may share it."""

    def __init__(self, root: Path, free_floor_bytes: int) -> None:
        self._root = root.absolute()
        self._floor = free_floor_bytes
        self._made: set[Path] = set()
        self._lock = threading.Lock()

    def has_room(self) -> bool:
        """False below the free-space floor."""
        with _storage("measured"):
            self._folder(self._root)
            room = os.statvfs(self._root)
        return room.f_bavail * room.f_frsize >= self._floor

    def open(self) -> IncomingFile:
        """Start a file in `incoming/`. Raises StorageFull below the floor."""
        if not self.has_room():
            raise StorageFull(f"less than {self._floor} bytes are free for the archive: make space, then send again")
        with _storage("written"):
            return IncomingFile(self, self._folder(self._root / INCOMING) / f"{uuid.uuid4().hex}.part", OBJECTS)

    def quarantine(self, data: bytes, reason: str) -> Stored:
        """Keep bytes that cannot be understood, with the reason in a text file beside them. Idempotent. Raises StorageFull."""
        with _storage("written"):
            incoming = IncomingFile(self, self._folder(self._root / INCOMING) / f"{uuid.uuid4().hex}.part", QUARANTINE)
        try:
            incoming.write(data)
            stored = incoming.commit()
            with _storage("written"):
                (self._root / stored.path).with_suffix(".txt").write_text(f"{reason}\n", encoding="utf-8")
        finally:
            incoming.discard()
        return stored

    def path(self, relative: str) -> Path:
        """Absolute path of an archive-relative one. Refuses paths that leave the archive (BadInput)."""
        path = Path(os.path.normpath(self._root / relative))
        if "\x00" in relative or path == self._root or not path.is_relative_to(self._root):
            raise BadInput("a path leads out of the archive; paths are relative to its root and never climb above it")
        return path

    def features_path(self, job_id: UUID) -> str:
        """Archive-relative path where the features of a job belong; its folder exists."""
        relative = f"{FEATURES}/{job_id.hex[:2]}/{job_id}.safetensors"
        with _storage("written"):
            self._folder((self._root / relative).parent)
        return relative

    def sweep(self) -> int:
        """Remove what crashed writers left in `incoming/`; files that a living process writes are locked and stay. Returns how many."""
        folder = self._root / INCOMING
        leftovers = list(folder.glob("*.part")) if folder.is_dir() else []
        return sum(1 for path in leftovers if _remove_unless_locked(path))

    def _folder(self, folder: Path) -> Path:
        """Make a folder durable: each level is synced into its parent, at first use also what an earlier process may have left unsynced."""
        with self._lock:
            if folder not in self._made or not folder.is_dir():
                levels = [folder, *folder.parents]
                for level in reversed(levels[: levels.index(self._root) + 1]):
                    level.mkdir(exist_ok=True, parents=level == self._root)
                    sync_folder(level.parent)
                self._made.add(folder)
        return folder

    def file(self, temporary: Path, area: str, sha256: str, size_bytes: int) -> Stored:
        """Give a synced temporary file its final name; a sound file that already has it stays. Only IncomingFile calls this."""
        relative = f"{area}/{sha256[:2]}/{sha256[2:4]}/{sha256}.dcm"
        final = self._root / relative
        folder = self._folder(final.parent)
        fresh = not (final.exists() and hash_file(final) == sha256)  # a file that rotted on disk is healed by sending it again
        if fresh:
            temporary.replace(final)
        sync_folder(folder)  # also when it was there: another writer may have renamed and not synced yet
        return Stored(relative, sha256, size_bytes, fresh)


class IncomingFile:
    """`ports.Incoming`: hashed while it is written, locked against the sweep until it is filed or discarded."""

    def __init__(self, archive: FileArchive, temporary: Path, area: str) -> None:
        self._archive, self._temporary, self._area = archive, temporary, area
        self._file: BinaryIO | None = temporary.open("xb", buffering=0)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._hash = hashlib.sha256()
        self._size = 0

    def write(self, data: bytes) -> None:
        """Append bytes. Raises StorageFull."""
        self._hash.update(data)
        self._size += len(data)
        with _storage("written"):
            rest = memoryview(data)
            while rest:
                rest = rest[self._open().write(rest) :]

    def commit(self) -> Stored:
        """fsync, rename to the content-addressed final name, fsync the directory. Idempotent per content. Raises StorageFull."""
        with _storage("written"):
            os.fsync(self._open().fileno())
            stored = self._archive.file(self._temporary, self._area, self._hash.hexdigest(), self._size)
        self.discard()
        return stored

    def discard(self) -> None:
        """Remove the temporary file; nothing happens when it is filed already."""
        if self._file is not None:
            with contextlib.suppress(OSError):  # a swept leftover is as good as a removed one
                self._temporary.unlink(missing_ok=True)
            self._file.close()
            self._file = None

    def _open(self) -> BinaryIO:
        if self._file is None:
            raise BadInput("this incoming file is already filed or discarded; open another one")
        return self._file


def hash_file(path: Path) -> str:
    """SHA-256 of a file in bounded memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def _storage(verb: str) -> Iterator[None]:
    """Any fault of the disk means that nothing can be kept now."""
    try:
        yield
    except OSError as error:
        cause = "no space is left" if error.errno in FULL else os.strerror(error.errno or 0)
        raise StorageFull(f"the archive cannot be {verb} ({cause}): mend its disk, then send again") from error


def sync_folder(folder: Path) -> None:
    """Make new names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_unless_locked(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
    except OSError:  # locked by its living writer, or gone
        return False
    return True
