"""The reading of PDUs from a connection, and the server before its associations: on loopback, and with connections that say what a test wants."""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pynetdicom import AE
from pynetdicom.sop_class import Verification  # type: ignore[attr-defined]  # generated at import
from structlog.testing import capture_logs

from pipeline.dicom.transport import NEGOTIATION_BYTES, P_DATA_TF, READ_BYTES, PduGuard, PeerServer, PeerSocket, TlsPeerSocket, bind
from tests.certificates import Authority
from tests.wire import ASSOCIATE_RQ, connect, pdu

HEADER = 6
DEADLINE_S = 10.0


class Said(PduGuard):
    """A connection over which bytes come in pieces of a test's choice; then the peer is gone."""

    def __init__(self, words: bytes, pieces: list[int] | None = None) -> None:
        self.words, self.pieces = words, pieces or []
        self.reads: list[int] = []

    def read_now(self, most: int, timeout_s: float) -> bytes:
        self.reads.append(most)
        size = min(most, self.pieces.pop() if self.pieces else most)
        data, self.words = self.words[:size], self.words[size:]
        return data


def drained(guard: PduGuard, sizes: list[int]) -> bytes:
    """Everything that comes, asked for in these sizes and then in the library's."""
    parts = []
    while data := guard.received(sizes.pop() if sizes else 4096):
        parts.append(data)
    return b"".join(parts)


bodies = st.lists(st.binary(max_size=400), min_size=1, max_size=6)
sizes = st.lists(st.integers(1, 500), max_size=40)


@given(bodies, sizes, sizes)
def test_any_sizes_asked_and_any_pieces_given_bring_the_same_bytes(said: list[bytes], asked: list[int], pieces: list[int]) -> None:
    words = b"".join(pdu(P_DATA_TF, body) for body in said)
    guard = Said(words, pieces)
    assert drained(guard, asked) == words


@given(bodies, sizes)
def test_no_read_reaches_past_the_end_of_its_pdu(said: list[bytes], pieces: list[int]) -> None:
    """The library asks select() between PDUs: what is read already, it would not hear of."""
    guard = Said(b"".join(pdu(P_DATA_TF, body) for body in said) + pdu(P_DATA_TF, b"the next one"), pieces)
    for body in said:
        got = b""
        while len(got) < HEADER:
            got += guard.received(HEADER - len(got))
        while len(got) < HEADER + len(body):
            got += guard.received(4096)
        assert got == pdu(P_DATA_TF, body)
    assert guard.words == pdu(P_DATA_TF, b"the next one")


@given(bodies, sizes)
def test_of_a_header_no_more_comes_than_was_asked_for(said: list[bytes], pieces: list[int]) -> None:
    guard = Said(b"".join(pdu(P_DATA_TF, body) for body in said), pieces)
    for body in said:
        got = 0
        while got < HEADER:
            data = guard.received(min(3, HEADER - got))
            assert len(data) <= 3
            got += len(data)
        while got < HEADER + len(body):
            got += len(guard.received(3))


def test_a_pdu_is_read_in_few_reads() -> None:
    guard = Said(pdu(P_DATA_TF, bytes(100_000)))
    assert len(drained(guard, [HEADER])) == HEADER + 100_000
    assert len(guard.reads) <= 3, "its header, its body, and the look that finds the peer gone"


def test_a_body_comes_in_one_piece_although_the_library_asks_for_4_kib() -> None:
    guard = Said(pdu(P_DATA_TF, bytes(100_000)) + pdu(P_DATA_TF, b"next"))
    assert len(guard.received(HEADER)) == HEADER
    assert len(guard.received(4096)) == 100_000
    assert len(guard.received(HEADER)) == HEADER


@pytest.mark.parametrize("kind", range(1, 8))
@pytest.mark.parametrize("over", [0, 1, 2**32 - 1])
def test_a_pdu_longer_than_may_be_is_refused_before_its_first_byte(kind: int, over: int) -> None:
    guard = Said(b"")
    guard.max_pdu_bytes = 5_000
    limit = 5_000 if kind == P_DATA_TF else NEGOTIATION_BYTES
    guard.words = pdu(kind, b"body", min(limit + over, 2**32 - 1))
    if over == 0:
        assert guard.received(HEADER) == guard_header(kind, limit)
        return
    with capture_logs() as lines, pytest.raises(ConnectionAbortedError):
        guard.received(HEADER)
    assert [line["event"] for line in lines] == ["pdu_too_long"]
    assert guard.words == b"body"


def guard_header(kind: int, length: int) -> bytes:
    return pdu(kind, b"", length)


def test_a_header_that_comes_byte_by_byte_is_checked_too() -> None:
    guard = Said(pdu(P_DATA_TF, b"", 2**32 - 1), [1] * HEADER)
    for _ in range(HEADER - 1):
        assert len(guard.received(HEADER)) == 1
    with pytest.raises(ConnectionAbortedError):
        guard.received(1)


@pytest.mark.parametrize("kind", [0, 8, 0x42, 255])
@pytest.mark.parametrize("pieces", [[], [1] * 100], ids=["at once", "byte by byte"])
def test_a_pdu_of_an_unknown_type_has_no_body_so_that_it_hides_no_header(kind: int, pieces: list[int]) -> None:
    """The library reads the next header right after the one that it does not know."""
    hidden = pdu(P_DATA_TF, b"", 2**32 - 1)
    guard = Said(pdu(kind, hidden), pieces)
    got = b""
    while len(got) < HEADER:
        got += guard.received(HEADER - len(got))
    with pytest.raises(ConnectionAbortedError):
        drained(guard, [1] * HEADER)


def test_a_rate_limit_waits_as_long_as_the_bytes_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(time, "sleep", waits.append)
    guard = Said(pdu(P_DATA_TF, bytes(10_000)))
    guard.bytes_per_s = 1_000.0
    drained(guard, [])
    assert sum(waits) == pytest.approx((HEADER + 10_000) / 1_000)


@dataclass
class Line:
    """A loopback connection: what the peer holds and what we read from."""

    peer: socket.socket
    ours: PeerSocket

    def next_pdu(self) -> bytes:
        """As the library reads it."""
        got = exactly(self.ours, HEADER)
        return got + exactly(self.ours, struct.unpack(">2xL", got)[0])


def exactly(connection: socket.socket, count: int) -> bytes:
    got = b""
    while len(got) < count:
        part = connection.recv(min(4096, count - len(got)))
        assert part, "the peer is gone"
        got += part
    return got


@pytest.fixture
def line() -> Iterator[Line]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        peer = socket.create_connection(server.getsockname(), DEADLINE_S)
        accepted, _ = server.accept()
    ours = PeerSocket(fileno=accepted.detach())
    ours.pdu_timeout_s = DEADLINE_S
    with peer, ours:
        yield Line(peer, ours)


def readable(connection: socket.socket, timeout_s: float = DEADLINE_S) -> bool:
    return bool(select.select([connection], [], [], timeout_s)[0])


def test_two_pdus_in_one_packet_are_seen_by_select_one_after_the_other(line: Line) -> None:
    first, second = pdu(P_DATA_TF, bytes(9_000)), pdu(P_DATA_TF, b"second")
    line.peer.sendall(first + second)
    assert readable(line.ours)
    assert line.next_pdu() == first
    assert readable(line.ours, 0)
    assert line.next_pdu() == second
    assert not readable(line.ours, 0)


def test_the_end_of_the_connection_is_no_bytes(line: Line) -> None:
    line.peer.sendall(pdu(P_DATA_TF, b"abc")[:-1])
    line.peer.close()
    assert line.ours.recv(HEADER) == pdu(P_DATA_TF, b"", 3)
    assert (line.ours.recv(3), line.ours.recv(1), line.ours.recv(1)) == (b"ab", b"", b"")


@pytest.mark.parametrize("words", [b"\x04", pdu(P_DATA_TF, b"half", 100)], ids=["header", "body"])
def test_a_pdu_that_is_not_finished_in_time_is_ended(line: Line, words: bytes) -> None:
    line.ours.pdu_timeout_s = 0.2
    line.peer.sendall(words)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        line.next_pdu()
    assert 0.1 < time.monotonic() - began < DEADLINE_S / 2


def test_a_pdu_that_drips_is_ended_though_each_byte_is_in_time(line: Line) -> None:
    line.ours.pdu_timeout_s = 0.3
    gone = threading.Event()

    def drip() -> None:
        with contextlib.suppress(OSError):
            for byte in pdu(P_DATA_TF, bytes(10_000)):
                line.peer.sendall(bytes([byte]))
                if gone.wait(0.02):
                    return

    with ThreadPoolExecutor(1) as pool:
        dripping = pool.submit(drip)
        with capture_logs() as lines, pytest.raises(TimeoutError):
            line.next_pdu()
        gone.set()
        dripping.result(DEADLINE_S)
    assert {entry["event"] for entry in lines} <= {"pdu_too_slow"}


def test_each_pdu_has_the_whole_time_anew(line: Line) -> None:
    line.ours.pdu_timeout_s = 0.5
    for number in range(4):
        line.peer.sendall(pdu(P_DATA_TF, bytes([number])))
        assert line.next_pdu()[-1] == number
        time.sleep(0.2)


def test_a_rate_limit_slows_a_real_connection(line: Line) -> None:
    line.ours.bytes_per_s = 50_000.0
    line.peer.sendall(pdu(P_DATA_TF, bytes(10_000)))
    began = time.monotonic()
    assert len(line.next_pdu()) == HEADER + 10_000
    assert time.monotonic() - began >= 0.2


def test_the_look_for_data_ends_at_once_when_there_is_some(line: Line) -> None:
    line.ours.patience_s = DEADLINE_S
    line.peer.sendall(b"x")
    began = time.monotonic()
    assert line.ours.fileno() >= 0
    assert time.monotonic() - began < DEADLINE_S / 2


def test_the_look_for_data_ends_when_some_comes(line: Line) -> None:
    line.ours.patience_s = DEADLINE_S
    threading.Timer(0.1, line.peer.sendall, [b"x"]).start()
    began = time.monotonic()
    assert line.ours.fileno() >= 0
    assert time.monotonic() - began < DEADLINE_S / 2
    assert readable(line.ours, 0)


def test_the_look_for_data_waits_no_longer_than_its_patience_and_not_at_all_when_closed(line: Line) -> None:
    line.ours.patience_s = 0.1
    began = time.monotonic()
    assert line.ours.fileno() >= 0
    assert 0.09 <= time.monotonic() - began < DEADLINE_S / 2
    line.ours.close()
    line.ours.patience_s = DEADLINE_S
    began = time.monotonic()
    assert line.ours.fileno() == -1
    assert time.monotonic() - began < DEADLINE_S / 2


def test_pdus_over_tls_come_whole_and_one_by_one(tmp_path: Path) -> None:
    """Two PDUs in one record: the second waits where the library asks for it, in pending()."""
    authority = Authority(tmp_path, "authority")
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ours.load_cert_chain(*authority.issue(tmp_path, "listener"))
    ours.sslsocket_class = TlsPeerSocket
    theirs = ssl.create_default_context(cafile=authority.certificate)
    first, second = pdu(P_DATA_TF, bytes(50_000)), pdu(P_DATA_TF, b"second")
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        peer = pool.submit(lambda: theirs.wrap_socket(socket.create_connection(server.getsockname(), DEADLINE_S), server_hostname="localhost"))
        made = ours.wrap_socket(server.accept()[0], server_side=True)
        assert isinstance(made, TlsPeerSocket)
        with made, peer.result(DEADLINE_S) as sending:
            sending.sendall(first + second)
            assert exactly(made, len(first)) == first
            assert readable(made, 0) or made.pending()
            assert exactly(made, len(second)) == second
            sending.sendall(pdu(P_DATA_TF, b"", READ_BYTES * 4))
            with pytest.raises(ConnectionAbortedError):
                exactly(made, HEADER)


@dataclass
class Room:
    """Settings of a server."""

    max_pdu_bytes: int = 16_384
    network_timeout_s: float = 2.0
    max_connections: int = 10


@contextmanager
def serving(room: Room, admits: Callable[[str], bool] = lambda host: True, tls: Callable[[], ssl.SSLContext] | None = None) -> Iterator[PeerServer]:
    """A server that accepts C-ECHO."""
    ae = AE("TEST")
    ae.add_supported_context(Verification)
    ae.acse_timeout = ae.network_timeout = ae.dimse_timeout = 2.0
    with bind("127.0.0.1", 0) as bound:
        made: Any = ae.make_server(bound.getsockname(), server_class=PeerServer, bound=bound, limits=room, admits=admits, tls=tls)
    assert isinstance(made, PeerServer)
    thread = threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.shutdown()
        thread.join(DEADLINE_S)
        for assoc in made.active_associations:
            assoc.abort()


def port_of(server: PeerServer) -> int:
    return int(server.server_address[1])


def echo(port: int) -> int:
    ae = AE("PEER")
    ae.add_requested_context(Verification)
    assoc = ae.associate("127.0.0.1", port)
    assert assoc.is_established
    status = int(assoc.send_c_echo().Status)
    assoc.release()
    return status


def is_closed_unheard(port: int) -> bool:
    """True when a connection over which nothing was said is closed at once."""
    with connect(port, timeout_s=1.0) as peer:
        try:
            return peer.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_server_serves_on_the_socket_that_it_was_given() -> None:
    with serving(Room()) as server:
        assert echo(port_of(server)) == 0x0000


def test_an_unknown_host_is_closed_before_a_byte_is_read() -> None:
    asked: list[str] = []

    def admits(host: str) -> bool:
        asked.append(host)
        return False

    with capture_logs() as lines, serving(Room(), admits) as server:
        assert is_closed_unheard(port_of(server))
    assert asked == ["127.0.0.1"]
    assert "peer_refused" in {line["event"] for line in lines}


def test_connections_beyond_the_limit_are_closed_and_room_is_made_by_those_that_end() -> None:
    with serving(Room(max_connections=1)) as server:
        with connect(port_of(server)):
            until(lambda: len(server.active_associations) == 1)
            assert is_closed_unheard(port_of(server))
        until(lambda: not server.active_associations)
        assert echo(port_of(server)) == 0x0000


def test_a_tls_handshake_that_does_not_come_holds_up_nobody(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(tmp_path, "listener"))
    theirs = ssl.create_default_context(cafile=authority.certificate)
    with serving(Room(network_timeout_s=0.5), tls=lambda: context) as server:
        with connect(port_of(server)), theirs.wrap_socket(connect(port_of(server), timeout_s=1.0), server_hostname="localhost") as good:
            assert good.version() is not None
        with connect(port_of(server), timeout_s=DEADLINE_S) as silent:
            assert silent.recv(1) == b""


def test_connections_that_are_still_in_their_tls_handshake_count_too(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue(tmp_path, "listener"))
    with serving(Room(max_connections=1), tls=lambda: context) as server, connect(port_of(server)):
        until(lambda: is_closed_unheard(port_of(server)))


def test_a_server_that_shuts_down_leaves_the_shared_socket_to_others() -> None:
    with bind("127.0.0.1", 0) as shared:
        ae = AE("TEST")
        ae.add_supported_context(Verification)
        made: Any = ae.make_server(shared.getsockname(), server_class=PeerServer, bound=shared, limits=Room(), admits=bool, tls=None)
        made.server_close()
        with socket.create_connection(shared.getsockname(), DEADLINE_S):
            shared.settimeout(DEADLINE_S)
            accepted, _ = shared.accept()
            accepted.close()


def test_a_port_that_is_taken_is_refused_at_once_without_patience() -> None:
    with bind("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", taken.getsockname()[1])


def test_bind_waits_for_a_port_that_becomes_free() -> None:
    taken = bind("127.0.0.1", 0)
    port = taken.getsockname()[1]
    threading.Timer(0.3, taken.close).start()
    began = time.monotonic()
    with bind("127.0.0.1", port, DEADLINE_S) as ours:
        assert ours.getsockname()[1] == port
        assert time.monotonic() - began >= 0.2


def test_bind_gives_up_when_its_patience_ends() -> None:
    began = time.monotonic()
    with bind("127.0.0.1", 0) as taken, pytest.raises(OSError, match="in use"):
        bind("127.0.0.1", taken.getsockname()[1], 0.3)
    assert 0.3 <= time.monotonic() - began < DEADLINE_S


def test_a_negotiation_pdu_may_be_longer_than_a_data_pdu() -> None:
    guard = Said(pdu(ASSOCIATE_RQ, bytes(200_000)))
    assert len(drained(guard, [HEADER])) == HEADER + 200_000
