"""The raw elements of one data set that filing needs, found by pydicom and converted here: an odd value costs a flag, never the image.

The work is bounded whatever the bytes: at most HEADER_BYTES are looked at, and ELEMENTS elements.
"""

from __future__ import annotations

import contextlib
import math
import re
import struct
import zlib
from dataclasses import dataclass, field
from datetime import date
from io import BytesIO

from pydicom.datadict import tag_for_keyword
from pydicom.dataelem import DataElement, RawDataElement
from pydicom.filereader import data_element_generator, read_sequence
from pydicom.tag import BaseTag
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ImplicitVRLittleEndian

from pipeline.dicom.identity import Repaired, repair
from pipeline.errors import UnreadableDicom

HEADER_BYTES = 8 << 20
ELEMENTS = 20_000
UNDEFINED_LENGTH = 0xFFFF_FFFF
ITEM_GROUP = 0xFFFE
PIXELS = frozenset({0x7FE0_0008, 0x7FE0_0009, 0x7FE0_0010})
LAST = 0x7FE0_0001  # nothing that filing needs stands after it (a retired group length may stand before)
FRAMES = frozenset({0x5200_9229, 0x5200_9230})  # functional groups: long to walk, and not needed
KEYWORDS = (
    *("SpecificCharacterSet", "ImageType", "SOPClassUID", "SOPInstanceUID", "StudyDate", "AccessionNumber", "Modality", "StationName"),
    *("StudyDescription", "SeriesDescription", "PatientName", "PatientID", "IssuerOfPatientID", "PatientBirthDate", "PatientSex"),
    *("BodyPartExamined", "SliceThickness", "ConvolutionKernel", "StudyInstanceUID", "SeriesInstanceUID", "InstanceNumber"),
    *("ImagePositionPatient", "ImageOrientationPatient", "SamplesPerPixel", "NumberOfFrames", "Rows", "Columns"),
    *("BitsAllocated", "BitsStored", "HighBit", "PhotometricInterpretation"),
    *("RequestedProcedureDescription", "RequestAttributesSequence", "ReasonForTheRequestedProcedure", "RequestedProcedurePriority"),
)
TAGS: dict[str, int] = {keyword: tag for keyword in KEYWORDS if (tag := tag_for_keyword(keyword)) is not None}
# What pydicom raises on bytes that are no DICOM (warnings where they are errors).
FAULTS: tuple[type[Exception], ...] = (
    *(struct.error, OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError),
    *(NotImplementedError, MemoryError, AssertionError, Warning),
)
_UID = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*))*")


@dataclass
class Elements:
    """What one walk over a data set found. Getters add to `flags` what is there and cannot be read."""

    implicit: bool
    little_endian: bool
    found: dict[int, RawDataElement | DataElement] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    pixels: tuple[int, int] | None = None  # first byte of the value, declared length

    def raw(self, keyword: str) -> bytes:
        """The value's bytes; empty when absent or a sequence."""
        element = self.found.get(TAGS[keyword])
        value = element.value if element is not None else None
        return value if isinstance(value, bytes) else b""

    def strings(self, keyword: str) -> tuple[str, ...]:
        """The values of an ASCII element, stripped; none for an empty one."""
        text = self.raw(keyword).decode("ascii", "replace").strip(" \x00")
        return tuple("".join(c for c in part if c.isprintable()).strip()[:64] for part in text.split("\\")) if text else ()

    def code(self, keyword: str) -> str:
        """The first value of an ASCII element; empty when absent."""
        return next(iter(self.strings(keyword)), "")

    def text(self, keyword: str, longest: int = 256) -> str:
        """Free text in the declared character set, repaired."""
        return self.repaired(self.raw(keyword), name=False).text[:longest]

    def repaired(self, raw: bytes, name: bool) -> Repaired:
        """A value's bytes through the repair of character sets."""
        return repair(raw, self.raw("SpecificCharacterSet").decode("ascii", "replace"), name)

    def uid(self, keyword: str, flag: str) -> str:
        """A UID, or empty when it is absent or cannot serve as one (over 64 characters, several, blanks inside, not ASCII)."""
        value = self.raw(keyword).decode("ascii", "replace").strip(" \x00")
        if not value:
            return ""
        if len(value) > 64 or "\\" in value or not all("!" <= c <= "~" for c in value):
            self.flags.add(f"{flag}-unreadable")
            return ""
        if not _UID.fullmatch(value):
            self.flags.add(f"{flag}-malformed")
        return value

    def day(self, keyword: str, flag: str) -> date | None:
        """A DA value."""
        value = self.code(keyword).replace(".", "").replace("-", "")
        if not value:
            return None
        if len(value) == 8 and value.isdigit():
            with contextlib.suppress(ValueError):
                return date(int(value[:4]), int(value[4:6]), int(value[6:]))
        self.flags.add(f"{flag}-unreadable")
        return None

    def whole(self, keyword: str, flag: str) -> int | None:
        """An IS value that fits 32 bits; an empty one is no fault."""
        value = self.code(keyword)
        if not value:
            return None
        if re.fullmatch(r"[+-]?\d{1,10}", value) and -(2**31) <= int(value) < 2**31:
            return int(value)
        self.flags.add(f"{flag}-unreadable")
        return None

    def numbers(self, keyword: str, count: int, flag: str) -> tuple[float, ...] | None:
        """Exactly `count` finite DS values."""
        values = self.strings(keyword)
        if not values:
            return None
        try:
            found = tuple(float(value) for value in values)
        except ValueError:
            found = ()
        if len(found) == count and all(math.isfinite(value) and abs(value) < 1e9 for value in found):
            return found
        self.flags.add(f"{flag}-unreadable")
        return None

    def unsigned(self, keyword: str) -> int | None:
        """A US value; also one written as UL."""
        raw, order = self.raw(keyword), "<" if self.little_endian else ">"
        if len(raw) not in (2, 4):
            return None
        return int(struct.unpack(f"{order}{'H' if len(raw) == 2 else 'L'}", raw)[0])

    def items(self, keyword: str) -> tuple[Elements, ...]:
        """The items of a sequence; none when it cannot be read. They inherit the character set."""
        element = self.found.get(TAGS[keyword])
        value = element.value if element is not None else None
        try:
            if isinstance(value, bytes):
                value = read_sequence(BytesIO(value), self.implicit, self.little_endian, len(value), "iso8859")
            return tuple(self._item({int(tag): item.get_item(tag) for tag in item.keys()}) for item in value or ())  # noqa: SIM118  # a Dataset iterates over values
        except FAULTS:
            self.flags.add("sequence-unreadable")
            return ()

    def _item(self, found: dict[int, RawDataElement | DataElement]) -> Elements:
        charset = TAGS["SpecificCharacterSet"]
        inherited = {charset: self.found[charset]} if charset in self.found else {}
        return Elements(self.implicit, self.little_endian, inherited | found, self.flags)


def read_elements(data: bytes, transfer_syntax: str) -> Elements:
    """Walk a data set up to its pixels. Raises UnreadableDicom when it cannot be inflated or names no study either way of reading it."""
    big_endian = transfer_syntax == ExplicitVRBigEndian
    implicit = transfer_syntax == ImplicitVRLittleEndian
    data, complete = _inflate(data) if transfer_syntax == DeflatedExplicitVRLittleEndian else (data, True)
    declared = _walk(data, implicit, not big_endian, complete)
    if TAGS["StudyInstanceUID"] in declared.found:
        return declared
    other = _walk(data, not implicit, True, complete)
    if TAGS["StudyInstanceUID"] in other.found:
        other.flags.add("encoding-differs")
        return other
    return declared


def _inflate(data: bytes) -> tuple[bytes, bool]:
    """The head of a deflated data set (PS3.5 A.5), and whether it is all of it. Bounded: a bomb inflates to HEADER_BYTES."""
    inflater = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        return inflater.decompress(data, HEADER_BYTES), inflater.eof
    except zlib.error as error:
        raise UnreadableDicom("the deflated data set cannot be inflated; send it again or mend the sender") from error


def _walk(data: bytes, implicit: bool, little_endian: bool, complete: bool) -> Elements:
    """One pass. A fault ends it and keeps what was found so far."""
    elements = Elements(implicit, little_endian)
    stream = BytesIO(data if len(data) <= HEADER_BYTES else data[:HEADER_BYTES])
    seen, last = 0, -1

    def stop(tag: BaseTag, vr: str | None, length: int) -> bool:
        nonlocal seen, last
        seen, start = seen + 1, stream.tell()
        if tag <= last:
            elements.flags.add("tag-order")
        last = int(tag)
        if complete and length != UNDEFINED_LENGTH and start + length > len(data):
            elements.flags.add("data-set-truncated")
        if vr is None and not implicit and tag.group != ITEM_GROUP:
            elements.flags.add("encoding-differs")  # pydicom reads on as implicit
        if tag in PIXELS:
            elements.pixels = start, length
        if seen > ELEMENTS:
            elements.flags.add("too-many-elements")
        return tag >= LAST or tag in FRAMES or seen > ELEMENTS

    try:
        for element in data_element_generator(stream, implicit, little_endian, stop, specific_tags=list(TAGS.values())):
            elements.found.setdefault(int(element.tag), element)
    except FAULTS:
        elements.flags.add("header-damaged")
    return elements
