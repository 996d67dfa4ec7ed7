"""Where other receivers are known to lose images: full disks, exceptions in the handler, connections that leak."""

from __future__ import annotations

import errno
import hashlib
import os
import resource
import socket
import struct
from pathlib import Path
from typing import Any

import psycopg
import pytest

from pipeline.dicom.archive import FileArchive
from pipeline.dicom.listener import Listener
from pipeline.dicom.send import send
from pipeline.ports import Answer, Arrival, Incoming
from pipeline.settings import ListenerSettings
from tests.builders import Bell
from tests.integration.dicom.attacks import store_good
from tests.integration.dicom.conftest import Site, eventually, serving
from tests.integration.dicom.disk import failing
from tests.integration.dicom.images import Image, bytes_kept, made
from tests.integration.dicom.test_known_failures import SLICES, STUDY, act, all_closed, jobs
from tests.wire import ASSOCIATE_RJ, CT, EXPLICIT_LE, USER_ABORT, Gone, Peer, associate_rq, connect, context, read_pdu

LIMIT_EXCEEDED = b"\0\2\3\2"  # PS3.8 Table 9-21: passing, by the presentation provider, local limit exceeded

BUGS = [ZeroDivisionError, KeyError, MemoryError, RecursionError, AssertionError, OSError, psycopg.Error]


# a full disk


def sound(site: Site) -> None:
    """Every final name holds whole bytes: a name is made of the hash of its content."""
    for area in ("objects", "quarantine"):
        for path in site.files(area):
            assert path.suffix != ".dcm" or hashlib.sha256(path.read_bytes()).hexdigest() == path.stem


def tries(site: Site, image: Image) -> int:
    with Peer(site.port) as peer:
        status = image.sent(peer)
        peer.release()
    return status


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
def test_a_disk_that_fails_at_any_one_call_costs_a_refusal_and_nothing_else(site: Site, error: int) -> None:
    """The first call, the second, … until an image comes through without reaching the failing one."""
    store_good(site.port)
    with failing(site.root) as disk:
        disk.error = error
        for nth in range(1, 60):
            image = made(nth, "failing", SeriesDescription="x" * nth)
            disk.calls, disk.fails = 0, lambda name, number, nth=nth: number == nth  # type: ignore[misc]  # the default binds the number
            refused = tries(site, image)
            reached = disk.calls >= nth
            disk.fails = lambda name, number: False
            assert refused == 0xA700 or (refused == 0x0000 and (not reached or image.data in bytes_kept(site)))
            sound(site)
            assert not site.files("incoming")
            assert tries(site, image) == 0x0000
            if not reached:
                break
        else:
            raise AssertionError("no image came through")
        assert nth > 3, "the disk was never asked"
    assert site.verified().clean


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "mkdir", "open"])
def test_a_full_disk_refuses_recovers_by_itself_and_later_studies_complete(site: Site, call: str) -> None:
    names = {"write": ("write", "writev", "pwrite"), "fsync": ("fsync", "fdatasync"), "rename": ("rename", "replace", "link")}.get(call, (call,))
    with failing(site.root) as disk:
        disk.fails = lambda name, number: name in names
        with Peer(site.port) as peer:
            assert [image.sent(peer) for image in STUDY[:4]] == [0xA700] * 4
            disk.fails = lambda name, number: False
            assert [image.sent(peer) for image in STUDY] == [0x0000] * SLICES
            peer.release()
    sound(site)
    assert len(site.files("objects")) == SLICES
    all_closed(site)
    act(site)
    assert jobs(site) == [(1, "ready", SLICES)]
    report = site.verified()
    assert report.clean
    assert report.acknowledged == SLICES


def test_a_file_size_limit_of_the_kernel_truncates_nothing_under_a_final_name(site: Site, test_data: Path) -> None:
    """RLIMIT_FSIZE makes the kernel itself cut a write short, as a full disk does."""
    folder = test_data / "chest_lidc_0314"
    files = sorted(folder.glob("*.dcm"))[:4]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        result = send(files, "127.0.0.1", site.port, "CTREPORT")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {failure.status for failure in result.failed} == {"0xA700"}
    assert len(result.failed) == 4
    assert not site.files("objects")
    assert not site.files("incoming")
    assert send(files, "127.0.0.1", site.port, "CTREPORT").succeeded == 4
    sound(site)
    assert site.verified().clean


def test_the_floor_refuses_before_the_disk_is_full_and_space_that_returns_is_used(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real, free = os.statvfs, [1 << 40]

    def statvfs(path: Any) -> Any:
        found = list(real(path))
        found[3] = found[4] = free[0] // found[1]  # f_bfree, f_bavail in blocks of f_frsize
        return os.statvfs_result(found)

    monkeypatch.setattr(os, "statvfs", statvfs)
    monkeypatch.setattr("tests.integration.dicom.conftest.FileArchive", lambda folder, _: FileArchive(folder, 1 << 30))
    with serving(tmp_path / "archive", url) as site, Peer(site.port) as peer:
        assert STUDY[0].sent(peer) == 0x0000
        free[0] = (1 << 30) - (1 << 20)  # a gigabyte less a little is left: enough for it, and below the floor
        assert [image.sent(peer) for image in STUDY[1:4]] == [0xA700] * 3
        assert len(site.files("objects")) == 1
        free[0] = 2 << 30
        assert [image.sent(peer) for image in STUDY] == [0x0000] * SLICES
        peer.release()


# an exception in the handler


def test_an_exception_in_the_handler_is_answered_as_out_of_resources_never_c211(site: Site) -> None:
    bugs = [UnicodeDecodeError("utf-8", b"", 0, 1, "bug"), *(bug("bug") for bug in BUGS)]

    def receive(arrival: Arrival, content: Incoming) -> Answer:
        raise bugs[-1]

    listener = Listener(ListenerSettings(port=0, name="broken"), receive, site.archive, site.store, Bell())
    listener.start()
    try:
        with Peer(listener.port) as peer:
            while bugs:
                assert STUDY[0].sent(peer) == 0xA700
                bugs.pop()
            peer.release()
    finally:
        listener.stop(grace_s=1.0)
    assert not site.files("objects")
    assert not site.files("incoming")


# connections that leak


def rude(port: int, how: str) -> None:
    """One association that ends badly."""
    if how == "half-open":
        connect(port).close()
    elif how == "never-released":
        Peer(port).socket.close()
    else:
        peer = Peer(port)
        if how == "reset":
            peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif how == "abort":
            peer.socket.sendall(USER_ABORT)
        elif how == "half":
            peer.socket.sendall(b"\x04\0\0\0\x10\0half")
        peer.socket.close()


def test_associations_that_end_badly_never_use_up_the_limit(tmp_path: Path, url: str) -> None:
    with serving(tmp_path / "archive", url, max_associations=3) as site:
        for how in ("half-open", "never-released", "reset", "abort", "half"):
            for _ in range(6):
                eventually(lambda: not refused(site.port))
                rude(site.port, how)
        peers = [eventually(lambda: taken(site.port)) for _ in range(3)]
        assert refused(site.port)
        with connect(site.port) as sock:
            sock.sendall(associate_rq([context(1, CT, EXPLICIT_LE)]))
            assert read_pdu(sock) == (ASSOCIATE_RJ, LIMIT_EXCEEDED)
        for peer in peers:
            assert STUDY[0].sent(peer) == 0x0000
            peer.release()
        eventually(lambda: not refused(site.port))


def taken(port: int) -> Peer | None:
    """An association, or None while the limit is reached."""
    try:
        return Peer(port)
    except Gone:
        return None


def refused(port: int) -> bool:
    peer = taken(port)
    if peer is not None:
        peer.release()
    return peer is None
