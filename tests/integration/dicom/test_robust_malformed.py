"""Malformed data sets by C-STORE: each is answered in time, its bytes are kept, and the listener goes on."""

from __future__ import annotations

import resource
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.integration.dicom.attacks import FEW, MANY, examples, store_good, survived
from tests.integration.dicom.conftest import Site, serving
from tests.integration.dicom.images import Image, bytes_kept, made, read
from tests.wire import CT, EXPLICIT_LE, IMPLICIT_LE, Peer

ANSWERS = {0x0000, 0xB007, 0xC000, 0xA900}
KEPT = {0x0000, 0xB007}
DEADLINE_S = 15.0
SYNTAXES = (EXPLICIT_LE, IMPLICIT_LE, "1.2.840.10008.1.2.2", "1.2.840.10008.1.2.1.99", "1.2.840.10008.1.2.4.90", "1.2.840.10008.1.2.5")
VALID = made(0, "mutated").data


def answered(site: Site, image: Image) -> int:
    """Its status over an association of its own; a peer that gets none in time fails the test."""
    with Peer(site.port, image.kind, timeout_s=DEADLINE_S) as peer:
        status = image.sent(peer)
        peer.release()
    return status


def test_every_malformed_file_is_answered_kept_byte_for_byte_and_the_next_good_image_is_stored(site: Site, test_data: Path) -> None:
    images = {path.stem: read(path) for path in sorted((test_data / "malformed").rglob("*.dcm"))}
    assert len(images) >= 70
    statuses = {}
    with survived(site):
        for name, image in images.items():
            statuses[name] = answered(site, image)
            assert store_good(site.port) == 0x0000, name
    assert set(statuses.values()) <= ANSWERS, statuses
    archive, quarantine = bytes_kept(site, "objects"), bytes_kept(site, "quarantine")
    lost = [name for name, status in statuses.items() if images[name].data not in (archive if status in KEPT else quarantine)]
    assert lost == []
    assert {"BASELINE_valid_ct": 0x0000, "TC0267_depth_500_raw": 0xC000, "TC0285_buf_half": 0xB007}.items() <= statuses.items()
    assert site.verified().clean


@pytest.mark.parametrize("fast", [False, True], ids=["public", "fast"])
def test_malformed_files_that_follow_each_other_on_one_association_do_not_disturb_each_other(
    tmp_path: Path, url: str, test_data: Path, fast: bool
) -> None:
    images = [read(path) for path in sorted((test_data / "malformed").rglob("*.dcm"))]
    good = made(1)
    with serving(tmp_path / "archive", url, fast=fast) as site, Peer(site.port, *sorted({image.kind for image in images} | {good.kind})) as peer:
        for image in images:
            assert image.sent(peer) in ANSWERS
            assert good.sent(peer) == 0x0000
        peer.release()
        assert {image.data for image in images} <= bytes_kept(site)


@st.composite
def elements(draw: st.DrawFn) -> bytes:
    """Elements that look like explicit VR little endian, with tags, VRs, lengths and values that need not fit."""
    out = bytearray()
    for _ in range(draw(st.integers(0, 8))):
        group, number = draw(st.sampled_from([0x0008, 0x0010, 0x0018, 0x0020, 0x0028, 0x7FE0, 0xFFFE, 0xFFFF, 0x0000])), draw(st.integers(0, 0xFFFF))
        vr = draw(st.sampled_from([b"UI", b"PN", b"SQ", b"OB", b"OW", b"UN", b"DS", b"US", b"UT", b"??", b"\0\0"]))
        value = draw(st.binary(max_size=40))
        length = draw(st.sampled_from([len(value), 0, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, len(value) + 1]))
        if vr in (b"SQ", b"OB", b"OW", b"UN", b"UT"):
            out += struct.pack("<HH2sHL", group, number, vr, 0, length) + value
        else:
            out += struct.pack("<HH2sH", group, number, vr, length & 0xFFFF) + value
    return bytes(out)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A valid data set with bytes changed, cut out, doubled or cut off."""
    data = bytearray(VALID)
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, max(len(data) - 1, 0)))
        match draw(st.sampled_from(["change", "remove", "insert", "double", "cut"])):
            case "change":
                data[place : place + 1] = draw(st.binary(min_size=1, max_size=1))
            case "remove":
                del data[place : place + draw(st.integers(1, 64))]
            case "insert":
                data[place:place] = draw(st.binary(min_size=1, max_size=8))
            case "double":
                data[place:place] = data[place : place + draw(st.integers(1, 200))]
            case "cut":
                del data[place:]
    return bytes(data)


def held(site: Site, data: bytes, syntax: str) -> None:
    """Sent, answered, kept; and a good image after it is stored."""
    status = answered(site, Image(CT, "1.2.3.4", syntax, data))
    assert status in ANSWERS
    assert data in bytes_kept(site, "objects" if status in KEPT else "quarantine", size=len(data))
    assert store_good(site.port) == 0x0000


RANDOM = st.one_of(st.binary(max_size=4096), elements())
LIKELY = st.sampled_from((EXPLICIT_LE, EXPLICIT_LE, IMPLICIT_LE, "1.2.840.10008.1.2.4.90"))


@examples(FEW)
@given(data=RANDOM, syntax=st.sampled_from(SYNTAXES))
@example(data=b"", syntax=EXPLICIT_LE)
@example(data=b"\0", syntax=IMPLICIT_LE)
@example(data=b"\xff" * 4096, syntax=EXPLICIT_LE)
@example(data=b"\x78\x9c" + b"\0" * 100, syntax="1.2.840.10008.1.2.1.99")
def test_random_data_sets(site: Site, data: bytes, syntax: str) -> None:
    held(site, data, syntax)


@examples(FEW)
@given(data=mutated(), syntax=LIKELY)
def test_mutated_data_sets(site: Site, data: bytes, syntax: str) -> None:
    held(site, data, syntax)


@pytest.mark.long
@pytest.mark.timeout(1_800)
@examples(MANY)
@given(data=st.one_of(RANDOM, mutated()), syntax=LIKELY | st.sampled_from(SYNTAXES))
def test_many_more_random_and_mutated_data_sets(site: Site, data: bytes, syntax: str) -> None:
    held(site, data, syntax)


@pytest.mark.parametrize("depth", [50, 500, 20_000])
def test_deep_nesting_is_answered(site: Site, depth: int) -> None:
    nested = struct.pack("<HH2sHL", 0x0008, 0x1140, b"SQ", 0, 0xFFFFFFFF) + struct.pack("<HHL", 0xFFFE, 0xE000, 0xFFFFFFFF)
    image = made(1)
    with survived(site):
        held(site, nested * depth, EXPLICIT_LE)
        held(site, image.data + nested * depth, EXPLICIT_LE)


def test_a_deflated_bomb_is_answered_and_costs_no_memory(site: Site) -> None:
    """A quarter of a MB that inflates to 256 MB of zeros."""
    press = zlib.compressobj(9, zlib.DEFLATED, -15)
    data = b"".join(press.compress(bytes(1 << 20)) for _ in range(256)) + press.flush()
    before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with survived(site):
        assert answered(site, Image(CT, "1.2.3.5", "1.2.840.10008.1.2.1.99", data)) in ANSWERS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib < 64 * 1024
    assert data in bytes_kept(site)
