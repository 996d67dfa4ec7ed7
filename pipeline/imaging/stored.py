"""How the pixels of one file are stored, and whether they can be what the file claims: checked against its length before memory is taken."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydicom.uid import HTJ2K, JPEG2000, UID, ExplicitVRBigEndian, JPEGBaseline8Bit, JPEGExtended12Bit, JPEGLSNearLossless

from pipeline.errors import BadInput, Permanent
from pipeline.imaging.codestream import loses
from pipeline.imaging.header import ENCAPSULATED, Header

MOST_PIXELS = 4096 * 4096  # of one frame; photon-counting CT has 2048²
VOXELS_PER_BYTE = 1000  # of a compressed file: an even slice in JPEG 2000 comes to some hundreds
ALWAYS_PLAUSIBLE = 4 * 1024 * 1024
MAX_VOXELS = 1_000_000_000
MAY_LOSE = frozenset({JPEG2000, HTJ2K, JPEGLSNearLossless, JPEGBaseline8Bit, JPEGExtended12Bit})
BEGINNING = 1 << 14  # bytes in which a bit stream says how it was made
NEXT = "send the series again, or have it checked at its sender"


@dataclass(frozen=True, slots=True)
class Stored:
    """Pixel data of one file: `frames` images of `rows` × `columns` stored values."""

    path: Path
    syntax: UID
    data_at: int  # where the data set begins in the file
    offset: int  # of the pixel data's value, after inflation
    file_bytes: int
    frames: int
    rows: int
    columns: int
    samples: int
    photometric: str
    bits_allocated: int
    bits_stored: int
    high_bit: int
    signed: bool
    lossy: bool

    @property
    def compressed(self) -> bool:
        """Each frame is a bit stream of its own."""
        return bool(self.syntax.is_encapsulated)

    @property
    def big_endian(self) -> bool:
        """Stored values have their high byte first."""
        return self.syntax == ExplicitVRBigEndian

    @property
    def frame_bytes(self) -> int:
        """Bytes of one uncompressed frame."""
        return self.rows * self.columns * self.samples * self.bits_allocated // 8

    @property
    def lowest(self) -> int:
        """The lowest value that the stored bits can hold."""
        return -(1 << (self.bits_stored - 1)) if self.signed else 0

    @property
    def highest(self) -> int:
        """The highest value that the stored bits can hold."""
        return (1 << (self.bits_stored - self.signed)) - 1


def stored(header: Header, path: Path) -> Stored | None:
    """The pixels that a header announces; None where the object has none. Raises BadInput where what it claims cannot be."""
    if not header.pixels_at or header.whole("Rows", "H") is None:
        return None
    found = Stored(
        path=path,
        syntax=header.syntax,
        data_at=header.data_at,
        offset=header.pixels_at,
        file_bytes=header.file_bytes,
        frames=max(1, header.whole("NumberOfFrames") or 1),
        rows=_count(header, "Rows"),
        columns=_count(header, "Columns"),
        samples=header.whole("SamplesPerPixel", "H") or 1,
        photometric=header.text("PhotometricInterpretation"),
        bits_allocated=_count(header, "BitsAllocated"),
        bits_stored=(bits := header.whole("BitsStored", "H") or _count(header, "BitsAllocated")),
        high_bit=bits - 1 if (high := header.whole("HighBit", "H")) is None else high,
        signed=header.whole("PixelRepresentation", "H") == 1,
        lossy=_is_lossy(header, path),
    )
    _refuse_odd_depth(found)
    _refuse_claims(found, header.pixels_bytes)
    return found


def refuse_volume(images: int, rows: int, columns: int, limit: int) -> None:
    """Raises Permanent where a volume is larger than the site allows."""
    if (voxels := images * rows * columns) > limit:
        raise Permanent(f"the series claims {images} images of {rows} × {columns}, {voxels} voxels; CTREPORT_IMAGING_MAX_VOXELS allows {limit}")


def _count(header: Header, keyword: str) -> int:
    value = header.whole(keyword, "H")
    if value is None or value < 1:
        raise BadInput(f"{keyword} is {value} where pixels are announced; {NEXT}")
    return value


def _is_lossy(header: Header, path: Path) -> bool:
    """By LossyImageCompression (PS3.3 C.7.6.1.1.5), a derivation that names it, or what the bit stream itself says where its syntax allows both."""
    told = header.text("LossyImageCompression")
    by_method = bool(header.text("LossyImageCompressionMethod")) or "lossy" in header.text("DerivationDescription").lower().replace("lossless", "")
    if told == "01" or (told != "00" and by_method):
        return True
    if header.syntax not in MAY_LOSE:
        return False
    with path.open("rb") as file:
        file.seek(header.pixels_at)
        return loses(file.read(BEGINNING), header.syntax)


def _refuse_odd_depth(found: Stored) -> None:
    if found.bits_allocated not in (8, 16, 32) or not 0 < found.bits_stored <= found.bits_allocated:
        raise BadInput(f"BitsAllocated {found.bits_allocated} with BitsStored {found.bits_stored} is no depth that CT images have; {NEXT}")
    if not found.bits_stored - 1 <= found.high_bit < found.bits_allocated:
        raise BadInput(f"HighBit {found.high_bit} does not fit BitsAllocated {found.bits_allocated} and BitsStored {found.bits_stored}; {NEXT}")


def _refuse_claims(found: Stored, claimed_bytes: int) -> None:
    """A file that claims more pixels than its bytes can hold is refused before anything is allocated."""
    pixels = found.rows * found.columns
    size = f"{found.frames} frame(s) of {found.rows} × {found.columns} in a file of {found.file_bytes} bytes"
    if pixels > MOST_PIXELS:
        raise BadInput(f"{size}: no CT image is larger than {MOST_PIXELS} pixels; {NEXT}")
    if (claimed_bytes == ENCAPSULATED) != found.compressed:
        raise BadInput(f"{size}: the length of its pixel data does not fit its transfer syntax; {NEXT}")
    if found.compressed or found.syntax.is_deflated:
        if found.frames > found.file_bytes or pixels * found.frames > max(ALWAYS_PLAUSIBLE, VOXELS_PER_BYTE * found.file_bytes):
            raise BadInput(f"{size}: more than any compression gives; {NEXT}")
    elif found.offset + max(found.frames * found.frame_bytes, claimed_bytes - 1) > found.file_bytes:
        raise BadInput(f"{size}: its pixels are cut short; {NEXT}")
    if not found.compressed and claimed_bytes < found.frames * found.frame_bytes:
        raise BadInput(f"{size}, but its pixel data says {claimed_bytes} bytes; {NEXT}")
