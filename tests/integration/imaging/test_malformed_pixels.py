"""The fuzzed files of the test data, given a place in space: each is read by the standard or refused with a sentence, and never crashes or hangs.

Only their geometry was missing; it is written in front of each data set byte by byte, so that what is wrong with a file stays wrong.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from pydicom import dcmread

from pipeline.errors import Permanent
from pipeline.imaging.survey import survey
from pipeline.imaging.volume import Volume, read_volume
from tests.integration.imaging.stacks import stored_values

pytestmark = pytest.mark.filterwarnings("ignore")  # pydicom warns of what is odd in these files
COUNT = 10
FOLDERS = ("baseline", "cat02_vr_mismatch", "cat03_sequence_nesting", "cat04_pixel_data", "cat05_transfer_syntax", "cat06_private_tags")
READ = ("BASELINE", "TC0249", "TC0251", "TC0253", "TC0349", "TC0351", "TC0363", "TC0365", "TC0367")
REFUSED = {
    "TC0285": "half of the pixels",
    "TC0291": "no pixels",
    "TC0293": "one byte of pixels",
    "TC0295": "no rows",
    "TC0297": "no columns",
    "TC0299": "17 bits stored of 16",
    "TC0305": "0 bits allocated",
    "TC0309": "3 bits allocated",
    "TC0311": "9 bits allocated",
    "TC0313": "24 bits allocated",
    "TC0315": "48 bits allocated",
    "TC0317": "128 bits allocated",
    "TC0319": "0 bits stored",
    "TC0321": "encapsulated without a frame",
    "TC0325": "10,000 fragments of no JPEG",
    "TC0327": "three samples a pixel",
    "TC0329": "RGB",
    "TC0339": "999,999 frames",
    "TC0345": "deflated, corrupt",
    "TC0347": "deflated, cut off",
}


def _element(group: int, number: int, vr: bytes, value: bytes) -> bytes:
    padded = value + b" " * (len(value) % 2)
    return struct.pack("<HH", group, number) + vr + struct.pack("<H", len(padded)) + padded


def _data_set_at(whole: bytes) -> int:
    """Where group 0002 ends: these files do not say how long it is (PS3.10 7.1)."""
    at = 132
    while whole[at : at + 2] == b"\x02\x00":
        long = whole[at + 4 : at + 6] in (b"OB", b"UN")
        at += 12 + struct.unpack_from("<I", whole, at + 8)[0] if long else 8 + struct.unpack_from("<H", whole, at + 6)[0]
    return at


def placed(path: Path, folder: Path) -> list[Path]:
    """Ten copies, 3 mm apart, told apart by their UIDs; explicit little endian only, others as they are."""
    whole = path.read_bytes()
    start = _data_set_at(whole)
    folder.mkdir()
    made = [folder / f"{index:02d}.dcm" for index in range(COUNT)]
    for index, copy in enumerate(made):
        more = (
            _element(0x0020, 0x0032, b"DS", f"0\\0\\{3 * index}".encode())
            + _element(0x0020, 0x0037, b"DS", b"1\\0\\0\\0\\1\\0")
            + _element(0x0028, 0x0030, b"DS", b"0.7\\0.7")
            + _element(0x0028, 0x1052, b"DS", b"-1024")
            + _element(0x0028, 0x1053, b"DS", b"1")
        )
        explicit = b"1.2.840.10008.1.2.1\0" in whole[:start] or b"1.2.840.10008.1.2.4.50" in whole[:start]
        uid = b"1.2.3.%06d" % index
        body = whole[start:]
        if explicit and (at := body.find(b"\x08\x00\x18\x00UI")) >= 0:
            length = struct.unpack_from("<H", body, at + 6)[0]
            body = body[:at] + _element(0x0008, 0x0018, b"UI", uid) + body[at + 8 + length :]
        copy.write_bytes(whole[:start] + (more if explicit else b"") + body)
    return made


def _read(paths: list[Path]) -> Volume | str:
    """The volume, or the sentence with which it is refused."""
    try:
        return read_volume(paths)
    except Permanent as error:
        return str(error)


def _by_the_standard(path: Path) -> NDArray[np.int64]:
    """HU of the file's pixels. In two files what is damaged comes after them: a sequence that does not end, a second, empty PixelData."""
    if path.parent.name.startswith(("TC0277", "TC0323")):
        return np.full((64, 64), -1024)
    ds = dcmread(path, force=True)
    words = np.frombuffer(ds.PixelData, dtype="<u2")[: ds.Rows * ds.Columns].reshape(ds.Rows, ds.Columns)
    return np.maximum(stored_values(words, ds.BitsStored, ds.PixelRepresentation == 1) - 1024, -1024)


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_is_read_by_the_standard_or_refused_with_a_sentence(test_data: Path, tmp_path: Path, folder: str) -> None:
    for path in sorted((test_data / "malformed" / folder).iterdir()):
        copies = placed(path, tmp_path / path.stem)
        case = path.name.split("_")[0]
        rows = survey(copies)
        volume = _read(copies)
        if isinstance(volume, str):
            assert len(volume) > 8, path.name
            assert case not in READ, (path.name, volume)
            assert not any(row.accepted for row in rows), path.name
            assert all(len(row.reason) > 4 for row in rows), (path.name, rows)
        else:
            assert case not in REFUSED, (path.name, REFUSED.get(case))
            expected = _by_the_standard(copies[0])
            for hu in volume.hu:
                np.testing.assert_array_equal(hu, expected, err_msg=path.name)
