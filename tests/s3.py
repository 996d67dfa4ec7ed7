"""An S3 server for tests (moto's, in a process of its own), and an archive on it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.dicom.archive import FileArchive
from pipeline.dicom.bucket import Bucket, s3_bucket
from pipeline.dicom.object_archive import ObjectArchive
from pipeline.settings import ArchiveSettings
from workers.embedded.ports import free_port, is_listening

BUCKET = "images"
DEADLINE_S = 60.0
SERVER = "import sys; from moto.server import main; main(['-H', '127.0.0.1', '-p', sys.argv[1]])"


class S3:
    """One running server. It keeps everything in memory: what is stopped is empty when it starts again."""

    def __init__(self) -> None:
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, with the bucket."""
        self._process = subprocess.Popen([sys.executable, "-c", SERVER, str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + DEADLINE_S
        while not is_listening(self.port):
            assert time.monotonic() < deadline, "the S3 server does not listen"
            assert self._process.poll() is None, "the S3 server has ended"
            time.sleep(0.05)
        opened = self.bucket()._connected()
        opened.fs.mkdir(BUCKET)

    def stop(self) -> None:
        """Stop it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def settings(self, **changes: object) -> ArchiveSettings:
        """An archive's settings that name this server."""
        given = {"url": f"s3://{BUCKET}/site", "s3_endpoint": self.endpoint, "s3_key": "key", "s3_secret": "secret", "s3_timeout_s": 10.0}
        return ArchiveSettings.model_validate(given | changes)

    def bucket(self, **changes: object) -> Bucket:
        """The bucket on it."""
        room = self.settings(**changes)
        assert room.url is not None
        return s3_bucket(room.url, room)

    def archive(self, folder: Path, cache_bytes: int = 1 << 30) -> ObjectArchive:
        """The archive as a machine has it whose own folder this is."""
        return ObjectArchive(FileArchive(folder, 0, fsync=False), self.bucket(), cache_bytes)


@contextmanager
def s3_server() -> Iterator[S3]:
    """A server that is stopped at the end."""
    server = S3()
    server.start()
    try:
        yield server
    finally:
        server.stop()
