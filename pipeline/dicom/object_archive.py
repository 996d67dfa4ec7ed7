"""The archive on an object store that any number of machines share: acknowledged means that the store has it.

Each machine keeps a folder as `FileArchive` lays it out, for files under way and as a cache: an object's name is the hash of its content, so a
copy is never out of date. Only features, whose name says what they are made of, are asked for again each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pipeline.dicom.archive import FEATURES, OBJECTS, QUARANTINE, FileArchive, IncomingFile, hash_file
from pipeline.dicom.bucket import Bucket
from pipeline.dicom.cache import Copies
from pipeline.errors import BadInput, ServiceUnavailable, StorageFull
from pipeline.model import Stored

FETCHERS = 8


class ObjectArchive:
    """`ports.Archive` on a bucket, with this machine's folder in front of it."""

    def __init__(self, near: FileArchive, bucket: Bucket, cache_bytes: int) -> None:
        self._near, self._bucket = near, bucket
        self._copies = Copies(tuple(near.path(area) for area in (OBJECTS, FEATURES, QUARANTINE)), cache_bytes)

    def has_room(self) -> bool:
        """False below the free-space floor of this machine's disk."""
        return self._near.has_room()

    def refusal(self) -> str | None:
        """Why nothing can be kept now, None when something can."""
        try:
            self._bucket.ping()
        except ServiceUnavailable as error:
            return str(error)
        return self._near.refusal()

    def open(self) -> ObjectIncoming:
        """Start a file in this machine's `incoming/`. Raises StorageFull below the floor."""
        return ObjectIncoming(self._near.open(), self)

    def settle(self, stored: Sequence[Stored]) -> None:
        """Make the names of the copies durable; the store has had their bytes since they were committed. Raises StorageFull."""
        self._near.settle(stored)

    def path(self, relative: str) -> Path:
        """A file of this machine with the content, fetched where it is not here. It is absent where the store has none. Raises ServiceUnavailable,
        and BadInput for paths that leave the archive or whose content is not what their name says."""
        local = self._near.path(relative)
        if relative.startswith(f"{FEATURES}/") or not local.exists():
            self._fetch(relative, local)
        self._copies.used(local)
        return local

    def paths(self, relatives: Sequence[str]) -> list[Path]:
        """As `path`, for several at once."""
        if all(self._near.path(relative).exists() for relative in relatives):
            return [self.path(relative) for relative in relatives]
        with ThreadPoolExecutor(FETCHERS, thread_name_prefix="fetch") as pool:
            return list(pool.map(self.path, relatives))

    def features_path(self, identity: str, source: str) -> str:
        """Archive-relative path of what an encoder (its identity) makes of some files (their digest); its folder exists here."""
        return self._near.features_path(identity, source)

    def publish(self, relative: str) -> None:
        """Hand a file that was written here to the store. Raises StorageFull."""
        local = self._near.path(relative)
        try:
            self._bucket.put(local, relative)
        except ServiceUnavailable as error:
            raise StorageFull(str(error)) from error
        self._copies.grew(_size(local))

    def sha256(self, relative: str) -> str | None:
        """SHA-256 of the bytes as the store has them; None where it has none. Raises ServiceUnavailable."""
        return self._bucket.sha256(relative)

    def names(self) -> list[str]:
        """Archive-relative paths of all archived instances, sorted. Raises ServiceUnavailable."""
        return [name for name in self._bucket.names(OBJECTS) if name.endswith(".dcm")]

    def prepare(self) -> None:
        """Make the folders of the copies. Raises StorageFull."""
        self._near.prepare()

    def sweep(self) -> int:
        """Remove what crashed writers left here, and copies over the limit. Returns how many leftovers there were."""
        swept = self._near.sweep()
        self._copies.trim()
        return swept

    def _fetch(self, relative: str, local: Path) -> None:
        self._near.make_folder(relative)
        if not self._bucket.get(relative, local):
            return
        if local.suffix == ".dcm" and hash_file(local) != local.stem:
            local.unlink(missing_ok=True)
            raise BadInput("an archived object holds other bytes than its name says; `ctreport verify` names it, and sending it again mends it")
        self._copies.grew(_size(local))


class ObjectIncoming:
    """`ports.Incoming`: written on this machine, then handed to the store before anybody is told that it is kept."""

    def __init__(self, near: IncomingFile, archive: ObjectArchive) -> None:
        self._near, self._archive = near, archive

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes. Raises StorageFull."""
        self._near.write(data)

    def seal(self) -> Stored:
        """Write out what waits; see the Incoming port."""
        return self._near.seal()

    def commit(self) -> Stored:
        """The copy under its final name, then the object; an object that rotted in the store is healed by that. Raises StorageFull."""
        stored = self._near.commit()
        self._archive.publish(stored.path)
        return stored

    def quarantine(self, reason: str) -> Stored:
        """Keep the bytes apart, with the reason in a text file beside them. Idempotent. Raises StorageFull."""
        stored = self._near.quarantine(reason)
        self._archive.publish(stored.path)
        self._archive.publish(str(Path(stored.path).with_suffix(".txt")))
        return stored

    def discard(self) -> None:
        """Remove the temporary file; nothing happens when it is filed already."""
        self._near.discard()


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
