"""The archive on disk: bytes as they came, under names made of their own hash. A final name holds whole, synced bytes or does not exist.

incoming/                     files under way, locked by their writer; what a crash left is swept at start
objects/ab/<sha256>.dcm       archived instances
quarantine/ab/<sha256>.dcm    what could not be understood
features/ab/<digest of the files>.<identity of the encoder>.safetensors   (older ones: features/ab/<job id>.safetensors)
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import threading
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipeline.errors import BadInput, StorageFull
from pipeline.model import Stored

INCOMING, OBJECTS, QUARANTINE, FEATURES = "incoming", "objects", "quarantine", "features"
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
SPOOL_BYTES = 1 << 20  # an object up to this size is written at once, when it is whole
ROOM_EVERY_BYTES = 64 << 20  # how often a large object looks whether there is still room
IOV_MAX = 1024
SMALL_BYTES = 4096  # of a fragment


class FileArchive:
    """`ports.Archive` on a local folder; any number of processes may share it. `fsync=False` is for benchmarks: nothing is durable then."""

    def __init__(self, root: Path, free_floor_bytes: int, free_floor_percent: float = 0.0, fsync: bool = True) -> None:
        self._root = root.absolute()
        self._floor, self._floor_share = free_floor_bytes, free_floor_percent / 100
        self.fsync = fsync
        self._made: set[Path] = set()
        self._lock = threading.Lock()

    def has_room(self) -> bool:
        """False below the free-space floor: bytes, or a share of the file system, whichever is more."""
        with _storage("measured"):
            try:
                room = os.statvfs(self._root)
            except FileNotFoundError:
                room = os.statvfs(self._folder(self._root))
        return room.f_bavail >= max(self._floor / room.f_frsize, self._floor_share * room.f_blocks)

    def open(self) -> IncomingFile:
        """Start a file in `incoming/`. Raises StorageFull below the floor."""
        self.check_room()
        return IncomingFile(self)

    def check_room(self) -> None:
        """Raises StorageFull below the floor."""
        if not self.has_room():
            floor = f"{self._floor >> 20} MiB or {self._floor_share:.1%} of its file system"
            raise StorageFull(f"less than {floor} is free for the archive: make space, then send again")

    def settle(self, stored: Sequence[Stored]) -> None:
        """Make the names of committed files durable, each folder once. Raises StorageFull."""
        if self.fsync:
            with _storage("synced"):
                for folder in {(self._root / one.path).parent for one in stored}:
                    sync_folder(folder)

    def path(self, relative: str) -> Path:
        """Absolute path of an archive-relative one. Refuses paths that leave the archive (BadInput)."""
        path = Path(os.path.normpath(self._root / relative))
        if "\x00" in relative or path == self._root or not path.is_relative_to(self._root):
            raise BadInput("a path leads out of the archive; paths are relative to its root and never climb above it")
        return path

    def paths(self, relatives: Sequence[str]) -> list[Path]:
        """As `path`, for several at once."""
        return [self.path(relative) for relative in relatives]

    def make_folder(self, relative: str) -> None:
        """The folder that an archive-relative path stands in. Raises StorageFull."""
        with _storage("written"):
            self._folder(self.path(relative).parent)

    def features_path(self, identity: str, source: str) -> str:
        """Archive-relative path of what an encoder (its identity) makes of some files (their digest); its folder exists."""
        relative = f"{FEATURES}/{source[:2]}/{source}.{hashlib.sha256(identity.encode()).hexdigest()[:16]}.safetensors"
        self.make_folder(relative)
        return relative

    def publish(self, relative: str) -> None:
        """A file that was written whole and synced is where everybody finds it: nothing is left to do."""

    def sha256(self, relative: str) -> str | None:
        """SHA-256 of a file's bytes as they stand on disk; None where there is no file."""
        path = self.path(relative)
        return hash_file(path) if path.is_file() else None

    def names(self) -> list[str]:
        """Archive-relative paths of all archived instances, sorted."""
        return sorted(str(file.relative_to(self._root)) for file in (self._root / OBJECTS).rglob("*.dcm"))

    def refusal(self) -> str | None:
        """Why nothing can be kept now, None when something can."""
        return None if self.has_room() else f"less than {self._floor >> 20} MiB free: images are refused with 0xA700 until space is made"

    def sweep(self) -> int:
        """Remove what crashed writers left in `incoming/`; files that a living process writes are locked and stay. Returns how many."""
        folder = self._root / INCOMING
        leftovers = list(folder.glob("*.part")) if folder.is_dir() else []
        return sum(1 for path in leftovers if _remove_unless_locked(path))

    def prepare(self) -> None:
        """Make the folders of the objects, all at once: made one by one, each would cost its first image three syncs. Raises StorageFull."""
        with _storage("written"):
            objects = self._folder(self._root / OBJECTS)
            folders = [objects / f"{number:02x}" for number in range(256)]
            for folder in folders:
                folder.mkdir(exist_ok=True)
            sync_folder(objects)
            self._made.update(folders)

    def create(self) -> tuple[Path, int]:
        """A new file in `incoming/`, locked against the sweep, and its descriptor. Only IncomingFile calls this."""
        temporary = self._folder(self._root / INCOMING) / f"{uuid.uuid4().hex}.part"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return temporary, descriptor

    def file(self, temporary: Path, area: str, sha256: str, size_bytes: int) -> Stored:
        """Give a synced temporary file its final name; a sound file that already has it stays. Only IncomingFile calls this."""
        relative = final_path(area, sha256)
        final = self._root / relative
        self._folder(final.parent)
        fresh = not (final.exists() and hash_file(final) == sha256)  # a file that rotted on disk is healed by sending it again
        if fresh:
            temporary.replace(final)
        return Stored(relative, sha256, size_bytes, fresh)

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


class IncomingFile:
    """`ports.Incoming`: small objects wait in memory until they are committed, large ones go to `incoming/` while they arrive."""

    def __init__(self, archive: FileArchive) -> None:
        self._archive = archive
        self._temporary: Path | None = None
        self._descriptor = -1
        self._parts: list[bytes | bytearray | memoryview] = []  # hashed, not written yet
        self._waiting = self._size = self._checked = 0  # bytes: of the parts, of all, when there was room last
        self._hash = hashlib.sha256()
        self._stored: Stored | None = None
        self._over = False

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. Raises StorageFull, also once the disk falls below its floor."""
        if self._over or self._stored is not None:
            raise BadInput("this incoming file is already filed or discarded; open another one")
        self._hash.update(data)
        add_part(self._parts, data)
        self._waiting += len(data)
        self._size += len(data)
        if self._waiting > SPOOL_BYTES:
            if self._size - self._checked > ROOM_EVERY_BYTES:
                self._archive.check_room()
                self._checked = self._size
            self._flush()

    def seal(self) -> Stored:
        """Write out what waits; see the Incoming port."""
        self._flush()
        sha256 = self._hash.hexdigest()
        return Stored(final_path(OBJECTS, sha256), sha256, self._size, True)

    def commit(self) -> Stored:
        """fsync, then rename to the content-addressed final name; `Archive.settle` makes the name durable. Idempotent per content. Raises
        StorageFull."""
        return self._file(OBJECTS)

    def quarantine(self, reason: str) -> Stored:
        """Keep the bytes apart, durable when it returns, with the reason in a text file beside them. Idempotent. Raises StorageFull."""
        if self._stored is None:
            self._archive.check_room()
            stored = self._file(QUARANTINE)
        else:
            stored = self._copy_to_quarantine(self._stored)
        with _storage("written"):
            self._archive.path(stored.path).with_suffix(".txt").write_text(f"{reason}\n", encoding="utf-8")
        self._archive.settle([stored])
        return stored

    def discard(self) -> None:
        """Remove the temporary file; nothing happens when it is filed already."""
        self._over = True
        self._parts.clear()
        if self._descriptor >= 0:
            if self._temporary is not None:
                with contextlib.suppress(OSError):  # a swept leftover is as good as a removed one
                    self._temporary.unlink(missing_ok=True)
            descriptor, self._descriptor = self._descriptor, -1  # before close: where it fails, the number may be another file's already
            with contextlib.suppress(OSError):  # the bytes were synced, or are not wanted
                os.close(descriptor)

    def _file(self, area: str) -> Stored:
        if self._over or self._stored is not None:
            raise BadInput("this incoming file is already filed or discarded; open another one")
        self._flush()
        assert self._temporary is not None
        with _storage("written"):
            if self._archive.fsync:
                os.fsync(self._descriptor)
            self._stored = self._archive.file(self._temporary, area, self._hash.hexdigest(), self._size)
        if self._stored.fresh:
            self._temporary = None  # it has its final name: nothing is left to remove
        self.discard()
        return self._stored

    def _flush(self) -> None:
        """Write what waits."""
        if not self._parts and self._descriptor >= 0:
            return
        with _storage("written"):
            if self._descriptor < 0:
                self._temporary, self._descriptor = self._archive.create()
            for start in range(0, len(self._parts), IOV_MAX):
                _write_all(self._descriptor, self._parts[start : start + IOV_MAX])
        self._parts.clear()
        self._waiting = 0

    def _copy_to_quarantine(self, filed: Stored) -> Stored:
        """Filed already, then refused by the database: a second name, for nobody will ever look among the objects."""
        copy = IncomingFile(self._archive)
        try:
            with _storage("read"), self._archive.path(filed.path).open("rb") as file:
                while data := file.read(SPOOL_BYTES):
                    copy.write(data)
            return copy._file(QUARANTINE)
        finally:
            copy.discard()


def add_part(parts: list[bytes | bytearray | memoryview], data: bytes | memoryview) -> None:
    """Append a fragment; small ones are put together, for a peer may send a million of one byte."""
    last = parts[-1] if parts else None
    if len(data) >= SMALL_BYTES:
        parts.append(data)
    elif isinstance(last, bytearray):
        last += data
    else:
        parts.append(bytearray(data))


def _write_all(descriptor: int, parts: Sequence[bytes | bytearray | memoryview]) -> None:
    """All bytes of up to IOV_MAX parts; the kernel may take a part of them at a time."""
    written = os.writev(descriptor, parts)
    total = sum(len(part) for part in parts)
    if written < total:
        rest = memoryview(b"".join(parts))[written:]
        while rest:
            rest = rest[os.write(descriptor, rest) :]


def final_path(area: str, sha256: str) -> str:
    """Archive-relative path of a file by its content."""
    return f"{area}/{sha256[:2]}/{sha256}.dcm"


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
