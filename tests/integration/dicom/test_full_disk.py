"""A file system that is really full: the listener's processes see a small one of their own, mounted where nobody else sees it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psycopg
import pytest

from tests.integration.dicom.images import Image, made
from tests.listener_process import ListenerProcess, listening
from tests.wire import Peer

MB = 1 << 20
DISK_MB, FILLER_MB = 16, 8
MOUNTED = 'mount -t tmpfs -o size={size}m tmpfs "$0" && exec "$@"'


@pytest.fixture(scope="module")
def images() -> list[Image]:
    """Twelve megabytes: half a megabyte each."""
    noise = np.random.default_rng(5).integers(0, 4096, (512, 512), np.int16)
    return [made(number, "full", pixels=noise) for number in range(24)]


@dataclass
class SmallDisk:
    """A listener whose archive is a disk of 16 MB, half of it taken by a file of somebody else."""

    listener: ListenerProcess
    root: Path  # as seen from here, through the listener's own view
    url: str

    def free_mb(self) -> float:
        found = os.statvfs(self.root)
        return found.f_bavail * found.f_frsize / MB

    def fill(self) -> None:
        (self.root / "filler").write_bytes(bytes(FILLER_MB * MB))

    def clear(self) -> None:
        (self.root / "filler").unlink()

    def is_sound(self) -> bool:
        """Every final name holds the bytes that it is made of."""
        return all(hashlib.sha256(path.read_bytes()).hexdigest() == path.stem for path in (self.root / "objects").rglob("*.dcm"))

    def acknowledged(self) -> set[str]:
        """SOPInstanceUIDs of rows whose files stand there whole."""
        with psycopg.connect(self.url) as connection:
            rows = connection.execute("SELECT sop_uid, path, sha256 FROM instances").fetchall()
        return {uid for uid, path, sha256 in rows if hashlib.sha256((self.root / path).read_bytes()).hexdigest() == sha256}


@contextmanager
def small_disk(folder: Path, url: str, redis_url: str, floor_mb: int) -> Iterator[SmallDisk]:
    root = folder / "archive"
    root.mkdir(parents=True)
    unshare = [shutil.which("unshare") or "unshare", "-U", "-r", "-m", "sh", "-c", MOUNTED.format(size=DISK_MB), str(root)]
    try:
        subprocess.run([*unshare, "true"], check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("no file system can be mounted here in a user namespace of our own")
    floor = {"CTREPORT_ARCHIVE_FREE_FLOOR_MB": str(floor_mb), "CTREPORT_ARCHIVE_FREE_FLOOR_PERCENT": "0"}
    with listening(folder, url, redis_url, unshare, CTREPORT_ARCHIVE_ROOT=str(root), **floor) as listener:
        disk = SmallDisk(listener, Path(f"/proc/{listener.pid}/root") / root.relative_to("/"), url)
        disk.fill()
        yield disk


def sent(peer: Peer, images: list[Image]) -> dict[str, int]:
    return {image.sop_uid: image.sent(peer) for image in images}


def test_a_full_disk_truncates_nothing_and_the_listener_goes_on_when_there_is_space(
    tmp_path: Path, url: str, redis_url: str, images: list[Image]
) -> None:
    with small_disk(tmp_path, url, redis_url, floor_mb=0) as disk, Peer(disk.listener.port) as peer:
        first = sent(peer, images)
        taken = {uid for uid, status in first.items() if status == 0x0000}
        assert set(first.values()) == {0x0000, 0xA700}
        assert disk.is_sound()
        assert disk.acknowledged() == taken
        disk.clear()
        again = sent(peer, images)
        assert set(again.values()) == {0x0000}
        peer.release()
        assert disk.is_sound()
        assert disk.acknowledged() == set(again)
        assert not list((disk.root / "incoming").iterdir())


def test_the_floor_refuses_while_there_is_still_space_and_takes_images_again_above_it(
    tmp_path: Path, url: str, redis_url: str, images: list[Image]
) -> None:
    with small_disk(tmp_path, url, redis_url, floor_mb=4) as disk, Peer(disk.listener.port) as peer:
        first = sent(peer, images[:16])
        assert set(first.values()) == {0x0000, 0xA700}
        assert disk.free_mb() > 4 - 1
        taken = {uid for uid, status in first.items() if status == 0x0000}
        disk.clear()
        assert set(sent(peer, images[:12]).values()) == {0x0000}
        peer.release()
        assert disk.acknowledged() == taken | {image.sop_uid for image in images[:12]}
