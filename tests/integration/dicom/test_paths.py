"""The ways to answer C-STORE (on the network thread, by the library's service, both also fast) say and keep the same, byte for byte."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psycopg
import pynetdicom
import pytest
from pynetdicom import evt
from pynetdicom.sop_class import StorageCommitmentPushModel  # type: ignore[attr-defined]  # generated at import
from structlog.testing import capture_logs

from pipeline.dicom import fast
from pipeline.dicom.listener import Site as Around
from tests.integration.dicom.conftest import Site, eventually, serving
from tests.integration.dicom.images import Image, made
from tests.wire import (
    ASSOCIATE_AC,
    COMMAND,
    CT,
    EXPLICIT_LE,
    IMPLICIT_LE,
    LAST,
    P_DATA,
    RELEASE,
    RELEASE_RP,
    VERIFICATION,
    Peer,
    associate_rq,
    c_echo_rq,
    c_store_rq,
    connect,
    context,
    p_data,
    pdv,
    read_command,
    read_pdu,
)
from workers.embedded.postgres import Postgres

SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
COMMITMENT = str(StorageCommitmentPushModel)
WAYS: dict[str, dict[str, Any]] = {
    "inline": {},
    "library": {"inline": False},
    "fast": {"fast": True},
    "fast library": {"fast": True, "inline": False},
}
FRAGMENT = 4_000
Answer = tuple[int, bytes]  # PDU type, body

good = made(1, "paths")
conflict = replace(good, data=good.data[:-1] + bytes([good.data[-1] ^ 1]))
odd = replace(made(2, "paths"), sop_uid="1.2.3.45")
garbage = Image(CT, "1.2.3.4", EXPLICIT_LE, b"no dicom at all")
large = Image(CT, "1.2.3.46", EXPLICIT_LE, bytes((1 << 20) + 1))

DEFAULT_POLL_S = 0.001


@dataclass
class Watching:
    """A service that hears what the library makes of an association, and may offer storage commitment."""

    sop_classes: tuple[str, ...] = ()
    heard: list[str] = field(default_factory=list)
    polls_s: list[float] = field(default_factory=list)

    def handlers(self) -> list[evt.EventHandlerType]:
        return [(evt.EVT_DIMSE_RECV, self._message), (evt.EVT_ACCEPTED, self._accepted)]

    def _message(self, event: evt.Event) -> None:
        self.heard.append(type(event.message).__name__)

    def _accepted(self, event: evt.Event) -> None:
        self.polls_s.append(event.assoc.dul._run_loop_delay)

    def start(self) -> None:
        """Nothing to begin."""

    def stop(self) -> None:
        """Nothing to end."""


@pytest.fixture
def fresh(postgres_server: Postgres, template: str) -> Iterator[Callable[[], str]]:
    """Makes the URL of one more migrated, empty database."""
    names: list[str] = []
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:

        def one_more() -> str:
            names.append(f"paths_{uuid.uuid4().hex[:12]}")
            connection.execute(f'CREATE DATABASE "{names[-1]}" TEMPLATE "{template}"')
            return postgres_server.url_of(names[-1])

        yield one_more
        for name in names:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def in_fragments(image: Image, message: int, number: int = 1, announced: str = CT) -> bytes:
    """The command in one fragment, the data set in several."""
    parts = [image.data[start : start + FRAGMENT] for start in range(0, len(image.data), FRAGMENT)] or [b""]
    marked = [(LAST if part is parts[-1] else 0, part) for part in parts]
    command = c_store_rq(announced, image.sop_uid, message)
    return p_data(pdv(number, COMMAND | LAST, command)) + b"".join(p_data(pdv(number, control, part)) for control, part in marked)


def in_one_pdu(image: Image, message: int) -> bytes:
    """Command and data set in one PDU."""
    return p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, image.sop_uid, message)), pdv(1, LAST, image.data))


def with_a_cut_command(image: Image, message: int) -> bytes:
    """The command in two fragments."""
    command = c_store_rq(CT, image.sop_uid, message)
    return p_data(pdv(1, COMMAND, command[:50])) + p_data(pdv(1, COMMAND | LAST, command[50:]), pdv(1, LAST, image.data))


STEPS: dict[str, tuple[bytes, int]] = {
    "a good image": (in_fragments(good, 1), 0x0000),
    "the same again": (in_fragments(good, 2), 0x0000),
    "a conflict": (in_one_pdu(conflict, 3), 0xB007),
    "an odd header": (in_fragments(odd, 4), 0xB007),
    "an echo": (p_data(pdv(5, COMMAND | LAST, c_echo_rq(5))), 0x0000),
    "another class than requested": (in_fragments(good, 6, 3, SECONDARY_CAPTURE), 0xA900),
    "unreadable": (in_fragments(garbage, 65_535), 0xC000),
    "larger than the limit": (in_fragments(large, 8), 0xA700),
    "a cut command": (with_a_cut_command(made(3, "paths"), 9), 0x0000),
    "no room": (in_fragments(made(4, "paths"), 10), 0xA700),
    "room again": (in_one_pdu(made(4, "paths"), 11), 0x0000),
    "a byte too many": (in_fragments(replace(made(5, "paths"), data=made(5, "paths").data + b"\0"), 12), 0x0000),
    "an empty data set": (in_fragments(replace(garbage, data=b""), 13), 0xC000),
}
CONTEXTS = [context(1, CT, EXPLICIT_LE), context(3, SECONDARY_CAPTURE, EXPLICIT_LE), context(5, VERIFICATION, IMPLICIT_LE)]


def conversation(site: Site, monkeypatch: pytest.MonkeyPatch) -> dict[str, Answer]:
    """Every step on one association; the PDU that each was answered with, as it came."""
    answers = {}
    with connect(site.port) as peer:
        peer.sendall(associate_rq(CONTEXTS))
        answers["association"] = heard(peer)
        for name, (words, _) in STEPS.items():
            with monkeypatch.context() as patch:
                if name == "no room":
                    patch.setattr(site.archive, "has_room", lambda: False)
                peer.sendall(words)
                answers[name] = heard(peer)
        peer.sendall(RELEASE)
        answers["release"] = heard(peer)
    return answers


def heard(peer: Any) -> Answer:
    found = read_pdu(peer)
    assert found is not None
    return found


def status(answer: Answer) -> int:
    return int.from_bytes(read_command(answer[1][6:])[0x0900], "little")


def kept(site: Site) -> dict[str, bytes]:
    """Every file of the archive and of quarantine, by its place."""
    return {str(path.relative_to(site.root)): path.read_bytes() for area in ("objects", "quarantine") for path in site.files(area)}


def rows(site: Site) -> list[tuple[Any, ...]]:
    return site.rows("SELECT sop_uid, sha256, size_bytes, path, is_first, flags FROM instances ORDER BY sha256")


def test_every_way_answers_and_keeps_the_same_byte_for_byte(tmp_path: Path, fresh: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    answers, archives, tables = {}, {}, {}
    for way, settings in WAYS.items():
        watching = Watching()
        with serving(tmp_path / way, fresh(), Around(services=(watching,)), max_object_mb=1, **settings) as site:
            answers[way] = conversation(site, monkeypatch)
            archives[way], tables[way] = kept(site), rows(site)
            assert site.verified().clean
            assert not site.files("incoming")
        through_the_library = watching.heard.count("C_STORE_RQ")
        assert through_the_library == (len(STEPS) - 1 if settings.get("inline") is False else 1), "but for the cut command, inline means inline"
        assert watching.polls_s == [fast.POLL_S if settings.get("fast") else DEFAULT_POLL_S]
    first = answers["inline"]
    assert {name: status(first[name]) for name in STEPS} == {name: wanted for name, (_, wanted) in STEPS.items()}
    assert [first[name][0] for name in ("association", "a good image", "release")] == [ASSOCIATE_AC, P_DATA, RELEASE_RP]
    for way in WAYS:
        assert answers[way] == first, way
        assert archives[way] == archives["inline"], way
        assert tables[way] == tables["inline"], way
    assert len(tables["inline"]) == 6


@pytest.mark.parametrize("way", WAYS)
def test_a_peer_that_takes_short_pdus_gets_short_ones(tmp_path: Path, url: str, way: str) -> None:
    """The maximum length that it announced holds for responses too (PS3.8 D.1)."""
    with serving(tmp_path / "archive", url, **WAYS[way]) as site, connect(site.port) as peer:
        peer.sendall(associate_rq([context(1, CT, EXPLICIT_LE)], max_pdu=100))
        assert heard(peer)[0] == ASSOCIATE_AC
        peer.sendall(in_fragments(good, 1))
        command, control = b"", 0
        while control != COMMAND | LAST:
            kind, body = heard(peer)
            assert kind == P_DATA
            assert len(body) <= 100
            command, control = command + body[6:], body[5]
        assert read_command(command)[0x0900] == b"\x00\x00"


@pytest.mark.parametrize("commitment", [False, True])
def test_beside_a_service_that_asks_on_its_own_images_go_the_librarys_way(tmp_path: Path, url: str, commitment: bool) -> None:
    watching = Watching((COMMITMENT,))
    kinds = [(CT, EXPLICIT_LE), *([(COMMITMENT, IMPLICIT_LE)] if commitment else [])]
    with serving(tmp_path / "archive", url, Around(services=(watching,))) as site, Peer(site.port, *kinds) as peer:
        assert good.sent(peer) == 0x0000
        assert conflict.sent(peer) == 0xB007
        peer.release()
        assert site.verified().clean
    assert watching.heard.count("C_STORE_RQ") == (2 if commitment else 0)


def test_fast_is_for_the_version_that_is_installed() -> None:
    """Fails when the library moves on: then look at its private names again, and at this file."""
    assert pynetdicom.__version__ == fast.PINNED
    with capture_logs() as lines:
        assert fast.available()
    assert lines == []


def test_on_another_version_fast_is_off_says_so_and_images_still_arrive(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pynetdicom, "__version__", "3.1.0")
    watching = Watching()
    with capture_logs() as lines, serving(tmp_path / "archive", url, Around(services=(watching,)), fast=True) as site:
        with Peer(site.port) as peer:
            assert good.sent(peer) == 0x0000
            peer.release()
        assert site.verified().clean
    assert [line for line in lines if line["event"] == "fast_path_off"] == [
        {"event": "fast_path_off", "log_level": "warning", "pynetdicom": "3.1.0", "pinned": fast.PINNED}
    ]
    assert watching.polls_s == [DEFAULT_POLL_S]


@contextmanager
def broken(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A disk that fails in a way that nobody expected."""

    def fail() -> None:
        raise ZeroDivisionError("bug")

    with monkeypatch.context() as patch:
        patch.setattr(site.archive, "open", fail)
        yield


@pytest.mark.parametrize("way", WAYS)
def test_a_fault_of_ours_while_an_object_begins_is_no_success_and_the_next_association_works(
    tmp_path: Path, url: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(tmp_path / "archive", url, **WAYS[way]) as site:
        with broken(site, monkeypatch), connect(site.port) as peer:
            peer.sendall(associate_rq(CONTEXTS))
            assert heard(peer)[0] == ASSOCIATE_AC
            peer.sendall(in_fragments(good, 1))
            answer = read_pdu(peer)
            assert answer is None or answer[0] != P_DATA or status(answer) != 0x0000
        with Peer(site.port) as after:
            assert good.sent(after) == 0x0000
        eventually(lambda: site.rows("SELECT count(*) FROM associations WHERE closed_at IS NULL") == [(0,)])
        assert site.verified().clean
