"""The raw elements of one data set that filing needs, converted here: an odd value costs a flag, never the image."""

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
from pydicom.dataset import Dataset
from pydicom.errors import InvalidDicomError
from pydicom.filereader import read_sequence
from pydicom.uid import DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ImplicitVRLittleEndian

from pipeline.dicom.identity import Repaired, repair
from pipeline.dicom.uids import Verdict, judged
from pipeline.dicom.walk import HEADER_BYTES, walk
from pipeline.errors import UnreadableDicom

KEYWORDS = (
    *("SpecificCharacterSet", "ImageType", "SOPClassUID", "SOPInstanceUID", "StudyDate", "AccessionNumber", "Modality", "StationName"),
    *("StudyDescription", "SeriesDescription", "PatientName", "PatientID", "IssuerOfPatientID", "PatientBirthDate", "PatientSex"),
    *("BodyPartExamined", "SliceThickness", "ConvolutionKernel", "StudyInstanceUID", "SeriesInstanceUID", "InstanceNumber"),
    *("SeriesNumber", "AcquisitionNumber", "TemporalPositionIdentifier", "KVP", "ProtocolName", "ContrastBolusAgent", "ContrastBolusAgentSequence"),
    *("ImagePositionPatient", "ImageOrientationPatient", "SamplesPerPixel", "NumberOfFrames", "Rows", "Columns"),
    *("BitsAllocated", "BitsStored", "HighBit", "PhotometricInterpretation", "LossyImageCompression"),
    *("RequestedProcedureDescription", "RequestAttributesSequence", "ReasonForTheRequestedProcedure", "RequestedProcedurePriority"),
    "RequestingService",
    *("ConceptNameCodeSequence", "CodeValue", "CodingSchemeDesignator", "ExposureDoseSequence"),
)
TAGS: dict[str, int] = {keyword: tag for keyword in KEYWORDS if (tag := tag_for_keyword(keyword)) is not None}
WANTED = frozenset(TAGS.values())
LONGEST_TEXT, LONGEST_CODES = 32 << 10, 4 << 10  # bytes of a value that are looked at; the longest legal texts that are shown are shorter
SEQUENCE_BYTES = 256 << 10  # a request's items take some hundred bytes; making objects of a whole header of items takes seconds
# What pydicom raises on bytes that are no DICOM (warnings where they are errors).
FAULTS: tuple[type[Exception], ...] = (
    *(struct.error, OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError),
    *(NotImplementedError, MemoryError, AssertionError, Warning, InvalidDicomError, zlib.error),
)


@dataclass
class Elements:
    """What one walk over a data set found. Getters add to `flags` what is there and cannot be read."""

    implicit: bool
    little_endian: bool
    found: dict[int, bytes] = field(default_factory=dict)
    flags: set[str] = field(default_factory=set)
    guesses: set[str] = field(default_factory=set)  # keywords of free text whose character set had to be guessed
    pixels: tuple[int, int] | None = None  # first byte of the value, declared length

    def raw(self, keyword: str) -> bytes:
        """The value's bytes; empty when absent."""
        return self.found.get(TAGS[keyword], b"")

    @property
    def charset(self) -> str:
        """SpecificCharacterSet as found."""
        return self.raw("SpecificCharacterSet")[:LONGEST_CODES].decode("ascii", "replace").strip(" \x00")

    def strings(self, keyword: str) -> tuple[str, ...]:
        """The values of an ASCII element, stripped; none for an empty one."""
        text = self.raw(keyword)[:LONGEST_CODES].decode("ascii", "replace").strip(" \x00")
        if not text.isprintable():
            text = "".join(c for c in text if c.isprintable())
        return tuple(part.strip()[:64] for part in text.split("\\")) if text else ()

    def code(self, keyword: str) -> str:
        """The first value of an ASCII element; empty when absent."""
        values = self.strings(keyword)
        return values[0] if values else ""

    def text(self, keyword: str, longest: int = 256) -> str:
        """Free text in the declared character set, repaired."""
        found = self.repaired(keyword, name=False)
        if found.guess:
            self.guesses.add(keyword)
        return found.text[:longest]

    def repaired(self, keyword: str, name: bool) -> Repaired:
        """A value through the repair of character sets."""
        return repair(self.raw(keyword)[:LONGEST_TEXT], self.charset, name)

    def uid(self, keyword: str, flag: str) -> str:
        """A UID, or empty when it is not usable (see `uids`)."""
        value, verdict = judged(self.raw(keyword).decode("ascii", "replace"))
        if verdict in (Verdict.MALFORMED, Verdict.UNREADABLE):
            self.flags.add(f"{flag}-{verdict.value}")
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

    def number(self, keyword: str, flag: str) -> float | None:
        """One finite DS value."""
        found = self.numbers(keyword, 1, flag)
        return None if found is None else found[0]

    def unsigned(self, keyword: str) -> int | None:
        """A US value; also one written as UL."""
        raw, order = self.raw(keyword), "<" if self.little_endian else ">"
        if len(raw) not in (2, 4):
            return None
        return int(struct.unpack(f"{order}{'H' if len(raw) == 2 else 'L'}", raw)[0])

    def items(self, keyword: str) -> tuple[Elements, ...]:
        """The items of a sequence; none when it cannot be read. They inherit the character set."""
        value = self.raw(keyword)
        if len(value) > SEQUENCE_BYTES:
            self.flags.add("sequence-unreadable")
            return ()
        try:
            return tuple(self._item(item) for item in read_sequence(BytesIO(value), self.implicit, self.little_endian, len(value), "iso8859"))
        except FAULTS:
            self.flags.add("sequence-unreadable")
            return ()

    def _item(self, item: Dataset) -> Elements:
        charset = TAGS["SpecificCharacterSet"]
        found = {charset: self.found[charset]} if charset in self.found else {}
        for tag in item.keys() & WANTED:
            value = item.get_item(tag).value
            if isinstance(value, bytes):  # an inner sequence without a length is parsed already, and not needed
                found[tag] = value
        return Elements(self.implicit, self.little_endian, found, self.flags, self.guesses)


def read_elements(head: bytes, transfer_syntax: str, size: int | None = None) -> Elements:
    """Walk a data set up to its pixels. `head` is its beginning, `size` its whole length (None: head is all of it).

    Raises UnreadableDicom when it cannot be inflated or names no study either way of reading it.
    """
    big_endian, implicit = transfer_syntax == ExplicitVRBigEndian, transfer_syntax == ImplicitVRLittleEndian
    total: int | None = len(head) if size is None else size
    if transfer_syntax == DeflatedExplicitVRLittleEndian:
        head, whole = _inflate(head)
        total = len(head) if whole else None
    declared = _elements(head, implicit, not big_endian, total)
    if TAGS["StudyInstanceUID"] in declared.found:
        return declared
    other = _elements(head, not implicit, True, total)
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


def _elements(data: bytes, implicit: bool, little_endian: bool, total: int | None) -> Elements:
    walked = walk(data, implicit, little_endian, WANTED, total)
    return Elements(implicit, little_endian, walked.found, walked.flags, pixels=walked.pixels)
