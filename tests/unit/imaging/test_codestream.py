"""What bit streams claim of themselves, whatever bytes they are."""

from __future__ import annotations

import struct
from pathlib import Path

import jpeg_ls
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openjpeg.utils import encode_array
from pydicom import dcmread
from pydicom.encaps import get_frame
from pydicom.uid import JPEG2000Lossless, JPEGBaseline8Bit, JPEGLosslessSV1, JPEGLSLossless

from pipeline.imaging.codestream import JPEG_2000, JPEG_FRAMES, Claim, claim

NOISE = np.random.default_rng(1).integers(0, 4096, (64, 80), dtype=np.uint16)


def test_jpeg_2000_and_jpeg_ls_say_their_size_and_depth() -> None:
    assert claim(bytes(encode_array(NOISE, bits_stored=12)), JPEG2000Lossless) == Claim(64, 80, 1, 12)
    assert claim(bytes(encode_array(NOISE, bits_stored=12, codec_format=1)), JPEG2000Lossless) == Claim(64, 80, 1, 12)
    assert claim(bytes(jpeg_ls.encode(NOISE).tobytes()), JPEGLSLossless) == Claim(64, 80, 1, 12)


@pytest.mark.parametrize(("name", "bits"), [("1.2.4.50", 8), ("1.2.4.51", 12), ("1.2.4.57", 16), ("1.2.4.70", 16)])
def test_jpeg_says_its_size_and_depth(test_data: Path, name: str, bits: int) -> None:
    (path,) = (test_data / "transfer_syntaxes").glob(f"*_1.2.840.10008.{name}.dcm")
    ds = dcmread(path)
    assert claim(get_frame(ds.PixelData, 0, number_of_frames=1), ds.file_meta.TransferSyntaxUID) == Claim(512, 512, 1, bits)


def test_a_frame_of_another_process_is_not_what_the_syntax_says() -> None:
    progressive = b"\xff\xd8\xff\xc2" + struct.pack(">HBHHB", 11, 8, 16, 16, 1) + b"\x01\x11\x00"
    assert claim(progressive, JPEGBaseline8Bit) is None
    assert claim(progressive.replace(b"\xff\xc2", b"\xff\xc0"), JPEGBaseline8Bit) == Claim(16, 16, 1, 8)
    assert claim(progressive.replace(b"\xff\xc2", b"\xff\xc0"), JPEGLosslessSV1) is None


def test_more_tiles_than_any_image_needs_are_refused() -> None:
    code = bytearray(encode_array(NOISE, bits_stored=12))
    struct.pack_into(">II", code, code.index(b"\xff\x51") + 22, 8, 8)
    assert claim(bytes(code), JPEG2000Lossless) == Claim(64, 80, 1, 12)  # 80 tiles
    struct.pack_into(">II", code, code.index(b"\xff\x51") + 22, 1, 1)
    assert claim(bytes(code), JPEG2000Lossless) is None


@given(
    st.binary(max_size=80),
    st.sampled_from(sorted({*JPEG_2000, *JPEG_FRAMES})),
    st.sampled_from([b"", b"\xff\xd8", b"\xff\x4f\xff\x51", b"\xff\xd8\xff"]),
)
def test_any_bytes_are_a_claim_or_none(data: bytes, syntax: str, start: bytes) -> None:
    found = claim(start + data, syntax)
    assert found is None or min(found.rows, found.columns) > 0
