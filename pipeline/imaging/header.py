"""The header of one image file: read once, element by element, up to the pixels, and never more bytes than the file has."""

from __future__ import annotations

import math
import os
import struct
import warnings
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any

from pydicom import DataElement, Dataset
from pydicom.datadict import dictionary_VR, tag_for_keyword
from pydicom.dataelem import RawDataElement
from pydicom.filereader import data_element_generator
from pydicom.sequence import Sequence as Items
from pydicom.tag import BaseTag, Tag
from pydicom.uid import UID, DeflatedExplicitVRLittleEndian, ExplicitVRBigEndian, ImplicitVRLittleEndian

from pipeline.errors import UnreadableDicom

PIXEL_DATA = int(Tag("PixelData"))
PIXEL_GROUP = PIXEL_DATA >> 16
STEPS = (1 << 14, 1 << 18, 1 << 26)  # how much is read until the pixels are found; no real header is longer than 64 MiB
DEFLATED_STEPS = (1 << 16, 1 << 22)  # after inflation, where a few bytes may become very many
ENCAPSULATED = 0xFFFFFFFF
GONE = "a file of the series cannot be read"
NEXT = "`ctreport verify` tells whether the archive changed it; otherwise mend the sender and send it again"
BINARY: Mapping[str, str] = {"US": "H", "SS": "h", "UL": "L", "SL": "l", "FD": "d", "FL": "f"}

# What pydicom raises, in its many ways, on bytes that are no data set.
DAMAGED = (
    RecursionError,
    ValueError,
    EOFError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    NotImplementedError,
    OverflowError,
    OSError,
    struct.error,
)

# All that is ever asked of a header. The rest is let go at once: of a large series it would be a hundred thousand objects.
KEPT = frozenset(
    int(Tag(keyword))
    for keyword in (
        *("SpecificCharacterSet", "ImageType", "FrameType", "SOPClassUID", "SOPInstanceUID", "Modality", "SeriesInstanceUID", "SeriesNumber"),
        *("SeriesDescription", "DerivationDescription", "VolumeBasedCalculationTechnique", "FrameOfReferenceUID", "StackID"),
        *("InstanceNumber", "AcquisitionNumber", "FrameAcquisitionNumber", "TemporalPositionIndex", "TemporalPositionIdentifier"),
        *("NominalPercentageOfCardiacPhase", "TriggerTime", "AcquisitionTime", "AcquisitionDateTime", "FrameAcquisitionDateTime", "ContentTime"),
        *("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "SliceThickness", "NumberOfFrames"),
        *("Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation", "BitsAllocated", "BitsStored", "HighBit", "PixelRepresentation"),
        *("RescaleSlope", "RescaleIntercept", "RescaleType", "ModalityLUTSequence", "PixelPaddingValue", "PixelPaddingRangeLimit"),
        *("ModalityLUTType", "LUTDescriptor", "LUTData", "LossyImageCompression", "LossyImageCompressionMethod"),
        *("SharedFunctionalGroupsSequence", "PerFrameFunctionalGroupsSequence", "PatientAge", "PatientSex", "KVP", "ConvolutionKernel"),
        *("Exposure", "ExposureInmAs", "ExposureInuAs", "ContrastBolusAgent", "ContrastBolusAgentAdministered"),
        *("ContrastBolusUsageSequence", "ContrastBolusAgentSequence"),
    )
)

Element = RawDataElement | DataElement


@dataclass(frozen=True, slots=True)
class Header:
    """Elements before the pixels, undecoded, and where the pixels begin. Elements that do not make sense read as absent."""

    elements: Mapping[int, Element]
    syntax: UID
    file_bytes: int
    pixels_at: int = 0  # offset of the pixel data's value, after inflation where the file is deflated; 0: there is none
    pixels_bytes: int = 0  # as the header claims; ENCAPSULATED where it leaves that open
    data_at: int = 0  # offset of the data set in the file: what stands before it is never deflated

    def with_elements(self, more: Mapping[int, Element]) -> Header:
        """The same file, with some elements added or replaced: the functional groups of one frame."""
        return replace(self, elements={**self.elements, **more})

    def texts(self, keyword: str) -> tuple[str, ...]:
        """Values of a text element, stripped; () when it is absent."""
        value = self._value(keyword)
        if value is None:
            return ()
        if isinstance(value, bytes):
            return tuple(part.strip(" \0") for part in value.decode("latin-1").split("\\")) if value.strip(b" \0") else ()
        several = value if isinstance(value, list | tuple) or (hasattr(value, "__iter__") and not isinstance(value, str)) else [value]
        return tuple(str(part).strip(" \0") for part in several)

    def text(self, keyword: str) -> str:
        """The whole text of an element; empty when it is absent."""
        return "\\".join(self.texts(keyword))

    def numbers(self, keyword: str, form: str = "") -> tuple[float, ...]:
        """Finite numbers of a text or binary element; `form` is the struct code where neither file nor dictionary tells US from SS. () when absent or
        no numbers."""
        try:
            found = self._binary(keyword, form) or tuple(float(part) for part in self.texts(keyword))
        except (ValueError, struct.error):
            return ()
        return found if all(map(math.isfinite, found)) else ()

    def number(self, keyword: str, form: str = "") -> float | None:
        """The first number of an element."""
        return next(iter(self.numbers(keyword, form)), None)

    def whole(self, keyword: str, form: str = "") -> int | None:
        """The first number, where it is whole."""
        value = self.number(keyword, form)
        return int(value) if value is not None and value == int(value) else None

    def items(self, keyword: str) -> list[Dataset]:
        """Items of a sequence; [] when it is absent. Raises UnreadableDicom where it cannot be parsed."""
        tag = Tag(keyword)
        if tag not in self.elements:
            return []
        try:
            value = Dataset({tag: self.elements[tag]})[tag].value
        except DAMAGED as error:
            raise UnreadableDicom(f"{keyword} of {GONE.removeprefix('a ')} ({type(error).__name__}); {NEXT}") from error
        return list(value) if isinstance(value, Items) else []

    def _value(self, keyword: str) -> Any:
        element = self.elements.get(tag_for_keyword(keyword) or 0)
        return None if element is None else element.value

    def _binary(self, keyword: str, form: str) -> tuple[float, ...]:
        element = self.elements.get(tag_for_keyword(keyword) or 0)
        if not isinstance(element, RawDataElement) or not element.value:
            return ()
        vr = dictionary_VR(element.tag) if element.VR in (None, "UN") else str(element.VR)
        code = form if vr in ("OW", "OB") or " or " in vr else BINARY.get(vr, "")
        if form in ("h", "H") and code in ("h", "H"):
            code = form  # US or SS: the sender's VR is often wrong, what the pixels are decides
        if not code:
            return ()
        order = "<" if element.is_little_endian else ">"
        return tuple(struct.unpack(f"{order}{len(element.value) // struct.calcsize('<' + code)}{code}", element.value))


def elements_of(items: Dataset) -> dict[int, Element]:
    """The elements of one item that are ever asked for, as they stand."""
    return {int(tag): items.get_item(tag) for tag in items.keys() if int(tag) in KEPT}  # noqa: SIM118  # iterating a Dataset decodes its values


def read_header(path: Path) -> Header:
    """The header of a file. Raises UnreadableDicom where it is none or is damaged."""
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            head = b""
            for step in STEPS:
                head += file.read(step - len(head))
                if (found := _parsed(head, size, whole=len(head) >= size)) is not None:
                    return found
    except OSError as error:
        raise UnreadableDicom(f"{GONE} ({type(error).__name__}); {NEXT}") from error
    raise UnreadableDicom(f"{GONE}: its header is longer than {STEPS[-1] >> 20} MiB; {NEXT}")


def inflated(deflated: bytes, limit: int) -> bytes:
    """At most `limit` bytes of a deflated data set (PS3.5 A.5). Raises UnreadableDicom where it is damaged."""
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(deflated, limit)
    except zlib.error as error:
        raise UnreadableDicom(f"{GONE}: its deflated data set is damaged; {NEXT}") from error


def _parsed(head: bytes, size: int, *, whole: bool) -> Header | None:
    """The header that lies in the first bytes of a file; None where more bytes are needed."""
    if head[128:132] != b"DICM":
        raise UnreadableDicom(f"{GONE}: it is no DICOM file; {NEXT}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about character sets of texts that nobody reads here
            return _elements(head, size, whole=whole)
    except DAMAGED as error:
        if not whole:
            return None
        raise UnreadableDicom(f"{GONE}: its header is damaged ({type(error).__name__}); {NEXT}") from error


def _elements(head: bytes, size: int, *, whole: bool) -> Header | None:
    stream = BytesIO(head)
    stream.seek(132)
    meta = {e.tag: e for e in data_element_generator(stream, False, True, stop_when=lambda tag, *_: tag >> 16 != 2)}
    syntax = UID(_uid(meta.get(Tag("TransferSyntaxUID"))))
    if not syntax:
        raise UnreadableDicom(f"{GONE}: it does not say its transfer syntax; {NEXT}")
    start = stream.tell()
    if syntax != DeflatedExplicitVRLittleEndian:
        return _until_pixels(stream, syntax, size, whole=whole)
    for limit in DEFLATED_STEPS if whole or len(head) >= STEPS[-1] else ():
        data = inflated(head[start:], limit)
        stream = BytesIO(bytes(start) + data)
        stream.seek(start)
        if (found := _until_pixels(stream, syntax, size, whole=len(data) < limit)) is not None:
            return found
    if whole:
        raise UnreadableDicom(f"{GONE}: its header, inflated, is longer than {DEFLATED_STEPS[-1] >> 20} MiB; {NEXT}")
    return None


def _uid(element: Element | None) -> str:
    value = None if element is None else element.value
    return value.decode("ascii", "ignore").strip(" \0") if isinstance(value, bytes) else ""


def _until_pixels(stream: BytesIO, syntax: UID, size: int, *, whole: bool) -> Header | None:
    found: list[int] = []
    start = stream.tell()

    def at_pixels(tag: BaseTag, _: str | None, length: int) -> bool:
        if tag >> 16 == PIXEL_GROUP and int(tag) == PIXEL_DATA:
            found.extend((stream.tell(), length))
        return bool(found)

    implicit, little = syntax == ImplicitVRLittleEndian, syntax != ExplicitVRBigEndian
    elements: dict[int, Element] = {}
    last: Element | None = None
    for last in data_element_generator(stream, implicit, little, stop_when=at_pixels):
        if (tag := int(last.tag)) in KEPT:
            elements[tag] = last
    if found:
        return Header(elements, syntax, size, found[0], found[1], start)
    if not whole:
        return None
    if isinstance(last, RawDataElement) and last.length not in (ENCAPSULATED, len(last.value or b"")):
        raise UnreadableDicom(f"{GONE}: an element announces more bytes than there are; {NEXT}")
    return Header(elements, syntax, size)
