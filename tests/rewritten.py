"""A CT series stored otherwise: flipped, turned, prone, feet first, shuffled. The patient stays where he is, for pixels and header change together.

`mirrored_pixels` is the one that lies: pixels are mirrored and the header is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydicom import Dataset, dcmread
from pydicom import Sequence as DicomSequence
from pydicom.uid import ExplicitVRLittleEndian

Pixels = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Turn:
    """How images are stored: rows and columns exchanged first, then columns and rows reversed; the order of numbers; PatientPosition."""

    name: str
    transposed: bool = False
    columns_reversed: bool = False
    rows_reversed: bool = False
    numbers: str = "as they are"  # as they are | reversed | shuffled
    position: str | None = None


TURNS = (
    Turn("shuffled", numbers="shuffled"),
    Turn("flipped in x", columns_reversed=True),
    Turn("flipped in y", rows_reversed=True),
    Turn("flipped in z", numbers="reversed"),
    Turn("turned by 90", transposed=True, columns_reversed=True),
    Turn("turned by 180 and prone", columns_reversed=True, rows_reversed=True, numbers="shuffled", position="HFP"),
    Turn("turned by 270", transposed=True, rows_reversed=True),
    Turn("feet first", columns_reversed=True, numbers="reversed", position="FFS"),
    Turn("feet first and prone", rows_reversed=True, numbers="shuffled", position="FFP"),
    Turn("transposed", transposed=True, numbers="reversed"),
)


def rewritten(paths: Sequence[Path], folder: Path, turn: Turn, seed: int = 1) -> list[Path]:
    """The series in `folder`, one file per image, in an order of files that means nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    images = [dcmread(path) for path in paths]
    numbers = _numbers([int(ds.InstanceNumber) for ds in images], turn.numbers, rng)
    copies = []
    for ds, number, name in zip(images, numbers, rng.permutation(len(images)), strict=True):
        pixels, plane = turned(ds.pixel_array, _plane(ds), turn)
        _set_plane(ds, plane)
        _set_pixels(ds, pixels)
        ds.InstanceNumber = number
        ds.PatientPosition = turn.position or ds.get("PatientPosition", "HFS")
        copies.append(folder / f"{name:04d}.dcm")
        ds.save_as(copies[-1])
    return [copies[k] for k in rng.permutation(len(copies))]


def rewritten_enhanced(path: Path, folder: Path, turn: Turn, seed: int = 1) -> list[Path]:
    """A multi-frame image in `folder`, its frames in another order."""
    folder.mkdir(parents=True, exist_ok=True)
    ds = dcmread(path)
    frames = ds.pixel_array
    order = _numbers(list(range(len(frames))), turn.numbers, np.random.default_rng(seed))
    shared, groups = ds.SharedFunctionalGroupsSequence[0], ds.PerFrameFunctionalGroupsSequence
    cosines = shared.PlaneOrientationSequence[0].ImageOrientationPatient
    spacing = shared.PixelMeasuresSequence[0].PixelSpacing
    new = []
    for k in order:
        position = groups[k].PlanePositionSequence[0].ImagePositionPatient
        pixels, plane = turned(frames[k], _Plane.of(position, cosines, spacing), turn)
        groups[k].PlanePositionSequence[0].ImagePositionPatient = plane.position
        new.append(pixels)
    shared.PlaneOrientationSequence[0].ImageOrientationPatient = plane.cosines
    shared.PixelMeasuresSequence[0].PixelSpacing = plane.spacing
    ds.PerFrameFunctionalGroupsSequence = DicomSequence([groups[k] for k in order])
    _set_pixels(ds, np.stack(new))
    ds.save_as(folder / "enhanced.dcm")
    return [folder / "enhanced.dcm"]


def as_enhanced(paths: Sequence[Path], template: Path, file: Path) -> Path:
    """The images of a classic series as the frames of one Legacy Converted Enhanced image, with the header of `template`."""
    images = [dcmread(path) for path in paths]
    ds = dcmread(template)
    group = ds.PerFrameFunctionalGroupsSequence[0]
    groups = []
    for number, image in enumerate(images, 1):
        own = deepcopy(group)
        own.PlanePositionSequence[0].ImagePositionPatient = image.ImagePositionPatient
        own.FrameContentSequence[0].DimensionIndexValues = number
        source = own.ConversionSourceAttributesSequence[0]
        source.ReferencedSOPInstanceUID = image.SOPInstanceUID
        groups.append(own)
    ds.PerFrameFunctionalGroupsSequence = DicomSequence(groups)
    ds.NumberOfFrames = len(images)
    _set_pixels(ds, np.stack([image.pixel_array for image in images]))
    ds.save_as(file)
    return file


def mirrored_pixels(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Left and right exchanged in the pixels of an axial series whose rows run along patient x; the header says nothing of it."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        ds = dcmread(path)
        _set_pixels(ds, ds.pixel_array[:, ::-1])
        ds.save_as(folder / path.name)
    return [folder / path.name for path in paths]


@dataclass(frozen=True)
class _Plane:
    origin: NDArray[np.float64]
    row: NDArray[np.float64]  # direction in which columns are counted
    column: NDArray[np.float64]
    row_mm: float  # between rows
    column_mm: float

    @classmethod
    def of(cls, position: Sequence[Any], cosines: Sequence[Any], spacing: Sequence[Any]) -> _Plane:
        six = np.array([float(v) for v in cosines])
        return cls(np.array([float(v) for v in position]), six[:3], six[3:], float(spacing[0]), float(spacing[1]))

    @property
    def position(self) -> list[float]:
        return [round(float(v), 6) for v in self.origin]

    @property
    def cosines(self) -> list[float]:
        return [float(v) + 0.0 for v in (*self.row, *self.column)]

    @property
    def spacing(self) -> list[float]:
        return [self.row_mm, self.column_mm]


def turned(pixels: Pixels, plane: _Plane, turn: Turn) -> tuple[Pixels, _Plane]:
    """One image and its plane, stored otherwise (PS3.3 C.7.6.2.1.1)."""
    origin, row, column, row_mm, column_mm = plane.origin, plane.row, plane.column, plane.row_mm, plane.column_mm
    if turn.transposed:
        pixels, row, column, row_mm, column_mm = pixels.T, column, row, column_mm, row_mm
    if turn.columns_reversed:
        origin, row, pixels = origin + row * column_mm * (pixels.shape[1] - 1), -row, pixels[:, ::-1]
    if turn.rows_reversed:
        origin, column, pixels = origin + column * row_mm * (pixels.shape[0] - 1), -column, pixels[::-1]
    return pixels, _Plane(origin, row, column, row_mm, column_mm)


def _numbers(own: list[int], how: str, rng: np.random.Generator) -> list[int]:
    if how == "reversed":
        return [max(own) + min(own) - number for number in own]
    return [int(n) for n in rng.permutation(own)] if how == "shuffled" else own


def _plane(ds: Dataset) -> _Plane:
    return _Plane.of(ds.ImagePositionPatient, ds.ImageOrientationPatient, ds.PixelSpacing)


def _set_plane(ds: Dataset, plane: _Plane) -> None:
    ds.ImagePositionPatient, ds.ImageOrientationPatient, ds.PixelSpacing = plane.position, plane.cosines, plane.spacing


def _set_pixels(ds: Dataset, pixels: Pixels) -> None:
    ds.Rows, ds.Columns = pixels.shape[-2:]
    ds.PixelData = np.ascontiguousarray(pixels).tobytes()
    ds["PixelData"].VR = "OW"
    ds.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
