"""Malformed PDUs, each by hand and by the dozen made up: no hang, no leak, and the next good association works at once."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.integration.dicom.attacks import (
    ECHO,
    FEW,
    GOOD_RQ,
    IMAGE,
    MANY,
    STORE,
    TIMEOUT_S,
    associated,
    ended,
    examples,
    one_by_one,
    said,
    store_good,
    survived,
)
from tests.integration.dicom.conftest import Site, serving
from tests.wire import (
    ABORT,
    ASSOCIATE_AC,
    ASSOCIATE_RJ,
    ASSOCIATE_RQ,
    COMMAND,
    CT,
    EXPLICIT_LE,
    IMPLICIT_LE,
    LAST,
    P_DATA,
    RELEASE,
    RELEASE_RP,
    USER_ABORT,
    VERIFICATION,
    Peer,
    associate_rq,
    c_echo_rq,
    c_store_rq,
    context,
    p_data,
    pdu,
    pdv,
    read_accepted,
    read_pdu,
)

CONVERSATION = (GOOD_RQ, ECHO, STORE, RELEASE)


@pytest.fixture
def hasty(tmp_path: Path, url: str) -> Iterator[Site]:
    """A listener that waits two seconds for a silent peer."""
    with serving(tmp_path / "archive", url, network_timeout_s=TIMEOUT_S) as made_site:
        yield made_site


@pytest.fixture
def site_of(tmp_path: Path, url: str) -> Iterator[Callable[[bool], Site]]:
    """The listener of a test, on the path that is asked for; started once."""
    with contextlib.ExitStack() as stack:

        @cache
        def site(fast: bool) -> Site:
            return stack.enter_context(serving(tmp_path / "archive", url, network_timeout_s=TIMEOUT_S, fast=fast))

        yield site


# Each is said on a fresh connection, and the listener must end it.
BEFORE_ASSOCIATION: dict[str, bytes] = {
    "an unknown PDU type": pdu(0x42, b"abc"),
    "PDU type 0": pdu(0, b""),
    "an HTTP request": b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(512),
    "data before the association": STORE,
    "release before the association": RELEASE,
    "abort before the association": USER_ABORT,
    "an acceptance from the requestor": pdu(ASSOCIATE_AC, GOOD_RQ[6:]),
    "a rejection from the requestor": pdu(ASSOCIATE_RJ, b"\0\1\1\1"),
    "a request of length 0": pdu(ASSOCIATE_RQ, b""),
    "a request that claims 4 GiB": pdu(ASSOCIATE_RQ, GOOD_RQ[6:], 2**32 - 1),
    "a request one byte short": pdu(ASSOCIATE_RQ, GOOD_RQ[6:-1]),
    "a request that claims one byte more": pdu(ASSOCIATE_RQ, GOOD_RQ[6:], len(GOOD_RQ) - 5),
    "a request that claims one byte less": pdu(ASSOCIATE_RQ, GOOD_RQ[6:], len(GOOD_RQ) - 7),
    "a request cut in its header": GOOD_RQ[:3],
    "a request cut in its body": GOOD_RQ[:100],
    "a request of zeros": pdu(ASSOCIATE_RQ, bytes(200)),
    "an item that claims 65535": pdu(ASSOCIATE_RQ, GOOD_RQ[6:80] + b"\x10\0\xff\xff" + GOOD_RQ[84:]),
    "protocol version 0": pdu(ASSOCIATE_RQ, b"\0\0" + GOOD_RQ[8:]),
}


@pytest.mark.long
def test_every_wrong_beginning_is_ended(hasty: Site) -> None:
    def begin(words: bytes) -> None:
        assert set(ended(said(hasty.port, words))) <= {ASSOCIATE_RJ, ABORT, ASSOCIATE_AC}

    one_by_one(hasty, BEFORE_ASSOCIATION, begin)


# Each is said on an accepted association, and the listener must end it.
WITHIN_ASSOCIATION: dict[str, bytes] = {
    "an unknown PDU type": pdu(0x42, b"abc"),
    "a P-DATA of length 0": pdu(P_DATA, b""),
    "a P-DATA that claims 4 GiB": pdu(P_DATA, STORE[6:], 2**32 - 1),
    "a P-DATA that claims more than we take": pdu(P_DATA, b"", 1 << 20),
    "a P-DATA cut in the middle": STORE[:100],
    "a PDV that claims 4 GiB": p_data(pdv(1, COMMAND | LAST, c_echo_rq(), 2**32 - 1)),
    "a PDV of length 0": p_data(struct.pack(">L", 0)),
    "a PDV of length 1": p_data(struct.pack(">LB", 1, 1)),
    "a PDV longer than its PDU": p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2"), 5000)),
    "a PDV shorter than its PDU": p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2"), 12)),
    "a second association request": GOOD_RQ,
    "an unasked release reply": pdu(RELEASE_RP, bytes(4)),
    "a command of garbage": p_data(pdv(1, COMMAND | LAST, b"\xff" * 60)),
    "an empty command": p_data(pdv(1, COMMAND | LAST, b"")),
    "half a command": p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2")[:30])),
    "a command that never ends": p_data(pdv(1, COMMAND, c_store_rq(CT, "1.2"))),
    "a command without its data set": p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2"))),
    "a data set before any command": p_data(pdv(1, LAST, IMAGE.data)),
    "a data set that never ends": p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2"))) + p_data(pdv(1, 0, IMAGE.data)),
    "a command of an unaccepted context": p_data(pdv(99, COMMAND | LAST, c_store_rq(CT, "1.2"))) + p_data(pdv(99, LAST, IMAGE.data)),
    "a command of context 0": p_data(pdv(0, COMMAND | LAST, c_store_rq(CT, "1.2"))) + p_data(pdv(0, LAST, IMAGE.data)),
    "two commands in each other": p_data(pdv(1, COMMAND, c_store_rq(CT, "1.2")[:20]), pdv(1, COMMAND | LAST, c_store_rq(CT, "1.3"))),
    "a command inside a data set": STORE[: -len(IMAGE.data) // 2] + p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.3"))),
    "a second command before the data set": p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2")), pdv(1, COMMAND | LAST, c_store_rq(CT, "1.3"))),
    "a data set under another context": p_data(pdv(1, COMMAND | LAST, c_store_rq(CT, "1.2"))) + p_data(pdv(3, LAST, IMAGE.data)),
    "a response to nothing": p_data(pdv(1, COMMAND | LAST, c_echo_rq().replace(b"\x30\0", b"\x30\x80"))),
    "an abort with a strange reason": pdu(ABORT, b"\0\0\x09\x09"),
    "an abort of length 0": pdu(ABORT, b""),
    "nothing": b"",
}
USABLE = ("a command of garbage", "a command of an unaccepted context", "a data set before any command", "an empty command")


@pytest.mark.long
def test_every_wrong_word_within_an_association_ends_it_and_nothing_is_kept_of_it(hasty: Site) -> None:
    def speak(words: bytes) -> None:
        files = len(hasty.files("objects"))
        with said(associated(hasty.port), words) as sock:
            assert set(ended(sock)) <= {ABORT, P_DATA, RELEASE_RP}
        assert len(hasty.files("objects")) == files
        assert not hasty.files("incoming")

    one_by_one(hasty, WITHIN_ASSOCIATION, speak)


def test_after_a_wrong_word_the_association_is_ended_or_still_of_use(site: Site) -> None:
    """Never a peer that waits for an answer that nobody will give."""
    kinds = (CT, EXPLICIT_LE), (VERIFICATION, IMPLICIT_LE)

    def speak(words: bytes) -> None:
        with Peer(site.port, *kinds, timeout_s=5.0) as peer, contextlib.suppress(ConnectionError):
            peer.socket.sendall(words + ECHO)
            assert peer.status() in (0x0000, 0xC000, 0xA900)

    one_by_one(site, {name: words for name, words in WITHIN_ASSOCIATION.items() if name in USABLE}, speak)


@pytest.mark.parametrize("fast", [False, True], ids=["public", "fast"])
def test_all_wrong_words_at_once_on_either_path(tmp_path: Path, url: str, fast: bool) -> None:
    with serving(tmp_path / "archive", url, network_timeout_s=TIMEOUT_S, fast=fast) as hurried, survived(hurried, within_s=20.0):
        socks = [said(hurried.port, words) for words in BEFORE_ASSOCIATION.values()]
        for words in WITHIN_ASSOCIATION.values():
            socks.append(said(associated(hurried.port), words))
            assert store_good(hurried.port) == 0x0000
        for sock in socks:
            ended(sock)


def test_reserved_bits_of_the_control_header_are_not_looked_at(site: Site) -> None:
    """PS3.8 E.2: bits 2 to 7 are never checked by the receiver."""
    with survived(site), Peer(site.port) as peer:
        peer.socket.sendall(p_data(pdv(1, 0xFF, c_store_rq(CT, IMAGE.sop_uid))) + p_data(pdv(1, 0xFE, IMAGE.data)))
        assert peer.status() == 0x0000
        peer.release()


def many(count: int, number: Callable[[int], int]) -> bytes:
    return associate_rq(context(number(place) % 256, CT, EXPLICIT_LE, IMPLICIT_LE) for place in range(count))


REQUESTS = {
    "128": many(128, lambda place: 2 * place + 1),
    "200, half of them even": many(200, lambda place: place),
    "400 of the same id": many(400, lambda place: 1),
    "300, all even": many(300, lambda place: 2 * place),
    "none": associate_rq([]),
    "one without a transfer syntax": associate_rq([context(1, CT)]),
    "one without a UID": associate_rq([context(1, "not a uid", "neither")]),
    "one with a UID of 800 characters": associate_rq([context(1, "1." * 400 + "1", EXPLICIT_LE)]),
    "one with 1500 transfer syntaxes": associate_rq([context(1, CT, *[f"1.2.{n}" for n in range(1500)])]),
    "ten of ten kinds": associate_rq(context(2 * n + 1, f"1.2.{n}", EXPLICIT_LE) for n in range(10)),
}


def test_presentation_contexts_by_the_hundred_even_and_doubled(hasty: Site) -> None:
    """Accepted as far as they are sound, or rejected, or aborted; never silence."""

    def request(words: bytes) -> None:
        with said(hasty.port, words) as sock:
            found = read_pdu(sock)
            assert found is None or found[0] in (ASSOCIATE_AC, ASSOCIATE_RJ, ABORT)
            if found is not None and found[0] == ASSOCIATE_AC:
                assert len(read_accepted(found[1]).contexts) <= 128
                sock.sendall(RELEASE)
            ended(sock)

    one_by_one(hasty, REQUESTS, request)


@st.composite
def broken_conversations(draw: st.DrawFn) -> bytes:
    """What a good sender says, with bytes and lengths changed, PDUs left out, doubled, swapped or cut."""
    words = [bytearray(word) for word in CONVERSATION]
    for _ in range(draw(st.integers(1, 4))):
        which = draw(st.integers(0, len(words) - 1))
        word = words[which]
        match draw(st.sampled_from(["byte", "length", "cut", "drop", "double", "swap", "insert"])):
            case "byte" if word:
                word[draw(st.integers(0, min(len(word) - 1, 300)))] = draw(st.integers(0, 255))
            case "length" if len(word) > 6:
                word[2:6] = struct.pack(">L", draw(st.sampled_from([0, 1, 3, len(word) - 7, len(word) - 5, 65_536, 2**31, 2**32 - 1])))
            case "cut":
                del word[draw(st.integers(0, len(word))) :]
            case "drop":
                word.clear()
            case "double":
                words.insert(which, bytearray(word))
            case "swap":
                words.reverse()
            case _:
                word[0:0] = draw(st.binary(min_size=1, max_size=12))
    return b"".join(words)


def survives(site: Site, words: bytes) -> None:
    """The peer says it and shuts its side; whatever happens, the listener lets go and goes on."""
    with survived(site):
        sock = said(site.port, words)
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
        ended(sock)


PDUS = st.builds(pdu, st.integers(0, 8), st.binary(max_size=200), st.none() | st.integers(0, 2**32 - 1))
RANDOM = st.one_of(st.binary(max_size=300), PDUS)


@examples(FEW)
@given(words=broken_conversations())
def test_conversations_mutated_from_a_valid_one(hasty: Site, words: bytes) -> None:
    survives(hasty, words)


@examples(FEW)
@given(words=RANDOM)
@example(words=b"")
def test_random_pdus_to_a_listener(hasty: Site, words: bytes) -> None:
    survives(hasty, words)


@examples(FEW)
@given(words=RANDOM)
def test_random_pdus_within_an_association(hasty: Site, words: bytes) -> None:
    survives(hasty, GOOD_RQ + words)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("fast", [False, True], ids=["public", "fast"])
@examples(MANY)
@given(words=broken_conversations() | RANDOM | RANDOM.map(lambda words: GOOD_RQ + words))
def test_many_more_random_and_mutated_conversations(site_of: Callable[[bool], Site], fast: bool, words: bytes) -> None:
    survives(site_of(fast), words)
