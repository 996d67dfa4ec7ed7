"""The quick walk finds what pydicom's own reader finds, and stays quick on bytes made to be slow."""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydicom import dcmwrite
from pydicom.dataset import Dataset
from pydicom.filereader import data_element_generator
from pydicom.sequence import Sequence
from pydicom.uid import ImplicitVRLittleEndian
from pynetdicom.dsutils import split_dataset

from pipeline.dicom.elements import WANTED
from pipeline.dicom.walk import FRAMES, HEADER_BYTES, LAST, PIXELS, walk

ITEM = struct.pack("<HHL", 0xFFFE, 0xE000, 0)
OPEN_SEQUENCE = struct.pack("<HH2sHL", 0x0008, 0x1111, b"SQ", 0, 0xFFFFFFFF)
OPEN_ITEM = struct.pack("<HHL", 0xFFFE, 0xE000, 0xFFFFFFFF)


def reference(data: bytes, implicit: bool, little_endian: bool) -> tuple[dict[int, bytes], tuple[int, int] | None]:
    """The obviously right way: pydicom's generator, every element made an object. Values of wanted tags, and where the pixels stand."""
    stream, pixels = BytesIO(data), None

    def stop(tag: int, vr: str | None, length: int) -> bool:
        nonlocal pixels
        pixels = (stream.tell(), length) if tag in PIXELS else pixels
        return tag >= LAST or tag in FRAMES

    found: dict[int, bytes] = {}
    for element in data_element_generator(stream, implicit, little_endian, stop, specific_tags=list(WANTED)):
        if not isinstance(element.value, Sequence):
            found.setdefault(int(element.tag), element.value or b"")
    return found, pixels


def compared(data: bytes, implicit: bool, little_endian: bool = True) -> None:
    walked = walk(data, implicit, little_endian, WANTED, len(data))
    found, pixels = reference(data, implicit, little_endian)
    assert walked.pixels == pixels
    assert {tag: value for tag, value in walked.found.items() if tag in found} == found


TEXT = st.text(alphabet="abc 12", max_size=9)
PLAIN = st.fixed_dictionaries(
    {},
    optional={
        "ImageType": st.just("ORIGINAL\\PRIMARY"),
        "StudyDate": st.just("20260101"),
        "StudyDescription": TEXT,
        "PatientName": TEXT,
        "ImageComments": st.text(alphabet="ab", max_size=400),
        "InstanceNumber": st.integers(0, 999).map(str),
        "Rows": st.integers(0, 65535),
        "ImagePositionPatient": st.just("1\\2\\3"),
        "RequestedProcedureDescription": TEXT,
    },
)


@st.composite
def datasets(draw: st.DrawFn, depth: int = 3) -> Dataset:
    """Ordinary, private and long elements, sequences in both ways of ending, inside each other."""
    ds = Dataset()
    for keyword, value in draw(PLAIN).items():
        setattr(ds, keyword, value)
    if draw(st.booleans()):
        ds.add_new(0x00090010, "LO", "US")
        ds.add_new(0x00091001, draw(st.sampled_from(["UN", "OB"])), draw(st.binary(max_size=20).map(lambda b: b + b"\0" * (len(b) % 2))))
    for tag in draw(st.sets(st.sampled_from([0x00081140, 0x00091002, 0x00400275, 0x0040A730]), max_size=3)) if depth else ():
        items = draw(st.lists(datasets(depth=depth - 1), max_size=2))
        for item in items:
            item.is_undefined_length_sequence_item = draw(st.booleans())
        ds.add_new(tag, "SQ", items)
        ds[tag].is_undefined_length = draw(st.booleans())
    return ds


@given(datasets(), st.sampled_from([(True, True), (False, True), (False, False)]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_data_set_reads_as_pydicom_reads_it(ds: Dataset, encoding: tuple[bool, bool], pixels: bool) -> None:
    implicit, little_endian = encoding
    if pixels:
        ds.add_new(0x7FE00010, "OW", b"\0" * 8)
    buffer = BytesIO()
    dcmwrite(buffer, ds, implicit_vr=implicit, little_endian=little_endian)
    compared(buffer.getvalue(), implicit, little_endian)
    assert walk(buffer.getvalue(), implicit, little_endian, WANTED, len(buffer.getvalue())).flags == set()


@pytest.mark.parametrize("folder", ["chest_lidc_0314", "transfer_syntaxes", "enhanced_ct", "dose_reports", "not_for_reading", "bad_geometry"])
def test_every_real_file_reads_as_pydicom_reads_it(test_data: Path, folder: str) -> None:
    for path in sorted((test_data / folder).rglob("*.dcm")):
        meta, start = split_dataset(path)
        if "Deflated" not in path.name:
            compared(path.read_bytes()[start:], meta.TransferSyntaxUID == ImplicitVRLittleEndian, "BigEndian" not in path.name)


def test_a_sequence_of_unknown_vr_holds_implicit_elements() -> None:
    inner = struct.pack("<HHL", 0x0008, 0x0050, 2) + b"xx"
    inner += struct.pack("<HHL", 0x0008, 0x0051, 0x4142) + b"x" * 0x4142  # a length that looks like a VR
    data = struct.pack("<HH2sHL", 0x0008, 0x1111, b"UN", 0, 0xFFFFFFFF) + OPEN_ITEM + inner
    data += struct.pack("<HHLHHL", 0xFFFE, 0xE00D, 0, 0xFFFE, 0xE0DD, 0) + struct.pack("<HH2sH", 0x0020, 0x000D, b"UI", 4) + b"1.2\0"
    walked = walk(data, False, True, WANTED, len(data))
    assert (walked.found, walked.flags) == ({0x0020000D: b"1.2\0"}, set())


@given(st.binary(max_size=300), st.booleans(), st.booleans())
def test_no_bytes_raise(data: bytes, implicit: bool, little_endian: bool) -> None:
    walk(data, implicit, little_endian, WANTED, len(data))


@pytest.mark.parametrize(
    "data",
    [
        OPEN_SEQUENCE + ITEM * (1 << 20),
        OPEN_SEQUENCE + OPEN_ITEM + struct.pack("<HH2sH", 9, 1, b"LO", 0) * (1 << 20),
        OPEN_SEQUENCE + (OPEN_ITEM + OPEN_SEQUENCE) * (1 << 18),
        struct.pack("<HH2sH", 9, 1, b"LO", 0) * (1 << 20),
    ],
    ids=["items", "elements in an item", "nesting", "elements"],
)
def test_a_header_made_to_be_slow_ends_in_time(data: bytes) -> None:
    began = perf_counter()
    assert walk(data, False, True, WANTED, len(data)).flags & {"header-damaged", "too-many-elements"}
    assert perf_counter() - began < 5


def test_the_head_of_a_large_object_is_enough() -> None:
    head = struct.pack("<HH2sH", 0x0020, 0x000D, b"UI", 4) + b"1.2\0" + struct.pack("<HH2sHL", 0x7FE0, 0x0010, b"OW", 0, 1 << 30)
    start = len(head)
    head += bytes(HEADER_BYTES - start)
    walked = walk(head, False, True, WANTED, start + (1 << 30))
    assert (walked.pixels, walked.flags) == ((start, 1 << 30), set())
    assert walk(head, False, True, WANTED, start + (1 << 29)).flags == {"data-set-truncated"}


def test_a_header_beyond_the_head_says_so() -> None:
    head = struct.pack("<HH2sHL", 0x0009, 0x1001, b"OB", 0, HEADER_BYTES) + bytes(HEADER_BYTES - 12)
    assert walk(head, False, True, WANTED, HEADER_BYTES + 1000).flags == {"header-long"}
