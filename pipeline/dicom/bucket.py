"""An object store behind fsspec: whole objects in, whole objects out. An object that is not written whole does not exist."""

from __future__ import annotations

import hashlib
import os
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipeline.errors import BadInput, ServiceUnavailable

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

    from pipeline.settings import ArchiveSettings

CHUNK_BYTES = 1 << 20
POOL = 32  # connections that one process keeps


class Opened(NamedTuple):
    """A file system, and the exceptions by which it says that something went wrong."""

    fs: AbstractFileSystem
    faults: tuple[type[Exception], ...]


class Bucket:
    """A place in an object store. Connects at first use, anew in each process: a connection does not live through a fork."""

    def __init__(self, root: str, opened: Callable[[], Opened]) -> None:
        self._root, self._open = root.rstrip("/"), opened
        self._opened: tuple[int, Opened] | None = None
        self._lock = threading.Lock()

    def put(self, local: Path, relative: str) -> None:
        """Write an object; durable when it returns, and the same bytes again change nothing. Raises ServiceUnavailable."""
        fs, faults = self._connected()
        try:
            fs.put_file(str(local), self._key(relative))
        except faults as error:
            raise _unavailable("written to", error) from error

    def get(self, relative: str, local: Path) -> bool:
        """Fetch an object to a file, which appears whole and synced or not at all; False where there is no such object. Raises ServiceUnavailable."""
        fs, faults = self._connected()
        temporary = local.with_name(f"{local.name}.{uuid.uuid4().hex}.part")
        try:
            fs.get_file(self._key(relative), str(temporary))
            _sync(temporary)
            temporary.replace(local)
        except FileNotFoundError:
            return False
        except faults as error:
            raise _unavailable("read", error) from error
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        return True

    def sha256(self, relative: str) -> str | None:
        """SHA-256 of an object as it stands there; None where there is none. Raises ServiceUnavailable."""
        fs, faults = self._connected()
        digest = hashlib.sha256()
        try:
            with fs.open(self._key(relative), "rb", block_size=CHUNK_BYTES, cache_type="none") as file:
                while data := file.read(CHUNK_BYTES):
                    digest.update(data)
        except FileNotFoundError:
            return None
        except faults as error:
            raise _unavailable("read", error) from error
        return digest.hexdigest()

    def names(self, area: str) -> list[str]:
        """Archive-relative paths of all objects below an area, sorted. Raises ServiceUnavailable."""
        fs, faults = self._connected()
        try:
            found = fs.find(self._key(area))
        except FileNotFoundError:
            return []
        except faults as error:
            raise _unavailable("listed", error) from error
        start = len(self._root) + 1
        return sorted(str(key).lstrip("/")[start:] for key in found)

    def ping(self) -> None:
        """Ask for one name. Raises ServiceUnavailable."""
        fs, faults = self._connected()
        try:
            fs.exists(self._key("incoming/ping"))
        except faults as error:
            raise _unavailable("reached", error) from error

    def _key(self, relative: str) -> str:
        return f"{self._root}/{relative}"

    def _connected(self) -> Opened:
        with self._lock:
            if self._opened is None or self._opened[0] != os.getpid():
                self._opened = os.getpid(), self._open()
            return self._opened[1]


def s3_bucket(url: str, room: ArchiveSettings) -> Bucket:
    """The bucket (and prefix) of an s3:// URL. Credentials that are not set are found where AWS's own tools find them."""
    scheme, _, root = url.partition("://")
    if scheme != "s3" or not root.strip("/"):
        raise BadInput("CTREPORT_ARCHIVE_URL names no bucket; write s3://bucket/prefix")
    return Bucket(root, lambda: _s3(room))


def _s3(room: ArchiveSettings) -> Opened:
    try:
        import s3fs
        from botocore.exceptions import BotoCoreError
    except ImportError as error:
        raise BadInput("CTREPORT_ARCHIVE_URL is an S3 address and the package s3fs is not installed: pip install 'ctreport[s3]'") from error
    fs = s3fs.S3FileSystem(
        key=room.s3_key.get_secret_value() if room.s3_key else None,
        secret=room.s3_secret.get_secret_value() if room.s3_secret else None,
        endpoint_url=room.s3_endpoint,
        config_kwargs={
            "connect_timeout": min(room.s3_timeout_s, 5.0),
            "read_timeout": room.s3_timeout_s,
            "retries": {"max_attempts": 2},
            "max_pool_connections": POOL,
        },
        use_listings_cache=False,
        skip_instance_cache=True,
    )
    fs.retries = 1  # of s3fs itself, on top of botocore's: who waits for an answer waits once
    return Opened(fs, (OSError, BotoCoreError))


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unavailable(verb: str, error: Exception) -> ServiceUnavailable:
    """Its message may hold keys and addresses: only its kind is told."""
    return ServiceUnavailable(
        f"the archive's object store cannot be {verb} ({type(error).__name__}): see that CTREPORT_ARCHIVE_URL and CTREPORT_ARCHIVE_S3_* name it, "
        "that it answers, and that its account may read and write there"
    )
