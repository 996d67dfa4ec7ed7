"""Stored bits → HU: any depth, sign, slope and padding, beside the formula a pixel at a time; every decoder beside another library's."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jpeg_ls
import numpy as np
import pytest
import rle
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from openjpeg.utils import encode_array
from pydicom import FileDataset, dcmread
from pydicom.encaps import encapsulate, generate_frames
from pydicom.uid import (
    UID,
    DeflatedExplicitVRLittleEndian,
    ExplicitVRBigEndian,
    ExplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGLosslessSV1,
    JPEGLSLossless,
    RLELossless,
)

from pipeline.errors import BadInput, Permanent
from pipeline.imaging.frames import frames_of
from pipeline.imaging.pixels import AIR_HU, hounsfield
from tests.builders import ct_slice, write

EDGE = 9


def slices(words: NDArray[np.uint16], bits: int, high_bit: int, signed: bool, **keywords: Any) -> list[FileDataset]:
    made = []
    for z, plane in enumerate(words):
        ds = ct_slice(z_mm=z, number=z + 1, pixels=plane.view(np.int16), **keywords)
        ds.BitsStored, ds.HighBit, ds.PixelRepresentation = bits, high_bit, int(signed)
        made.append(ds)
    return made


def by_hand(word: int, bits: int, high_bit: int, signed: bool) -> int:
    """A stored value (PS3.5 8.1.1), bit by bit."""
    digits = [(word >> (high_bit - bits + 1 + place)) & 1 for place in range(bits)]
    value = sum(digit << place for place, digit in enumerate(digits))
    return value - (1 << bits) if signed and digits[-1] else value


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_depth_slope_and_padding_is_the_formula_of_each_pixel(data: st.DataObject) -> None:
    bits = data.draw(st.integers(8, 16))
    high_bit = data.draw(st.integers(bits - 1, 15))
    signed = data.draw(st.booleans())
    slope = data.draw(st.sampled_from([1.0, 2.0, -1.0, 0.5, 1.25]))
    intercept = data.draw(st.sampled_from([-1024.0, 0.0, -32768.0, -1000.5, 500.0]))
    words = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, 65536, (3, EDGE, EDGE), dtype=np.uint16)
    values = np.vectorize(lambda word: by_hand(int(word), bits, high_bit, signed))(words)
    low = int(values.flat[data.draw(st.integers(0, values.size - 1))])
    high = data.draw(st.sampled_from([low, low + 40]))
    expected = np.maximum(values.astype(np.float32) * np.float32(slope) + np.float32(intercept), AIR_HU)
    expected[(values >= low) & (values <= high)] = AIR_HU
    made = slices(words, bits, high_bit, signed, slope=slope, intercept=intercept)
    for ds in made:
        ds.PixelPaddingValue = low if signed else low & 0xFFFF
        ds["PixelPaddingValue"].VR = "SS" if signed else "US"
        if high != low and high < (1 << (15 if signed else 16)):
            ds.PixelPaddingRangeLimit = high
            ds["PixelPaddingRangeLimit"].VR = "SS" if signed else "US"
    if high >= (1 << (15 if signed else 16)):
        return
    with TemporaryDirectory() as folder:
        hu = hounsfield([frame for path in write(Path(folder), made) for frame in frames_of(path)])
    np.testing.assert_array_equal(hu.astype(np.float32), expected)
    assert (hu.dtype == np.int16) == (slope == int(slope) and intercept == int(intercept) and expected.max() <= 32767)


def in_syntax(folder: Path, ds: FileDataset, syntax: UID, frames: list[bytes]) -> Path:
    ds.file_meta.TransferSyntaxUID = syntax
    ds.PixelData = encapsulate(frames)
    ds["PixelData"].VR, ds["PixelData"].is_undefined_length = "OB", True
    return write(folder, [ds])[0]


NOISE = np.random.default_rng(4).integers(0, 4096, (32, 40), dtype=np.uint16)
RLE = {"rows": 32, "columns": 40, "samples_per_pixel": 1, "bits_allocated": 16, "byteorder": "<"}
ENCODERS = {
    JPEG2000Lossless: lambda: bytes(encode_array(NOISE, bits_stored=12)),
    JPEGLSLossless: lambda: bytes(jpeg_ls.encode(NOISE).tobytes()),
    RLELossless: lambda: bytes(
        rle.utils.encode_pixel_data(NOISE.tobytes(), rows=32, columns=40, samples_per_pixel=1, bits_allocated=16, byteorder="<")
    ),
}


def noise(**keywords: Any) -> FileDataset:
    ds = ct_slice(pixels=NOISE.view(np.int16), intercept=0, **keywords)
    ds.BitsStored, ds.HighBit, ds.PixelRepresentation = 12, 11, 0
    return ds


@pytest.mark.parametrize("syntax", ENCODERS, ids=str)
def test_what_another_library_encoded_is_decoded_to_the_bit(tmp_path: Path, syntax: UID) -> None:
    path = in_syntax(tmp_path, noise(), syntax, [ENCODERS[syntax]()])
    np.testing.assert_array_equal(hounsfield(frames_of(path))[0], NOISE)


def test_lossless_jpeg_is_what_gdcm_decodes(test_data: Path) -> None:
    (path,) = (test_data / "transfer_syntaxes").glob("*JPEGProcess14SV1*")
    ds = dcmread(path)
    assert ds.file_meta.TransferSyntaxUID == JPEGLosslessSV1
    expected = np.maximum(ds.pixel_array.astype(int) - 1024, AIR_HU)
    expected[ds.pixel_array == ds.PixelPaddingValue] = AIR_HU
    np.testing.assert_array_equal(hounsfield(frames_of(path))[0], expected)


@pytest.mark.parametrize("syntax", [ExplicitVRBigEndian, DeflatedExplicitVRLittleEndian], ids=lambda uid: uid.name)
def test_big_endian_and_deflated_files_hold_the_same(tmp_path: Path, syntax: UID) -> None:
    (path,) = write(tmp_path, [noise()])
    ds = dcmread(path)
    ds.file_meta.TransferSyntaxUID = syntax
    if syntax == ExplicitVRBigEndian:
        ds.PixelData = NOISE.astype(">u2").tobytes()
        ds = FileDataset("", {element.tag: element for element in ds}, b"\0" * 128, ds.file_meta, False, False)
    ds.save_as(path, enforce_file_format=True)
    np.testing.assert_array_equal(hounsfield(frames_of(path))[0], NOISE)


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_frames_of_a_compressed_multi_frame_object_come_in_the_order_asked_for(tmp_path: Path, workers: int) -> None:
    planes = [np.roll(NOISE, shift) for shift in range(6)]
    ds = noise(NumberOfFrames=6)
    path = in_syntax(tmp_path, ds, JPEG2000Lossless, [bytes(encode_array(plane, bits_stored=12)) for plane in planes])
    wanted = [frames_of(path)[number] for number in (4, 0, 5)]
    np.testing.assert_array_equal(hounsfield(wanted, workers), [planes[4], planes[0], planes[5]])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"Rows": 31}, "32 × 40"),
        ({"Columns": 41}, "32 × 40"),
        ({"BitsStored": 13, "HighBit": 12}, "12 bits, not 13"),
        ({"BitsAllocated": 8, "BitsStored": 8, "HighBit": 7}, "12 bits"),
        ({"SamplesPerPixel": 3}, "× 1, not"),
    ],
)
def test_a_bit_stream_that_is_not_what_the_header_says_is_refused(tmp_path: Path, change: dict[str, int], told: str) -> None:
    ds = noise()
    for keyword, value in change.items():
        setattr(ds, keyword, value)
    path = in_syntax(tmp_path, ds, JPEG2000Lossless, [ENCODERS[JPEG2000Lossless]()])
    with pytest.raises(Permanent, match=told):
        hounsfield(frames_of(path))


@pytest.mark.parametrize("syntax", ENCODERS, ids=str)
def test_a_cut_or_foreign_bit_stream_is_refused_or_whole(tmp_path: Path, syntax: UID) -> None:
    code = ENCODERS[syntax]()
    for number, damaged in enumerate([b"??", b"no image at all!", code[: len(code) // 3], code[:50], b"\xff\xd8\xff\xc0" + code]):
        path = in_syntax(tmp_path / str(number), noise(), syntax, [damaged])
        with pytest.raises(Permanent, match=r"bit stream|fragments"):
            hounsfield(frames_of(path))


def test_a_transfer_syntax_that_nothing_decodes_is_named(test_data: Path) -> None:
    (path,) = (test_data / "transfer_syntaxes").glob("*JPEGProcess6_8*")
    with pytest.raises(Permanent, match="JPEG Spectral Selection"):
        hounsfield(frames_of(path))


def test_a_claim_that_the_file_cannot_hold_is_refused_before_memory_is_taken(tmp_path: Path) -> None:
    ds = noise()
    ds.Rows, ds.Columns = 4000, 4000
    path = in_syntax(tmp_path, ds, JPEG2000Lossless, [ENCODERS[JPEG2000Lossless]()])
    assert path.stat().st_size < 4000
    with pytest.raises(BadInput, match="4000 × 4000"):
        frames_of(path)


def test_the_float_free_way_takes_no_copy_of_the_pixels(tmp_path: Path) -> None:
    """int16 in, int16 out: the words of the file lie in the array that is returned."""
    ds = noise()
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    (path,) = write(tmp_path, [ds])
    hu = hounsfield(frames_of(path))
    assert hu.base is None
    assert hu.dtype == np.int16
    assert next(generate_frames(encapsulate([b"ab"]), number_of_frames=1)) == b"ab"
