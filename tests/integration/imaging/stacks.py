"""Stacks of CT planes for these tests, and what the standard says of them, worked out slowly, without code of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from pydicom import Dataset, FileDataset

from pipeline.errors import Permanent, PipelineError
from pipeline.imaging.volume import Volume, read_volume
from tests.builders import AXIAL, ct_slice, write

AIR_HU = -1024
NEAR_MM = 0.01
COUNT, ROWS, COLUMNS = 12, 10, 14
STEP_MM, BETWEEN_ROWS_MM, BETWEEN_COLUMNS_MM = 2.5, 0.7, 1.3
ORIGIN_MM = (-31.5, 12.25, 740.0)

Words = NDArray[np.uint16]
Numbers = NDArray[np.float64]


def words(count: int = COUNT, seed: int = 1, low: int = 0, high: int = 1 << 16) -> Words:
    """Random 16-bit words (count, ROWS, COLUMNS) as they stand in PixelData."""
    return np.random.default_rng(seed).integers(low, high, (count, ROWS, COLUMNS), dtype=np.uint16)


def stack(
    pixels: Words | None = None,
    *,
    cosines: Sequence[float] = AXIAL,
    places_mm: Sequence[float] | None = None,
    bits_stored: int = 16,
    signed: bool = False,
    **keywords: Any,
) -> list[FileDataset]:
    """One plane per slice of `pixels`, along the normal at `places_mm` from ORIGIN_MM (even steps by default). A keyword's value may be a function
    of the plane's number."""
    stored = words(high=4096) if pixels is None else pixels
    away = [index * STEP_MM for index in range(len(stored))] if places_mm is None else places_mm
    return [_plane(stored[index], index, away[index], cosines, bits_stored, signed, keywords) for index in range(len(stored))]


def _plane(pixels: Words, index: int, away_mm: float, cosines: Sequence[float], bits: int, signed: bool, keywords: dict[str, Any]) -> FileDataset:
    ds = ct_slice(z_mm=away_mm, number=index + 1, spacing_mm=(BETWEEN_ROWS_MM, BETWEEN_COLUMNS_MM), thickness_mm=STEP_MM, orientation=cosines)
    ds.ImagePositionPatient = [round(float(value), 8) for value in np.array(ORIGIN_MM) + away_mm * unit_normal(cosines)]
    ds.Rows, ds.Columns = pixels.shape
    ds.BitsStored, ds.HighBit, ds.PixelRepresentation = bits, bits - 1, int(signed)
    ds.PixelData = pixels.astype("<u2").tobytes()
    for keyword, value in keywords.items():
        setattr(ds, keyword, value(index) if callable(value) else value)
    return ds


def unit_normal(cosines: Sequence[float]) -> Numbers:
    """Row × column, of length 1."""
    normal = np.cross(np.array(cosines[:3], dtype=float), np.array(cosines[3:], dtype=float))
    return np.asarray(normal / np.linalg.norm(normal))


def stored_values(pixels: Words, bits_stored: int, signed: bool) -> NDArray[np.int64]:
    """What the words mean: the lowest BitsStored bits, two's complement where PixelRepresentation is 1 (PS3.5 8.1.1)."""
    kept = pixels.astype(np.int64) & ((1 << bits_stored) - 1)
    return np.where(kept >= 1 << (bits_stored - 1), kept - (1 << bits_stored), kept) if signed else kept


def hounsfield(stored: NDArray[np.int64], slope: float = 1.0, intercept: float = -1024.0) -> Numbers:
    """slope · stored + intercept (PS3.3 C.11.1.1.2); nothing here is colder than air (−1024)."""
    return np.asarray(np.maximum(slope * stored + intercept, AIR_HU), dtype=np.float64)


def place_mm(ds: Dataset, row: float, column: float) -> Numbers:
    """Patient LPS of a pixel (PS3.3 C.7.6.2.1.1; C.7.6.3.1.1: PixelSpacing gives the distance between rows first)."""
    cosines = np.array([float(value) for value in ds.ImageOrientationPatient])
    between_rows, between_columns = (float(value) for value in ds.PixelSpacing)
    corner = np.array([float(value) for value in ds.ImagePositionPatient])
    return np.asarray(corner + column * between_columns * cosines[:3] + row * between_rows * cosines[3:])


def assert_places(volume: Volume, planes: Sequence[Dataset]) -> None:
    """Every plane is there once, in order along the normal, and its corners and a pixel inside lie where the standard puts them."""
    by_uid = {str(ds.SOPInstanceUID): ds for ds in planes}
    assert len(set(volume.sop_uids)) == len(volume.sop_uids) == len(volume.along_mm) == volume.hu.shape[0]
    assert set(volume.sop_uids) <= by_uid.keys()
    assert (np.diff(volume.along_mm) > 0).all(), "places rise along the normal"
    for z, uid in enumerate(volume.sop_uids):
        ds = by_uid[uid]
        for row, column in ((0, 0), (0, ds.Columns - 1), (ds.Rows - 1, 0), (ds.Rows - 1, ds.Columns - 1), (ds.Rows // 3, ds.Columns // 4)):
            np.testing.assert_allclose(volume.to_patient(np.array([z, row, column], dtype=float)), place_mm(ds, row, column), atol=NEAR_MM)


def assert_hu(volume: Volume, planes: Sequence[Dataset], expected: Callable[[int], NDArray[Any]]) -> None:
    """Slice by slice the HU of `expected(number of the plane)`, exactly."""
    number = {str(ds.SOPInstanceUID): index for index, ds in enumerate(planes)}
    for z, uid in enumerate(volume.sop_uids):
        np.testing.assert_array_equal(volume.hu[z].astype(np.float64), expected(number[uid]).astype(np.float32), err_msg=f"plane {number[uid]}")


def shuffled(folder: Path, planes: Sequence[Dataset], seed: int = 3) -> list[Path]:
    """The planes as files, in an order that says nothing."""
    order = np.random.default_rng(seed).permutation(len(planes))
    return write(folder, [planes[index] for index in order])


def read(folder: Path, planes: Sequence[Dataset]) -> Volume:
    return read_volume(shuffled(folder, planes))


def refused(folder: Path, planes: Sequence[Dataset], *said: str, kind: type[PipelineError] = Permanent) -> str:
    """The sentence with which the planes are refused; it holds one of the words."""
    with pytest.raises(kind) as caught:
        read(folder, planes)
    sentence = str(caught.value)
    assert any(word in sentence for word in said), sentence
    return sentence
