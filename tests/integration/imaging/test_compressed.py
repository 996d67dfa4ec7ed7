"""Compressed planes of every make: signed and not, 12 and 16 bits, frames in one or many fragments; HU are those of the pixels before."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import jpeg_ls
import numpy as np
import pytest
from numpy.typing import NDArray
from openjpeg.utils import encode_array
from pydicom import FileDataset
from pydicom.encaps import encapsulate
from pydicom.uid import JPEG2000, UID, JPEG2000Lossless, JPEGLSLossless, RLELossless

from tests.integration.imaging.stacks import COUNT, assert_hu, assert_places, hounsfield, read, refused, stack

EDGE = 40
Values = NDArray[np.int64]


def values(bits: int, signed: bool) -> Values:
    """Random stored values of the full range (COUNT, EDGE, EDGE)."""
    low, high = (-(1 << (bits - 1)), 1 << (bits - 1)) if signed else (0, 1 << bits)
    return np.random.default_rng(bits).integers(low, high, (COUNT, EDGE, EDGE))


def j2k(plane: Values, bits: int, signed: bool) -> bytes:
    return bytes(encode_array(plane.astype(np.int16 if signed else np.uint16), bits_stored=bits))


def jpeg_ls_frame(plane: Values, bits: int, signed: bool) -> bytes:
    """JPEG-LS knows no sign: two's complement in `bits` bits."""
    return bytes(jpeg_ls.encode((plane & ((1 << bits) - 1)).astype(np.uint16)).tobytes())


def rle(plane: Values, bits: int, signed: bool) -> bytes:
    """PS3.5 G: the high bytes first, then the low ones, rows packed apart; literal runs alone will do."""
    words = (plane & 0xFFFF).astype(np.uint16)
    segments = [b"".join(_literal(row.tobytes()) for row in part) for part in ((words >> 8).astype(np.uint8), (words & 0xFF).astype(np.uint8))]
    padded = [segment + b"\0" * (len(segment) % 2) for segment in segments]
    return struct.pack("<16I", 2, 64, 64 + len(padded[0]), *[0] * 13) + b"".join(padded)


def _literal(row: bytes) -> bytes:
    return bytes([len(row) - 1]) + row


MAKES: dict[str, tuple[UID, Callable[[Values, int, bool], bytes]]] = {
    "J2K": (JPEG2000Lossless, j2k),
    "JPEG-LS": (JPEGLSLossless, jpeg_ls_frame),
    "RLE": (RLELossless, rle),
}


def planes_of(make: str, stored: Values, bits: int, signed: bool, fragments: int = 1, table: bool = True) -> list[FileDataset]:
    syntax, encode = MAKES[make]
    planes = stack(np.zeros(stored.shape, dtype=np.uint16), bits_stored=bits, signed=signed, RescaleIntercept=0.0)
    for ds, plane in zip(planes, stored, strict=True):
        ds.file_meta.TransferSyntaxUID = syntax
        ds.PixelData = encapsulate([encode(plane, bits, signed)], fragments_per_frame=fragments, has_bot=table)
        ds["PixelData"].VR, ds["PixelData"].is_undefined_length = "OB", True
    return planes


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("bits", [12, 16])
@pytest.mark.parametrize("signed", [False, True])
def test_compressed_values_come_back_as_they_were(tmp_path: Path, make: str, bits: int, signed: bool) -> None:
    stored = values(bits, signed)
    planes = planes_of(make, stored, bits, signed)
    volume = read(tmp_path, planes)
    expected = hounsfield(stored, intercept=0.0)
    assert_hu(volume, planes, lambda number: np.where(stored[number] <= -2000, -1024, expected[number]))
    assert_places(volume, planes)
    assert not volume.lossy


@pytest.mark.parametrize("make", ["J2K", "JPEG-LS"])
@pytest.mark.parametrize("fragments", [2, 7])
@pytest.mark.parametrize("table", [False, True])
def test_a_frame_may_come_in_fragments(tmp_path: Path, make: str, fragments: int, table: bool) -> None:
    stored = values(12, False)
    planes = planes_of(make, stored, 12, False, fragments, table)
    expected = hounsfield(stored, intercept=0.0)
    assert_hu(read(tmp_path, planes), planes, lambda number: expected[number])


@pytest.mark.parametrize("make", MAKES)
@pytest.mark.parametrize("keep", [0.5, 0.02])
def test_a_frame_that_is_cut_short_is_refused(tmp_path: Path, make: str, keep: float) -> None:
    stored = values(12, False)
    planes = planes_of(make, stored, 12, False)
    syntax, encode = MAKES[make]
    frame = encode(stored[3], 12, False)
    planes[3].PixelData = encapsulate([frame[: int(len(frame) * keep)]])
    refused(tmp_path, planes, syntax.name)


@pytest.mark.parametrize("make", MAKES)
def test_noise_instead_of_a_frame_is_refused(tmp_path: Path, make: str) -> None:
    planes = planes_of(make, values(12, False), 12, False)
    planes[3].PixelData = encapsulate([np.random.default_rng(1).bytes(3000)])
    refused(tmp_path, planes, MAKES[make][0].name)


def test_a_reversible_stream_in_the_syntax_that_may_lose_is_not_flagged_unless_the_header_says_so(tmp_path: Path) -> None:
    """1.2.840.10008.1.2.4.91 holds both (PS3.5 A.4.4); LossyImageCompression 01 is said once and for ever (PS3.3 C.7.6.1.1.5)."""
    planes = planes_of("J2K", values(12, False), 12, False)
    for ds in planes:
        ds.file_meta.TransferSyntaxUID = JPEG2000
    assert not read(tmp_path / "a", planes).lossy
    for ds in planes:
        ds.LossyImageCompression = "01"
    assert read(tmp_path / "b", planes).lossy


def test_native_pixels_that_were_lossy_once_are_flagged(tmp_path: Path) -> None:
    volume = read(tmp_path, stack(LossyImageCompression="01"))
    assert volume.lossy
    assert any("有损" in flag for flag in volume.flags)
