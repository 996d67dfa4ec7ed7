"""Small files that claim to be large: each builder writes a stack of them, or one among good ones."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import jpeg_ls
import numpy as np
from openjpeg.utils import encode_array
from pydicom import FileDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    UID,
    EnhancedCTImageStorage,
    ExplicitVRLittleEndian,
    ImplicitVRLittleEndian,
    JPEG2000Lossless,
    JPEGExtended12Bit,
    JPEGLSLossless,
    RLELossless,
)

from tests.builders import part10
from tests.integration.imaging.stacks import stack

HUGE, OVER_INT32 = 65_535, 46_341  # 46341² is the first square past 2³¹
EDGE = 64  # rows and columns of a sound frame
VICTIM = 5  # the plane that is bad where the others are good
Builder = Callable[[Path], list[Path]]


def _write(folder: Path, planes: list[FileDataset], change: Callable[[bytes], bytes] = bytes) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{index:02d}.dcm" for index in range(len(planes))]
    for ds, path in zip(planes, paths, strict=True):
        path.write_bytes(change(part10(ds)))
    return paths


def good(folder: Path) -> list[Path]:
    """What a reader takes."""
    return _write(folder, stack())


def native(side: int) -> Builder:
    """10 kB of pixels and Rows = Columns = `side`."""

    def build(folder: Path) -> list[Path]:
        planes = stack()
        for ds in planes:
            ds.Rows = ds.Columns = side
            ds.PixelData = bytes(10_000)
        return _write(folder, planes)

    return build


def compressed(syntax: UID, frame: Callable[[], bytes], side: int = HUGE) -> Builder:
    """A valid frame of another size and Rows = Columns = `side`; the frame's own header may claim as much."""

    def build(folder: Path) -> list[Path]:
        planes = stack()
        for ds in planes:
            _put_frame(ds, syntax, frame())
            ds.Rows = ds.Columns = side
        return _write(folder, planes)

    return build


def one_of(syntax: UID, sound: Callable[[], bytes], bad: Callable[[], bytes]) -> Builder:
    """Sound frames and one whose own header claims 65535² while Rows and Columns say what the others say."""

    def build(folder: Path) -> list[Path]:
        planes = stack()
        for index, ds in enumerate(planes):
            _put_frame(ds, syntax, bad() if index == VICTIM else sound())
        return _write(folder, planes)

    return build


def _put_frame(ds: FileDataset, syntax: UID, frame: bytes) -> None:
    ds.file_meta.TransferSyntaxUID = syntax
    ds.BitsStored, ds.HighBit, ds.Rows, ds.Columns = 12, 11, EDGE, EDGE
    ds.PixelData = encapsulate([frame])
    ds["PixelData"].VR, ds["PixelData"].is_undefined_length = "OB", True


def _pixels() -> np.ndarray[tuple[int, int], np.dtype[np.uint16]]:
    return np.random.default_rng(1).integers(0, 4096, (EDGE, EDGE), dtype=np.uint16)


def j2k() -> bytes:
    """A sound JPEG 2000 frame."""
    return bytes(encode_array(_pixels(), bits_stored=12))


def j2k_huge() -> bytes:
    """Its SIZ claims 65535 × 65535 in one tile (ISO/IEC 15444-1 A.5.1: Xsiz, Ysiz; XTsiz, YTsiz)."""
    frame = bytearray(j2k())
    siz = frame.index(b"\xff\x51")
    struct.pack_into(">II", frame, siz + 6, HUGE, HUGE)
    struct.pack_into(">II", frame, siz + 22, HUGE, HUGE)
    return bytes(frame)


def j2k_tiles() -> bytes:
    """65535² in tiles of one pixel: four thousand million of them."""
    frame = bytearray(j2k_huge())
    struct.pack_into(">II", frame, frame.index(b"\xff\x51") + 22, 1, 1)
    return bytes(frame)


def jpeg_ls_sound() -> bytes:
    """A sound JPEG-LS frame."""
    return bytes(jpeg_ls.encode(_pixels()).tobytes())


def jpeg_ls_huge() -> bytes:
    """Its SOF55 claims 65535 × 65535."""
    return _with_size(jpeg_ls_sound(), b"\xff\xf7")


def jpeg_huge() -> bytes:
    """Headers of a 12-bit JPEG that claims 65535 × 65535, and no more than a few bytes of data."""
    tables = b"\xff\xdb" + struct.pack(">HB", 67, 0) + bytes([1]) * 64
    codes = bytes([0, 1, *[0] * 14]) + bytes([0])
    huffman = b"".join(b"\xff\xc4" + struct.pack(">HB", 3 + len(codes), kind) + codes for kind in (0x00, 0x10))
    frame = b"\xff\xc1" + struct.pack(">HBHHB", 11, 12, HUGE, HUGE, 1) + bytes([1, 0x11, 0])
    scan = b"\xff\xda" + struct.pack(">HB", 8, 1) + bytes([1, 0x00, 0, 63, 0])
    return b"\xff\xd8" + tables + frame + huffman + scan + bytes(200) + b"\xff\xd9"


def _with_size(frame: bytes, marker: bytes) -> bytes:
    changed = bytearray(frame)
    struct.pack_into(">HH", changed, changed.index(marker) + 5, HUGE, HUGE)
    return bytes(changed)


def rle() -> bytes:
    """Two segments (PS3.5 G.5) of repeat runs: 10 kB that unpack to 640 kB."""
    segment = b"\x81\x07" * 2500
    return struct.pack("<16I", 2, 64, 64 + len(segment), *[0] * 13) + segment * 2


def rle_segments() -> bytes:
    """A header that claims four thousand million segments."""
    return struct.pack("<16I", 0xFFFFFFFF, *[64] * 15) + b"\x81\x07" * 500


def frames(number: int, enhanced: bool) -> Builder:
    """NumberOfFrames says two thousand million; one frame of pixels is there."""

    def build(folder: Path) -> list[Path]:
        planes = stack()
        for ds in planes:
            ds.NumberOfFrames = number
            if enhanced:
                ds.SOPClassUID = ds.file_meta.MediaStorageSOPClassUID = EnhancedCTImageStorage
        return _write(folder, planes)

    return build


def nested(depth: int, explicit: bool = True) -> Builder:
    """Sequences in sequences."""

    def build(folder: Path) -> list[Path]:
        opening = b"\x40\x00\x75\x02" + (b"SQ\0\0" if explicit else b"") + b"\xff\xff\xff\xff" + b"\xfe\xff\x00\xe0\xff\xff\xff\xff"
        closing = b"\xfe\xff\x0d\xe0\0\0\0\0" + b"\xfe\xff\xdd\xe0\0\0\0\0"
        return _write(folder, _in(stack(), explicit), lambda whole: _before_pixels(whole, opening * depth + closing * depth))

    return build


def long_element(length: int, tag: bytes, explicit: bool = True) -> Builder:
    """An element whose length field says `length`; the file ends long before."""

    def build(folder: Path) -> list[Path]:
        header = tag + (b"OB\0\0" if explicit else b"") + struct.pack("<I", length)
        return _write(folder, _in(stack(), explicit), lambda whole: _before_pixels(whole, header))

    return build


def long_pixels(length: int) -> Builder:
    """PixelData whose length field says `length`."""

    def build(folder: Path) -> list[Path]:
        return _write(folder, stack(), lambda whole: _with_length(whole, length))

    return build


def _in(planes: list[FileDataset], explicit: bool) -> list[FileDataset]:
    for ds in planes:
        ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian if explicit else ImplicitVRLittleEndian
    return planes


def _before_pixels(whole: bytes, more: bytes) -> bytes:
    at = whole.rindex(b"\xe0\x7f\x10\x00")
    return whole[:at] + more + whole[at:]


def _with_length(whole: bytes, length: int) -> bytes:
    at = whole.rindex(b"\xe0\x7f\x10\x00OW\0\0") + 8
    return whole[:at] + struct.pack("<I", length) + whole[at + 4 :]


def deflated(claim: bool, zeros_mb: int) -> Builder:
    """A deflated data set (PS3.5 A.5): with `claim` its Rows and Columns say 65535, and so many MB of zeros stand before its pixels."""

    def build(folder: Path) -> list[Path]:
        planes = stack()
        for ds in planes:
            ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
            if claim:
                ds.Rows = ds.Columns = HUGE
        return _write(folder, planes, lambda whole: _deflate(whole, zeros_mb))

    return build


def _deflate(whole: bytes, zeros_mb: int) -> bytes:
    """The zeros are one megabyte, deflated once with a full flush and then repeated: no state goes from one to the next."""
    start = 144 + struct.unpack_from("<I", whole, 140)[0]
    at = whole.rindex(b"\xe0\x7f\x10\x00")
    meta = whole[:start].replace(b"1.2.840.10008.1.2.1\0", b"1.2.840.10008.1.2.1.99")
    grown = bytearray(meta)
    struct.pack_into("<I", grown, 140, len(meta) - 144)
    length = grown.index(b"1.2.840.10008.1.2.1.99") - 2
    struct.pack_into("<H", grown, length, 22)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    head = packer.compress(whole[start:at] + b"\x43\x00\x10\x10OB\0\0" + struct.pack("<I", zeros_mb << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    zeros = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return bytes(grown) + head + zeros * zeros_mb + packer.compress(whole[at:]) + packer.flush()


def offset_table(folder: Path) -> list[Path]:
    """A basic offset table that says it has a thousand million entries."""
    planes = stack()
    for ds in planes:
        _put_frame(ds, JPEG2000Lossless, j2k())
    return _write(folder, planes, lambda whole: _with_table(whole, 0xFFFFFFFC))


def _with_table(whole: bytes, length: int) -> bytes:
    at = whole.rindex(b"\xe0\x7f\x10\x00OB\0\0\xff\xff\xff\xff\xfe\xff\x00\xe0") + 16
    return whole[:at] + struct.pack("<I", length) + whole[at + 4 :]


def fragments(number: int) -> Builder:
    """One plane whose frame is cut into so many empty fragments."""

    def build(folder: Path) -> list[Path]:
        planes = stack()
        for index, ds in enumerate(planes):
            _put_frame(ds, JPEG2000Lossless, j2k())
            if index == VICTIM:
                ds.PixelData = b"\xfe\xff\x00\xe0\0\0\0\0" * (number + 1) + b"\xfe\xff\xdd\xe0\0\0\0\0"
        return _write(folder, planes)

    return build


BOMBS: Mapping[str, Builder] = {
    "native 46341²": native(OVER_INT32),
    "native 65535²": native(HUGE),
    "RLE, Rows 65535": compressed(RLELossless, rle),
    "RLE, Rows 46341": compressed(RLELossless, rle, OVER_INT32),
    "RLE that unpacks to 80 times its frame": one_of(RLELossless, rle, rle),
    "RLE, 4 thousand million segments": one_of(RLELossless, rle_segments, rle_segments),
    "J2K, Rows 65535": compressed(JPEG2000Lossless, j2k),
    "J2K, Rows and SIZ 65535": compressed(JPEG2000Lossless, j2k_huge),
    "J2K, SIZ 65535 but Rows not": one_of(JPEG2000Lossless, j2k, j2k_huge),
    "J2K, SIZ of 4 thousand million tiles": one_of(JPEG2000Lossless, j2k, j2k_tiles),
    "JPEG-LS, Rows 65535": compressed(JPEGLSLossless, jpeg_ls_sound),
    "JPEG-LS, Rows and SOF 65535": compressed(JPEGLSLossless, jpeg_ls_huge),
    "JPEG-LS, SOF 65535 but Rows not": one_of(JPEGLSLossless, jpeg_ls_sound, jpeg_ls_huge),
    "JPEG, Rows and SOF 65535": compressed(JPEGExtended12Bit, jpeg_huge),
    "JPEG, SOF 65535 but Rows not": one_of(JPEGExtended12Bit, jpeg_huge, jpeg_huge),
    "deflated, Rows 65535": deflated(True, 0),
    "deflated, 600 MB of zeros": deflated(False, 600),
    "classic, 2³¹ − 1 frames": frames(2**31 - 1, False),
    "enhanced, 2³¹ − 1 frames": frames(2**31 - 1, True),
    "10,000 levels, explicit": nested(10_000),
    "10,000 levels, implicit": nested(10_000, explicit=False),
    "a private element of 3 GB": long_element(3_000_000_000, b"\x43\x00\x10\x10"),
    "a private element of 3 GB, implicit": long_element(3_000_000_000, b"\x43\x00\x10\x10", explicit=False),
    "PixelData of 3 GB": long_pixels(3_000_000_000),
    "a thousand million offsets": offset_table,
    "a hundred thousand empty fragments": fragments(100_000),
}
