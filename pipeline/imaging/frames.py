"""One frame of a CT object and all that its header says of it: classic, Enhanced and Legacy Converted Enhanced CT alike."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydicom import Dataset

from pipeline import geometry
from pipeline.errors import BadInput, UnreadableDicom, Unsupported
from pipeline.geometry import Vector
from pipeline.imaging.header import DAMAGED, Element, Header, elements_of, read_header
from pipeline.imaging.stored import NEXT, Stored, stored

# Functional groups that hold groups of their own meaning: their elements are no attributes of the frame (PS3.3 C.7.6.16).
NOT_OF_THE_FRAME = frozenset({"ReferencedImageSequence", "DerivationImageSequence", "ConversionSourceAttributesSequence", "FrameAnatomySequence"})


@dataclass(frozen=True, slots=True)
class Rescale:
    """Stored value → HU (PS3.3 C.11.1): slope and intercept, or a table that begins at `first`."""

    slope: float
    intercept: float
    first: int = 0
    table: NDArray[np.int32] | None = None  # (N,)

    @property
    def whole(self) -> bool:
        """Whole numbers stay whole numbers."""
        return self.slope == int(self.slope) and self.intercept == int(self.intercept)


@dataclass(frozen=True, slots=True)
class Frame:
    """One slice. Positions in mm, patient LPS; `number` is 1-based within its file."""

    header: Header  # with its functional groups laid over those of the file
    pixels: Stored | None
    number: int
    sop_uid: str
    sop_class: str
    series_uid: str
    series_number: int | None
    modality: str
    image_type: tuple[str, ...]
    instance_number: int | None
    acquisition_number: int | None
    cosines: tuple[float, ...] | None
    position_mm: Vector | None
    spacing_mm: tuple[float, float] | None  # rows, columns
    rescale_type: str


def frames_of(path: Path) -> tuple[Frame, ...]:
    """Every frame of a file; an object without pixels has one frame without pixels. Raises UnreadableDicom or BadInput."""
    header = read_header(path)
    pixels = stored(header, path)
    per_frame = header.items("PerFrameFunctionalGroupsSequence")
    if not per_frame:
        count = 1 if pixels is None else pixels.frames
        return tuple(_frame(header, pixels, number) for number in range(1, count + 1))
    if pixels is not None and len(per_frame) != pixels.frames:
        raise BadInput(f"NumberOfFrames is {pixels.frames}, but functional groups stand for {len(per_frame)} frames; {NEXT}")
    shared = _groups(header.items("SharedFunctionalGroupsSequence")[:1])
    laid = header.with_elements(shared)
    return tuple(_frame(laid.with_elements(_groups([item])), pixels, number) for number, item in enumerate(per_frame, start=1))


def rescale_of(frame: Frame) -> Rescale:
    """How its stored values become HU. Raises Unsupported for values that are not HU, UnreadableDicom where they cannot be understood."""
    header = frame.header
    if items := header.items("ModalityLUTSequence"):
        return _table(items[0], frame)
    if frame.rescale_type not in ("", "HU", "US"):  # US: unspecified, which older CT scanners write for HU
        raise Unsupported(f"RescaleType 为 {frame.rescale_type}，不是 HU 值")
    slope, intercept = _meant(header, "RescaleSlope"), _meant(header, "RescaleIntercept")
    if slope == 0:
        raise UnreadableDicom(f"RescaleSlope is 0, by which no HU can be told; {NEXT}")
    return Rescale(1.0 if slope is None else slope, intercept or 0.0)


def _meant(header: Header, keyword: str) -> float | None:
    """One finite number, or None where the element is absent or empty."""
    numbers, texts = header.numbers(keyword), header.texts(keyword)
    if texts and len(numbers) != 1:
        raise UnreadableDicom(f"{keyword} is not one finite number, so that HU cannot be told; {NEXT}")
    return next(iter(numbers), None)


def padding_of(frame: Frame) -> tuple[int, int] | None:
    """Stored values that mean 'no tissue', from … to (PS3.3 C.7.5.1.1.2): PixelPaddingValue, or up to PixelPaddingRangeLimit."""
    signed = frame.pixels is not None and frame.pixels.signed
    first = frame.header.whole("PixelPaddingValue", "h" if signed else "H")
    if first is None:
        return None
    last = frame.header.whole("PixelPaddingRangeLimit", "h" if signed else "H")
    return (first, first) if last is None else (min(first, last), max(first, last))


def _groups(items: list[Dataset]) -> dict[int, Element]:
    """The elements inside the functional groups of one item, and the groups themselves, flat: as a classic image has them."""
    found: dict[int, Element] = {}
    try:
        for group in (group for item in items for group in item):
            if group.VR == "SQ" and group.keyword not in NOT_OF_THE_FRAME and group.value:
                found |= elements_of(group.value[0])
    except DAMAGED as error:
        raise UnreadableDicom(f"the functional groups of a multi-frame object are damaged ({type(error).__name__}); {NEXT}") from error
    return found


def _either(first: int | None, second: int | None) -> int | None:
    return second if first is None else first


def _frame(header: Header, pixels: Stored | None, number: int) -> Frame:
    cosines, position, spacing = (header.numbers(name) for name in ("ImageOrientationPatient", "ImagePositionPatient", "PixelSpacing"))
    return Frame(
        header=header,
        pixels=pixels,
        number=number,
        sop_uid=header.text("SOPInstanceUID"),
        sop_class=header.text("SOPClassUID"),
        series_uid=header.text("SeriesInstanceUID"),
        series_number=header.whole("SeriesNumber"),
        modality=header.text("Modality"),
        image_type=tuple(word.upper() for word in header.texts("FrameType") or header.texts("ImageType")),
        instance_number=header.whole("InstanceNumber"),
        acquisition_number=_either(header.whole("FrameAcquisitionNumber", "H"), header.whole("AcquisitionNumber")),
        cosines=geometry.orthonormal(cosines) if geometry.is_orientation(cosines) else None,
        position_mm=(position[0], position[1], position[2]) if len(position) == 3 else None,
        spacing_mm=(spacing[0], spacing[1]) if len(spacing) == 2 and min(spacing) > 0 else None,
        rescale_type=header.text("RescaleType").upper(),
    )


def _table(item: Dataset, frame: Frame) -> Rescale:
    """A Modality LUT (PS3.3 C.11.1.1.1). Its first mapped value and its entries are signed where the pixels are."""
    lut = Header(elements_of(item), frame.header.syntax, 0)
    if (unit := lut.text("ModalityLUTType").upper()) != "HU":
        raise Unsupported(f"ModalityLUTType 为 {unit or '空'}，不是 HU 值")
    signed = frame.pixels is not None and frame.pixels.signed
    description = lut.numbers("LUTDescriptor", "H")
    entries = np.asarray(lut.numbers("LUTData", "H"), dtype=np.int32)
    first = lut.numbers("LUTDescriptor", "h")[1] if signed and description else description[1] if len(description) == 3 else 0
    if len(description) != 3 or len(entries) < (int(description[0]) or 65536):
        raise UnreadableDicom(f"the Modality LUT has {len(entries)} entries, not what its descriptor says; {NEXT}")
    return Rescale(1.0, 0.0, int(first), entries)
