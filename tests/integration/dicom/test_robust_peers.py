"""Slow, silent, rude and crowding peers: no hang, no leak, and the next good association works at once."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from tests.integration.dicom.attacks import (
    ECHO,
    ENDED_S,
    GOOD_RQ,
    STORE,
    TIMEOUT_S,
    associated,
    ended,
    said,
    store_good,
    survived,
)
from tests.integration.dicom.conftest import Site, eventually, serving
from tests.integration.dicom.images import made
from tests.wire import (
    ABORT,
    ASSOCIATE_AC,
    ASSOCIATE_RJ,
    ASSOCIATE_RQ,
    P_DATA,
    RELEASE,
    Peer,
    connect,
    pdu,
    read_pdu,
    zeros,
)


@pytest.fixture
def hasty(tmp_path: Path, url: str) -> Iterator[Site]:
    """A listener that waits two seconds for a silent peer."""
    with serving(tmp_path / "archive", url, network_timeout_s=TIMEOUT_S) as made_site:
        yield made_site


def speak_slowly(sock: socket.socket, words: bytes, pause_s: float) -> None:
    """A byte at a time, until the listener ends the connection; one that it keeps open fails the test."""
    deadline = time.monotonic() + ENDED_S
    sock.settimeout(pause_s)
    with sock, contextlib.suppress(ConnectionError):
        for byte in words:
            assert time.monotonic() < deadline, "the listener listens to a byte now and then for ever"
            sock.sendall(bytes([byte]))
            with contextlib.suppress(TimeoutError):
                while sock.recv(4096):
                    pass
                return
    assert time.monotonic() < deadline


def test_a_peer_that_says_a_byte_now_and_then_is_ended(hasty: Site) -> None:
    """Slowloris: never silent for the whole timeout, and never done."""
    slow = ((b"", GOOD_RQ), (GOOD_RQ, STORE), (GOOD_RQ, ECHO + STORE))
    with survived(hasty), ThreadPoolExecutor(len(slow)) as pool:
        for peer in [pool.submit(speak_slowly, said(hasty.port, before), words, TIMEOUT_S / 4) for before, words in slow]:
            peer.result()


@pytest.mark.parametrize("kind", [ASSOCIATE_RQ, P_DATA])
def test_a_giant_length_is_ended_before_its_bytes_are_read_into_memory(hasty: Site, kind: int) -> None:
    for length in (2**32 - 1, 2**31, 1 << 24):
        with survived(hasty):
            before = psutil.Process().memory_info().rss
            sock = associated(hasty.port) if kind == P_DATA else connect(hasty.port)
            assert flooded(sock, pdu(kind, b"", length)) < 16 << 20, "the listener took more than 16 MiB of one PDU"
            assert psutil.Process().memory_info().rss - before < 32 << 20
            sock.close()


def flooded(sock: socket.socket, header: bytes) -> int:
    """How many bytes of up to 64 MiB went out before the listener ended the connection."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        sock.sendall(header)
        for chunk in zeros(64 << 20, 1 << 16):
            sock.sendall(chunk)
            sent += len(chunk)
    return sent


def test_a_connection_over_which_nothing_is_said_is_ended(hasty: Site) -> None:
    with survived(hasty):
        ended(connect(hasty.port, ENDED_S))


def test_a_peer_that_never_releases_is_ended_and_its_image_stays(hasty: Site) -> None:
    with survived(hasty):
        peer = Peer(hasty.port, timeout_s=ENDED_S)
        assert peer.store(made(1, "stays").data, made(1, "stays").sop_uid) == 0x0000
        ended(peer.socket)
    eventually(lambda: hasty.rows("SELECT count(*) FROM associations WHERE closed_at IS NULL") == [(0,)])


def test_a_peer_that_resets_the_connection(site: Site) -> None:
    for words in (b"", GOOD_RQ, GOOD_RQ + STORE[:200], GOOD_RQ + STORE, GOOD_RQ + STORE + RELEASE):
        with survived(site):
            for _ in range(10):
                sock = said(site.port, words)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()


def test_a_peer_that_never_reads_its_answers_is_ended(hasty: Site) -> None:
    with survived(hasty):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        sock.settimeout(1.0)
        sock.connect(("127.0.0.1", hasty.port))
        sock.sendall(GOOD_RQ)
        with contextlib.suppress(OSError):
            for _ in range(200_000):
                sock.sendall(ECHO * 10)
        deadline = time.monotonic() + ENDED_S
        while alive(sock):
            assert time.monotonic() < deadline, "the listener still serves a peer that reads nothing"
            time.sleep(0.1)
        sock.close()


def alive(sock: socket.socket) -> bool:
    """False once the connection is reset, or the other side has closed it."""
    return bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == 1)  # 1: established


def test_two_hundred_connections_at_once(site: Site) -> None:
    """Each is served, rejected or closed; afterwards a good association works at once."""
    with survived(site, within_s=30.0):
        socks = [said(site.port, GOOD_RQ) for _ in range(200)]
        answers = [read_pdu(sock) for sock in socks]
        kinds = [None if answer is None else answer[0] for answer in answers]
        assert set(kinds) <= {ASSOCIATE_AC, ASSOCIATE_RJ, ABORT, None}
        assert ASSOCIATE_AC in kinds
        for sock, kind in zip(socks, kinds, strict=True):
            if kind == ASSOCIATE_AC:
                sock.sendall(RELEASE)
        for sock in socks:
            ended(sock, 30.0)


def test_silent_connections_by_the_hundred_do_not_keep_a_good_one_out(site: Site) -> None:
    """Those that were never associated take no place of an association."""
    with contextlib.ExitStack() as stack:
        for _ in range(150):
            stack.enter_context(connect(site.port))
        assert store_good(site.port) == 0x0000
