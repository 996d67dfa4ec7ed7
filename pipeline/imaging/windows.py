"""Windowing: values → 0…1 and 0…255 by the formulas of PS3.3 C.11.2.1.2 and C.11.2.1.3: named windows, and the file's own VOI."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom import Dataset

from pipeline.errors import BadInput

Values = NDArray[np.int16] | NDArray[np.float32]
LUT_BITS = range(8, 17)  # PS3.3 C.11.2.1.1: bits of an output value


def _refuse_nonsense(center: float, width: float, at_least: float) -> None:
    """Raises ValueError. LINEAR widths are at least 1 (C.11.2.1.2.1), those of the other functions above 0 (C.11.2.1.3)."""
    if not (math.isfinite(center) and math.isfinite(width)) or width < at_least or width <= 0:
        raise ValueError(f"a window of centre {center:g} and width {width:g}; a width is {'1 or more' if at_least else 'above 0'}")


@dataclass(frozen=True, slots=True)
class Window:
    """Centre (窗位) and width (窗宽) in HU, LINEAR (PS3.3 C.11.2.1.2.1). A width below 1 cannot be built."""

    name: str
    center_hu: float
    width_hu: float

    def __post_init__(self) -> None:
        _refuse_nonsense(self.center_hu, self.width_hu, at_least=1.0)

    def apply(self, hu: Values) -> NDArray[np.float32]:
        """HU of any shape → float32 in 0…1 of the same shape."""
        values = np.asarray(hu, dtype=np.float32)
        low = self.center_hu - 0.5 - (self.width_hu - 1) / 2
        if self.width_hu == 1:
            return np.asarray(values > low, dtype=np.float32)
        return np.asarray(np.clip((values - low) / (self.width_hu - 1), 0.0, 1.0), dtype=np.float32)


class VoiFunction(enum.StrEnum):
    """VOI LUT Function (0028,1056)."""

    LINEAR = "LINEAR"
    LINEAR_EXACT = "LINEAR_EXACT"
    SIGMOID = "SIGMOID"


@dataclass(frozen=True, slots=True)
class FileWindow:
    """One window of a file: centre, width, function, and the explanation as its name."""

    name: str
    center: float
    width: float
    function: VoiFunction

    def __post_init__(self) -> None:
        _refuse_nonsense(self.center, self.width, at_least=1.0 if self.function is VoiFunction.LINEAR else 0.0)

    def apply(self, hu: Values) -> NDArray[np.float32]:
        """Values of any shape → float32 in 0…1 of the same shape. LINEAR_EXACT: C.11.2.1.3.2, SIGMOID: C.11.2.1.3.1."""
        if self.function is VoiFunction.LINEAR:
            return Window(self.name, self.center, self.width).apply(hu)
        share = (np.asarray(hu, dtype=np.float32) - np.float32(self.center)) / np.float32(self.width)
        if self.function is VoiFunction.LINEAR_EXACT:
            return np.asarray(np.clip(share + 0.5, 0.0, 1.0), dtype=np.float32)
        return np.asarray(1.0 / (1.0 + np.exp(np.clip(-4.0 * share, -80.0, 80.0))), dtype=np.float32)


@dataclass(frozen=True)
class FileLut:
    """One item of the VOI LUT Sequence (PS3.3 C.11.2.1.1): values below the first get the first entry, values past the last the last."""

    name: str
    first: int
    entries: NDArray[np.float32]  # (N,) 0…1

    def apply(self, hu: Values) -> NDArray[np.float32]:
        """Values of any shape → float32 in 0…1 of the same shape."""
        index = np.clip(np.rint(np.asarray(hu, dtype=np.float64)).astype(np.int64) - self.first, 0, len(self.entries) - 1)
        return self.entries[index]


Voi = Window | FileWindow | FileLut

LUNG = Window("肺窗", -600, 1500)
MEDIASTINUM = Window("纵隔窗", 40, 350)
BONE = Window("骨窗", 450, 1500)
LIVER = Window("肝窗", 60, 150)
NAMED = (LUNG, MEDIASTINUM, BONE, LIVER)
ENCODER_WINDOWS = (LUNG, Window("细肺窗", -700, 600), MEDIASTINUM, Window("全窗", 0, 2000))


def to_gray(hu: Values, window: Voi) -> NDArray[np.uint8]:
    """Values of any shape → 0…255 of the same shape, rounded to the nearest shade."""
    return np.asarray(np.rint(window.apply(hu) * np.float32(255)), dtype=np.uint8)


def file_windows(ds: Dataset, frame: int = 1) -> tuple[FileLut | FileWindow, ...]:
    """The file's own VOI, look-up tables first, () where it has none; `frame` (1-based) counts in enhanced images, whose VOI stands in the
    Frame VOI LUT functional group (C.7.6.16.2.10). Raises BadInput with the value where a width or table makes no sense."""
    source = _frame_voi(ds, frame)
    try:
        return (*(_lut(item, number) for number, item in enumerate(source.get("VOILUTSequence") or (), 1)), *_windows(source))
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise BadInput(f"the file's own window cannot be used ({error}); use a named window instead") from error


def _frame_voi(ds: Dataset, frame: int) -> Dataset:
    groups = list(ds.get("PerFrameFunctionalGroupsSequence") or ())[frame - 1 : frame] + list(ds.get("SharedFunctionalGroupsSequence") or ())[:1]
    for group in groups:
        if items := group.get("FrameVOILUTSequence"):
            return items[0]  # type: ignore[no-any-return]  # an item of a sequence is a Dataset
    return ds


def _windows(source: Dataset) -> tuple[FileWindow, ...]:
    centers, widths = _values(source, "WindowCenter"), _values(source, "WindowWidth")
    if len(centers) != len(widths):
        raise ValueError(f"{len(centers)} WindowCenter but {len(widths)} WindowWidth")
    function = VoiFunction(str(source.get("VOILUTFunction") or VoiFunction.LINEAR).strip())
    names = [str(value) for value in _values(source, "WindowCenterWidthExplanation")]
    names += [""] * (len(centers) - len(names))
    return tuple(FileWindow(name, float(center), float(width), function) for name, center, width in zip(names, centers, widths, strict=False))


def _values(source: Dataset, keyword: str) -> Sequence[Any]:
    value = source.get(keyword)
    if value is None or value == "":
        return []
    return value if not isinstance(value, str) and isinstance(value, Sequence) else [value]


def _lut(item: Dataset, number: int) -> FileLut:
    count, first, bits = (int(value) for value in item.LUTDescriptor)
    count = count or 2**16
    if bits not in LUT_BITS:
        raise ValueError(f"VOI LUT {number} has entries of {bits} bits")
    data = _entries(item.LUTData, count, bits)
    if len(data) != count:
        raise ValueError(f"VOI LUT {number} promises {count} entries and has {len(data)}")
    return FileLut(str(item.get("LUTExplanation") or ""), first, data.astype(np.float32) / np.float32(2**bits - 1))


def _entries(data: Any, count: int, bits: int) -> NDArray[np.int64]:
    """LUT Data as numbers; as OW it is little endian, two bytes an entry, or one where eight bits are packed."""
    if isinstance(data, bytes):
        packed = bits == 8 and len(data) < 2 * count
        return np.frombuffer(data, "<u1" if packed else "<u2")[:count].astype(np.int64)
    return np.atleast_1d(np.asarray(data, dtype=np.int64))
