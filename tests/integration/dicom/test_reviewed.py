"""What a review of the receiver found, kept found: each test is one defect that stood here once."""

from __future__ import annotations

import itertools
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from pipeline.dicom.archive import SPOOL_BYTES, IncomingFile
from pipeline.dicom.intake import COMMAND_BYTES, UNANSWERED
from pipeline.dicom.listener import OpenAccess
from pipeline.dicom.listener import Site as Around
from pipeline.evidence import Patience
from pipeline.flow.assemble import Assembling, assemble
from pipeline.model import Lease
from pipeline.ports import Answer, Arrival, Incoming
from tests.integration.dicom.attacks import TIMEOUT_S, associated, ended, store_good
from tests.integration.dicom.conftest import Site, eventually, serving
from tests.integration.dicom.images import Image, bytes_kept, made
from tests.wire import (
    ABORT,
    ASSOCIATE_RJ,
    C_STORE_RQ,
    COMMAND,
    CT,
    EXPLICIT_LE,
    IMPLICIT_LE,
    LAST,
    P_DATA,
    VERIFICATION,
    Gone,
    Peer,
    associate_rq,
    c_store_rq,
    command,
    connect,
    context,
    p_data,
    pdu,
    pdv,
    read_pdu,
    uid,
)

FLAT_BYTES = 30_000_000
SOON_S = 5.0
WAITING = Patience(0.0, 0.0, 3600.0, 7200.0)
IMPATIENT = Patience(0.0, 0.0, 0.0, 7200.0)


class NoPhantoms:
    """The phantom ledger of a site without phantoms."""

    def holds_all(self, sop_uids: object) -> bool:
        return False


def judged(site: Site, patience: Patience) -> tuple[str, str]:
    """The study's state and verdict, once its associations are closed and it was judged."""
    ends(site)
    assert assemble(Assembling(site.store, NoPhantoms(), site.bell, patience, 8), 10, Lease("reviewed", 60.0)) == 1
    ((state, verdict),) = site.rows("SELECT state, evidence->>'verdict' FROM studies")
    return state, verdict


def ends(site: Site) -> list[str]:
    """How the associations with images ended, in their order; waits until all have."""

    def closed() -> bool:
        return site.rows("SELECT count(*) FROM associations WHERE closed_at IS NULL") == [(0,)]

    eventually(closed)
    return [how for (how,) in site.rows("SELECT how FROM associations ORDER BY closed_at")]


def memory(field: str) -> int:
    """Bytes that this process holds (VmRSS) or has held at most (VmHWM)."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(f"{field}:"))
    return int(line.split()[1]) << 10


@contextmanager
def flat() -> Iterator[None]:
    """What is done inside costs next to no memory, not even for a while."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = memory("VmRSS")
    yield
    assert memory("VmHWM") - before < FLAT_BYTES


def under_way() -> list[str]:
    """Files of `incoming/` that this process holds open."""
    held = (os.path.realpath(path) for path in Path("/proc/self/fd").iterdir())
    return [name for name in held if ".part" in name]


def flood(sock: socket.socket, words: bytes, times: int) -> None:
    """Say the same again and again, without all of it in memory."""
    for _ in range(times):
        sock.sendall(words)


def library_way(peer: Peer, image: Image, words: bytes) -> None:
    """Say a C-STORE whose command set comes in two fragments, so that it goes the library's way also where others are answered inline."""
    number = peer.context_of(CT)
    assert number is not None
    half = len(words) // 2
    peer.socket.sendall(p_data(pdv(number, COMMAND, words[:half])) + p_data(pdv(number, COMMAND | LAST, words[half:])))
    peer.socket.sendall(p_data(pdv(number, LAST, image.data)))


NAMELESS = (
    (0x0002, uid(CT)),
    (0x0100, struct.pack("<H", C_STORE_RQ)),
    (0x0110, struct.pack("<H", 1)),
    (0x0700, struct.pack("<H", 0)),
    (0x0800, struct.pack("<H", 1)),
)
DROPPED = {"absent": command(*NAMELESS), "empty": command(*NAMELESS, (0x1000, b""))}  # the SOPInstanceUID


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("words", DROPPED.values(), ids=DROPPED)
def test_a_request_that_the_library_drops_lends_its_bytes_to_no_other(tmp_path: Path, url: str, words: bytes, inline: bool) -> None:
    dropped, good = made(1), made(2)
    with serving(tmp_path / "archive", url, inline=inline) as site, Peer(site.port) as peer:
        library_way(peer, dropped, words)
        library_way(peer, good, c_store_rq(CT, good.sop_uid))
        assert peer.status() == 0x0000
        peer.release()
        assert site.rows("SELECT sop_uid FROM instances") == [(good.sop_uid,)]
        assert bytes_kept(site, "objects") == {good.data}
        assert not under_way()


@pytest.mark.parametrize("inline", [False, True])
def test_a_fault_in_the_middle_of_an_object_ends_the_association_and_keeps_nothing_of_it(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch, inline: bool
) -> None:
    image, calls, real = made(1), itertools.count(), IncomingFile.write

    def write(self: IncomingFile, data: bytes | memoryview) -> None:
        if next(calls) == 6:
            raise MemoryError
        real(self, data)

    words = p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, image.sop_uid)))
    for at in range(0, len(image.data), 200):
        words += p_data(pdv(1, 0 if at + 200 < len(image.data) else LAST, image.data[at : at + 200]))
    with serving(tmp_path / "archive", url, inline=inline) as site:
        monkeypatch.setattr(IncomingFile, "write", write)
        with Peer(site.port) as peer:
            peer.socket.sendall(words)
            with pytest.raises(Gone):
                peer.status()
        assert next(calls) > 6
        monkeypatch.undo()
        assert (site.rows("SELECT count(*) FROM instances"), site.files("objects"), site.files("incoming")) == ([(0,)], [], [])
        assert store_good(site.port) == 0x0000


def refused_in_part(site: Site, images: list[Image]) -> None:
    """A sender that finds no room for its last images, and releases."""
    with Peer(site.port) as peer:
        assert {image.sent(peer) for image in images[:12]} == {0x0000}
        site.archive._floor = 1 << 60
        assert {image.sent(peer) for image in images[12:]} == {0xA700}
        peer.release()
    site.archive._floor = 0


@pytest.mark.parametrize("inline", [False, True])
def test_a_study_with_a_refused_image_is_waited_for_and_good_once_all_was_sent_again(tmp_path: Path, url: str, inline: bool) -> None:
    images = [made(number) for number in range(1, 17)]
    with serving(tmp_path / "archive", url, inline=inline) as site:
        refused_in_part(site, images)
        assert judged(site, WAITING) == ("receiving", "wait")
        with Peer(site.port) as peer:
            assert {image.sent(peer) for image in images} == {0x0000}
            peer.release()
        assert ends(site) == ["aborted", "released"]
        assert judged(site, IMPATIENT) == ("complete", "complete")


def test_a_study_with_a_refused_image_that_nobody_sends_again_is_partial(site: Site) -> None:
    refused_in_part(site, [made(number) for number in range(1, 17)])
    assert judged(site, IMPATIENT) == ("partial", "partial")
    ((reasons,),) = site.rows("SELECT evidence->>'reasons' FROM studies")
    assert "未能收下" in reasons


@pytest.mark.parametrize(("fragment", "inline"), [(b"", False), (b"a", True)], ids=["empty", "one byte"])
def test_fragments_by_the_hundred_thousand_cost_no_memory(tmp_path: Path, url: str, fragment: bytes, inline: bool) -> None:
    rounds, items = 25, 120_000 // (6 + len(fragment))
    with serving(tmp_path / "archive", url, inline=inline) as site, Peer(site.port) as peer:
        words = p_data(*[pdv(1, 0, fragment)] * items)
        with flat():
            peer.socket.sendall(p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2.3.4"))))
            flood(peer.socket, words, rounds)
            peer.socket.sendall(p_data(pdv(1, LAST, b"")))
            assert peer.status() == 0xC000
        assert {len(data) for data in bytes_kept(site, "quarantine")} == {items * rounds * len(fragment)}


def test_a_pdu_of_an_unknown_type_hides_no_endless_one(site: Site) -> None:
    words = p_data(pdv(1, 0, bytes(100_000)))
    with flat(), connect(site.port, SOON_S) as sock:
        sock.sendall(pdu(8, struct.pack(">BxL", P_DATA, 2**32 - 1)) + words)
        with pytest.raises(ConnectionError):
            flood(sock, words, 1_000)


class Gate:
    """The receive step, which waits at every image while the gate is shut."""

    def __init__(self, inner: Callable[[Arrival, Incoming], Answer]) -> None:
        self._inner = inner
        self.open = threading.Event()
        self.open.set()

    def __call__(self, arrival: Arrival, content: Incoming) -> Answer:
        assert self.open.wait(20.0)
        return self._inner(arrival, content)


def test_a_peer_that_waits_for_no_answer_is_ended_and_what_was_answered_is_kept(tmp_path: Path, url: str) -> None:
    images = [made(number) for number in range(UNANSWERED + 4)]
    with serving(tmp_path / "archive", url, inline=False) as site:
        gate = Gate(site.listener._receive)
        site.listener._receive = gate
        with Peer(site.port) as peer, capture_logs() as lines:
            assert images[0].sent(peer) == 0x0000
            gate.open.clear()
            for image in images[1:]:
                peer.socket.sendall(p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, image.sop_uid))) + p_data(pdv(1, LAST, image.data)))
            eventually(lambda: "message_too_long" in {line["event"] for line in lines})
            gate.open.set()
            assert set(ended(peer.socket)) <= {ABORT, P_DATA}
        assert ends(site) == ["aborted"]
        kept = {sop_uid for (sop_uid,) in site.rows("SELECT sop_uid FROM instances")}
        assert {images[0].sop_uid} <= kept <= {image.sop_uid for image in images[:2]}
        assert (site.files("incoming"), site.verified().clean) == ([], True)


def test_a_command_set_of_more_than_64_kib_ends_the_association(site: Site) -> None:
    words = c_store_rq(CT, "1.2.3.4") + bytes(COMMAND_BYTES)
    sock = associated(site.port)
    sock.sendall(p_data(pdv(1, COMMAND, words[:40_000])) + p_data(pdv(1, COMMAND, words[40_000:])))
    assert set(ended(sock)) <= {ABORT}


def test_an_object_that_the_library_read_otherwise_leaves_neither_file_nor_descriptor(tmp_path: Path, url: str) -> None:
    """A stray fragment of another context in the middle of a large object: the library puts it into the data set."""
    part = bytes(100_000)
    with serving(tmp_path / "archive", url, inline=False) as site, capture_logs() as lines:
        with Peer(site.port, (CT, EXPLICIT_LE), (CT, IMPLICIT_LE)) as peer:
            peer.socket.sendall(p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2.3.4"))))
            flood(peer.socket, p_data(pdv(1, 0, part)), 2 * SPOOL_BYTES // len(part))
            eventually(under_way)
            peer.socket.sendall(p_data(pdv(3, 0, b"stray")) + p_data(pdv(1, LAST, b"end")))
            with pytest.raises(Gone):
                peer.status()
        eventually(lambda: not under_way())
        assert (site.files("incoming"), site.files("objects"), site.files("quarantine")) == ([], [], [])
    assert "object_mixed_up" in {line["event"] for line in lines}


class Broken(OpenAccess):
    """Access that fails."""

    def requested(self, event: object) -> None:
        raise RuntimeError("any fault")


def test_when_access_cannot_be_decided_nobody_is_let_in(tmp_path: Path, url: str) -> None:
    with serving(tmp_path / "archive", url, Around(access=Broken())) as site, connect(site.port, SOON_S) as sock:
        sock.sendall(associate_rq([context(1, VERIFICATION, IMPLICIT_LE)]))
        found = read_pdu(sock)
        assert found is not None
        assert found[0] == ASSOCIATE_RJ
        eventually(lambda: not site.listener._associations._records)


def test_a_malformed_request_frees_its_threads_soon_whatever_the_timeout(tmp_path: Path, url: str) -> None:
    with serving(tmp_path / "archive", url, network_timeout_s=60.0) as site:
        before = set(threading.enumerate())
        for _ in range(3):
            with connect(site.port, SOON_S) as sock:
                sock.sendall(associate_rq([context(2, CT, EXPLICIT_LE)]))
                read_pdu(sock)
        eventually(lambda: set(threading.enumerate()) <= before, SOON_S)


HALF_OBJECT = p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2.3.4"))) + p_data(pdv(1, 0, b"half"))
SILENCES = {
    "between two objects": (b"", "released"),
    "in an object": (HALF_OBJECT, "aborted"),
    "before a data set": (p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2.3.4"))), "aborted"),
    "in a command": (p_data(pdv(1, COMMAND, c_store_rq(CT, "1.2.3.4")[:40])), "aborted"),
}


@pytest.mark.parametrize("inline", [False, True])
def test_a_sender_that_falls_silent_is_cut_off_only_where_something_is_missing(tmp_path: Path, url: str, inline: bool) -> None:
    images = {name: made(number) for number, name in enumerate(SILENCES)}
    with serving(tmp_path / "archive", url, inline=inline, network_timeout_s=TIMEOUT_S / 2) as site, ExitStack() as stack:
        for name, (words, _) in SILENCES.items():
            peer = stack.enter_context(Peer(site.port))
            assert images[name].sent(peer) == 0x0000
            peer.socket.sendall(words)
        ends(site)
        found = dict(site.rows("SELECT i.sop_uid, a.how FROM instances i JOIN associations a ON a.id = i.association_id"))
        assert {name: found[image.sop_uid] for name, image in images.items()} == {name: how for name, (_, how) in SILENCES.items()}


def test_a_sender_that_never_releases_makes_its_study_complete_all_the_same(tmp_path: Path, url: str) -> None:
    with serving(tmp_path / "archive", url, network_timeout_s=TIMEOUT_S / 2) as site, Peer(site.port) as peer:
        assert {made(number).sent(peer) for number in range(1, 11)} == {0x0000}
        assert ends(site) == ["released"]
        assert judged(site, IMPATIENT) == ("complete", "complete")


def test_a_database_that_does_not_answer_holds_up_no_association_without_images(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        nowhere = f"postgresql://a:b@127.0.0.1:{silent.getsockname()[1]}/x"
        with serving(tmp_path / "archive", nowhere) as site:
            until, longest = time.monotonic() + 2.0, 0.0  # the thread that closes rows waits for it meanwhile
            while (began := time.monotonic()) < until:
                with Peer(site.port, (VERIFICATION, IMPLICIT_LE)) as peer:
                    assert peer.echo() == 0x0000
                    peer.release()
                longest = max(longest, time.monotonic() - began)
                time.sleep(0.1)
            silent.close()  # so that nothing waits for it at the end
    assert longest < 1.0
