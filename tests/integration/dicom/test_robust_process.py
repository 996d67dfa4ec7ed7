"""The listener's own processes under endurance and under size: threads, descriptors and memory stay flat."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from pydicom.uid import EnhancedCTImageStorage

from tests.builders import ct_slice, uid_of
from tests.integration.dicom.conftest import eventually
from tests.integration.dicom.images import Image, made, of
from tests.listener_process import ListenerProcess, listening
from tests.wire import EXPLICIT_LE, IMPLICIT_LE, USER_ABORT, VERIFICATION, Peer, connect, zeros

SENDERS = 6
ECHOSCU = shutil.which("echoscu", path="/usr/bin:/usr/local/bin") or ""  # DCMTK's, not the script of that name that pynetdicom installs
MB = 1 << 20
FULL = [pytest.mark.long, pytest.mark.timeout(1_800)]


@pytest.fixture
def listener(tmp_path: Path, url: str, redis_url: str) -> Iterator[ListenerProcess]:
    with listening(tmp_path / "site", url, redis_url, CTREPORT_LOG_LEVEL="WARNING") as running:
        yield running


def one(port: int, number: int) -> None:
    """One association: most say C-ECHO, some bring a small image, some end without a word, by an abort or in the middle."""
    match number % 10:
        case 0 | 1:
            with Peer(port) as peer:
                assert made(number % 500, "endurance").sent(peer) == 0x0000
                peer.release()
        case 2:
            connect(port).close()
        case 3:
            with Peer(port) as peer:
                peer.socket.sendall(USER_ABORT)
        case 4:
            Peer(port).socket.close()
        case _:
            with Peer(port, (VERIFICATION, IMPLICIT_LE)) as peer:
                assert peer.echo() == 0x0000
                peer.release()


def associations(port: int, first: int, count: int) -> None:
    with ThreadPoolExecutor(SENDERS) as pool:
        list(pool.map(lambda number: one(port, number), range(first, first + count)))


@pytest.mark.parametrize(("warm_up", "count", "limit"), [(200, 800, 1.08), pytest.param(1_000, 9_000, 1.05, marks=FULL)])
def test_threads_descriptors_and_memory_are_flat_over_many_associations(listener: ListenerProcess, warm_up: int, count: int, limit: float) -> None:
    associations(listener.port, 0, warm_up)
    eventually(lambda: listener.connections() == 0, 30.0)
    before = level(listener)
    associations(listener.port, warm_up, count)
    eventually(lambda: listener.connections() == 0, 30.0)
    eventually(lambda: level(listener)[0] <= before[0] and level(listener)[1] <= before[1] + 2, 30.0)
    grown = level(listener)[2] / before[2]
    assert grown < limit, f"resident memory grew by {grown - 1:.1%}"


def level(listener: ListenerProcess) -> tuple[int, int, float]:
    """Threads, descriptors and resident MiB of all its processes together."""
    return listener.threads(), listener.descriptors(), sum(listener.resident_mb().values())


@pytest.mark.skipif(not ECHOSCU, reason="DCMTK is not installed")
def test_dcmtk_echoes_by_the_dozen_at_once(listener: ListenerProcess) -> None:
    command = [ECHOSCU, "-aec", "CTREPORT", "--repeat", "10", "127.0.0.1", str(listener.port)]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(12)]
    assert [process.communicate(timeout=60)[1] for process in running] == [b""] * 12
    assert [process.returncode for process in running] == [0] * 12


def multi_frame(size: int) -> tuple[Image, int]:
    """An Enhanced CT object up to its pixel data's value, and how many bytes of pixels are to follow: `size` in all, never in memory."""
    ds = ct_slice("giant", number=1, NumberOfFrames=size // (512 * 512 * 2), Rows=512, Columns=512)
    ds.SOPClassUID = ds.file_meta.MediaStorageSOPClassUID = EnhancedCTImageStorage
    ds.SOPInstanceUID = ds.file_meta.MediaStorageSOPInstanceUID = uid_of("giant", size)
    del ds.PixelData
    image = of(ds)
    pixels = size // (512 * 512 * 2) * (512 * 512 * 2)
    head = image.data + b"\xe0\x7f\x10\x00OW\0\0" + pixels.to_bytes(4, "little")
    return Image(image.sop_class, image.sop_uid, image.syntax, head), pixels


def giant_stored(listener: ListenerProcess, size: int) -> int:
    """Length of the archived file."""
    image, pixels = multi_frame(size)

    def content() -> Iterator[bytes]:
        yield image.data
        yield from zeros(pixels)

    with Peer(listener.port, (EnhancedCTImageStorage, EXPLICIT_LE), timeout_s=120.0) as peer:
        assert peer.store(content(), image.sop_uid, EnhancedCTImageStorage) in (0x0000, 0xB007)
        peer.release()
    return len(image.data) + pixels


@pytest.mark.parametrize(("size_mb", "path"), [(200, "public"), pytest.param(1_000, "public", marks=FULL), pytest.param(1_000, "fast", marks=FULL)])
def test_a_giant_object_is_streamed_to_disk(tmp_path: Path, url: str, redis_url: str, size_mb: int, path: str) -> None:
    """Peak memory of every listener process stays below 300 MB, and near what it was after the first small image."""
    with listening(tmp_path / "site", url, redis_url, CTREPORT_LISTENER_PROCESSES="1", CTREPORT_LISTENER_FAST=str(path == "fast")) as listener:
        with Peer(listener.port) as peer:
            assert made(1, "small").sent(peer) == 0x0000
            peer.release()
        before = max(listener.peak_mb().values())
        length = giant_stored(listener, size_mb * MB)
        peak = max(listener.peak_mb().values())
        assert peak < 300, f"peak of {peak:.0f} MB"
        assert peak - before < 60, f"{peak - before:.0f} MB more than after a small image"
        with psycopg.connect(url) as connection:
            ((largest,),) = connection.execute("SELECT max(size_bytes) FROM instances").fetchall()
        assert largest > length
        assert listener.ctreport("verify").returncode == 0
        shutil.rmtree(tmp_path / "site" / "archive")  # a gigabyte is not left to the temporary folder
