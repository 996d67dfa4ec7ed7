"""What a compressed image says of itself, read from its first bytes before any memory is taken for it."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from pydicom.uid import (
    HTJ2K,
    JPEG2000,
    HTJ2KLossless,
    HTJ2KLosslessRPCL,
    JPEG2000Lossless,
    JPEGBaseline8Bit,
    JPEGExtended12Bit,
    JPEGLossless,
    JPEGLosslessSV1,
    JPEGLSLossless,
    JPEGLSNearLossless,
)

JPEG_2000 = frozenset({JPEG2000Lossless, JPEG2000, HTJ2KLossless, HTJ2KLosslessRPCL, HTJ2K})
JPEG_LS = frozenset({JPEGLSLossless, JPEGLSNearLossless})
# Frame headers (ISO/IEC 10918-1 B.2.2) that each syntax may hold; JPEG-LS has one of its own (ISO/IEC 14495-1 C.2.2).
JPEG_FRAMES: Mapping[str, frozenset[int]] = {
    JPEGBaseline8Bit: frozenset({0xC0}),
    JPEGExtended12Bit: frozenset({0xC0, 0xC1}),
    JPEGLossless: frozenset({0xC3}),
    JPEGLosslessSV1: frozenset({0xC3}),
    JPEGLSLossless: frozenset({0xF7}),
    JPEGLSNearLossless: frozenset({0xF7}),
}
STANDALONE = frozenset({0x01, *range(0xD0, 0xD9)})
MOST_TILES = 1024


@dataclass(frozen=True, slots=True)
class Claim:
    """Size and depth that a bit stream claims."""

    rows: int
    columns: int
    components: int
    precision: int


def claim(data: bytes, syntax: str) -> Claim | None:
    """What the bit stream claims; None where it is not what its transfer syntax says, or would need more memory than its pixels."""
    try:
        return _jpeg_2000(data) if syntax in JPEG_2000 else _jpeg(data, JPEG_FRAMES[syntax])
    except (struct.error, IndexError):
        return None


def loses(data: bytes, syntax: str) -> bool:
    """Whether a stream that lies somewhere in `data` cannot be lossless: the 9-7 wavelet of JPEG 2000 (COD, ISO/IEC 15444-1 A.6.1), NEAR above 0
    in JPEG-LS (ISO/IEC 14495-1 C.2.3), any other JPEG frame but the lossless one."""
    if syntax in JPEG_FRAMES and syntax not in JPEG_LS:
        return 0xC3 not in JPEG_FRAMES[syntax]
    mark, start, wanted = (b"\xff\x4f\xff\x51", 2, 0x52) if syntax in JPEG_2000 else (b"\xff\xd8\xff", 2, 0xDA)
    position = data.find(mark) + start
    while start <= position < len(data) - 16 and data[position] == 0xFF:
        if data[position + 1] == wanted:
            return data[position + 13] == 0 if wanted == 0x52 else data[position + 5 + 2 * data[position + 4]] > 0
        position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return True


def _jpeg_2000(data: bytes) -> Claim | None:
    """SIZ (ISO/IEC 15444-1 A.5.1), of a bare codestream or one in a JP2 box."""
    start = 0 if data[:4] == b"\xff\x4f\xff\x51" else data.find(b"\xff\x4f\xff\x51", 0, 4096)
    if start < 0:
        return None
    _, _, right, bottom, left, top, tile_x, tile_y = struct.unpack_from(">HHIIIIII", data, start + 4)
    components, depth = struct.unpack_from(">HB", data, start + 40)
    columns, rows = right - left, bottom - top
    if min(rows, columns, tile_x, tile_y) <= 0 or -(-columns // tile_x) * -(-rows // tile_y) > MOST_TILES:
        return None
    return Claim(rows, columns, components, (depth & 0x7F) + 1)


def _jpeg(data: bytes, frames: frozenset[int]) -> Claim | None:
    """The frame header; None for a frame of another process."""
    if data[:2] != b"\xff\xd8":
        return None
    position = 2
    while data[position] == 0xFF:
        marker = data[position + 1]
        if marker == 0xFF:
            position += 1
        elif marker in STANDALONE:
            position += 2
        elif marker in frames:
            precision, rows, columns, components = struct.unpack_from(">BHHB", data, position + 4)
            return Claim(rows, columns, components, precision) if rows and columns else None
        elif marker == 0xDA or (0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)):
            return None
        else:
            position += 2 + int.from_bytes(data[position + 2 : position + 4], "big")
    return None
