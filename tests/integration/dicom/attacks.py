"""After every attack: the next good association works at once, and no thread, descriptor or connection is left."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
from hypothesis import HealthCheck, settings

from tests.integration.dicom.conftest import Site, eventually
from tests.integration.dicom.images import made
from tests.wire import (
    COMMAND,
    CT,
    EXPLICIT_LE,
    IMPLICIT_LE,
    LAST,
    VERIFICATION,
    Kind,
    Peer,
    associate_rq,
    c_echo_rq,
    c_store_rq,
    connect,
    context,
    p_data,
    pdv,
    read_pdu,
)

POOLED = 6  # descriptors of database connections that stay open once they were needed
TIMEOUT_S = 2.0  # of the listeners here: silence, and a PDU that does not end
ENDED_S = 12.0
IMAGE = made(0, "wire")
GOOD_RQ = associate_rq([context(1, CT, EXPLICIT_LE), context(3, VERIFICATION, IMPLICIT_LE)])
STORE = p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, IMAGE.sop_uid))) + p_data(pdv(1, LAST, IMAGE.data))
ECHO = p_data(pdv(3, COMMAND | LAST, c_echo_rq()))
FEW, MANY = 20, 800  # made-up inputs in CI and in a long run
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Level:
    """What the process holds; the listener runs in the process of the test."""

    threads: int
    descriptors: int
    connections: int  # of the listener's port, on the listener's side

    def within(self, other: Level) -> bool:
        """True when nothing was left behind since `other`."""
        return self.threads <= other.threads and self.connections <= other.connections and self.descriptors <= other.descriptors + POOLED


def level(port: int) -> Level:
    """What is held now."""
    ours = [c for c in psutil.Process().net_connections("tcp") if c.laddr and c.laddr.port == port and c.status != psutil.CONN_LISTEN]
    return Level(threading.active_count(), len(os.listdir("/proc/self/fd")), len(ours))


def store_good(port: int, timeout_s: float = 10.0) -> int:
    """Store a new small image over a new association; the status."""
    image = made(next(_numbers))
    with Peer(port, image.kind, timeout_s=timeout_s) as peer:
        status = image.sent(peer)
        peer.release()
    return status


@contextmanager
def survived(site: Site, within_s: float = 10.0) -> Iterator[None]:
    """What is done inside leaves the listener as it was. A thread that dies of it fails the test too: pytest sees to that."""
    assert store_good(site.port) == 0x0000
    eventually(lambda: level(site.port).connections == 0)
    before = level(site.port)
    yield
    assert store_good(site.port) == 0x0000
    eventually(lambda: level(site.port).within(before), within_s)


def one_by_one(site: Site, words: Mapping[str, bytes], attack: Callable[[bytes], None]) -> None:
    """Each must be survived; those that are not are named with what happened."""
    faults = {}
    for name, said_now in words.items():
        try:
            with survived(site):
                attack(said_now)
        except (AssertionError, OSError) as fault:
            faults[name] = f"{type(fault).__name__}: {fault}"
    assert faults == {}, faults


def examples(count: int) -> settings:
    """The same made-up inputs in every run; the listener of the test stays for all of them."""
    allowed = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    return settings(max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=allowed, print_blob=False)


def said(where: int | socket.socket, *chunks: bytes) -> socket.socket:
    """A connection (a new one to a port) over which this was said; what the listener does not take any more is dropped."""
    sock = connect(where, ENDED_S) if isinstance(where, int) else where
    with contextlib.suppress(ConnectionError):
        for chunk in chunks:
            sock.sendall(chunk)
    return sock


def ended(sock: socket.socket, within_s: float = ENDED_S) -> list[int]:
    """Types of the PDUs that come until the listener closes the connection; one that it keeps open fails the test."""
    deadline, kinds = time.monotonic() + within_s, list[int]()
    try:
        while time.monotonic() < deadline:
            found = read_pdu(sock)
            if found is None:
                return kinds
            kinds.append(found[0])
    except TimeoutError:
        pass
    finally:
        sock.close()
    raise AssertionError(f"the listener kept the connection open for {within_s:.0f} s; it said {kinds}")


def associated(port: int, *kinds: Kind) -> socket.socket:
    """An association's connection, for what is no conversation."""
    return Peer(port, *(kinds or ((CT, EXPLICIT_LE), (VERIFICATION, IMPLICIT_LE)))).socket
