"""One CT series → one volume in HU with its geometry. Position along the slice normal is the truth, never InstanceNumber or SliceLocation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydicom import Dataset, dcmread
from pydicom.errors import InvalidDicomError

from pipeline.errors import Permanent, UnreadableDicom, Unsupported

AIR_HU = -1024.0
OUTSIDE_HU = -2000.0  # scanners mark the corners outside the field of view with −2000 or −3024
MIN_SLICES = 8
SAME_PLACE_MM = 0.01
GAP_FACTOR = 1.4  # a step this many times the median one is a gap
MAX_GAP_MM = 40.0  # wider than a lesion that matters: refuse instead of interpolating
COSINE_TOLERANCE = 1e-3


@dataclass(frozen=True, slots=True)
class Acquisition:
    """How the images were taken; None where the header does not say."""

    kvp: float | None
    mas: float | None
    kernel: str
    thickness_mm: float | None


@dataclass(frozen=True)
class Volume:
    """HU on a grid that is regular in plane. Voxel (z, y, x) lies at `origin_mm + along_mm[z]·axes[0] + y·step_y·axes[1] + x·step_x·axes[2]` in
    patient LPS; where slices are missing, `along_mm` says so and values between are interpolated over the true distance."""

    hu: NDArray[np.float32]  # (Z, Y, X)
    spacing_mm: tuple[float, float, float]  # z (median step), y, x
    along_mm: NDArray[np.float64]  # (Z,) distance of each slice from the first along the normal, rising from 0
    origin_mm: tuple[float, float, float]
    axes: NDArray[np.float64]  # (3, 3): unit vectors of z, y, x in LPS
    sop_uids: tuple[str, ...]  # per slice
    acquisition: Acquisition
    flags: tuple[str, ...] = ()

    def to_patient(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        """Voxel coordinates (…, 3) as z, y, x → patient LPS in mm (…, 3)."""
        z_mm = np.interp(index[..., 0], np.arange(len(self.along_mm)), self.along_mm)
        offset = np.stack([z_mm, index[..., 1] * self.spacing_mm[1], index[..., 2] * self.spacing_mm[2]], axis=-1)
        return np.asarray(self.origin_mm) + offset @ self.axes

    def to_index(self, point_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Patient LPS in mm (…, 3) → voxel coordinates (…, 3) as z, y, x; beyond the first and last slice z leaves the array."""
        offset = (point_mm - np.asarray(self.origin_mm)) @ self.axes.T
        last = len(self.along_mm)
        z = np.interp(offset[..., 0], self.along_mm, np.arange(last), left=-2.0, right=last + 1.0)
        return np.stack([z, offset[..., 1] / self.spacing_mm[1], offset[..., 2] / self.spacing_mm[2]], axis=-1)


@dataclass(frozen=True)
class _Slice:
    ds: Dataset
    position_mm: NDArray[np.float64]  # (3,)
    along_mm: float


def read_volume(paths: Sequence[Path]) -> Volume:
    """Read one classic CT series. Raises Unsupported (no volume: why and where), UnreadableDicom, or Permanent where pixels cannot be decoded."""
    try:
        return _volume(paths)
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError) as error:
        raise UnreadableDicom(
            f"the geometry or rescale values of the series cannot be understood ({type(error).__name__}); mend the sender and send it again"
        ) from error


def _volume(paths: Sequence[Path]) -> Volume:
    headers = [_read(path) for path in paths]
    if len(headers) < MIN_SLICES:
        raise Unsupported(f"序列仅 {len(headers)} 层，少于 {MIN_SLICES} 层，不构成容积")
    row, column, normal = _orientation(headers)
    slices = sorted((_placed(ds, normal) for ds in headers), key=lambda s: s.along_mm)
    step_mm, gaps = _steps(slices)
    first = slices[0]
    spacing = [float(value) for value in first.ds.PixelSpacing]
    hu = np.stack([_hounsfield(s.ds) for s in slices])  # (Z, Y, X)
    return Volume(
        hu=hu,
        spacing_mm=(step_mm, spacing[0], spacing[1]),
        along_mm=np.array([s.along_mm - first.along_mm for s in slices]),
        origin_mm=(float(first.position_mm[0]), float(first.position_mm[1]), float(first.position_mm[2])),
        axes=_axes(slices, row, column, normal),
        sop_uids=tuple(str(s.ds.SOPInstanceUID) for s in slices),
        acquisition=acquisition(first.ds),
        flags=gaps,
    )


def acquisition(ds: Dataset) -> Acquisition:
    """kVp, mAs (Exposure, else ExposureInuAs / 1000), kernel and thickness as the header gives them."""
    mas = _number(ds, "Exposure")
    micro = _number(ds, "ExposureInuAs")
    kernel = ds.get("ConvolutionKernel") or ""
    name = str(kernel) if isinstance(kernel, str) else "/".join(str(part) for part in kernel)
    return Acquisition(
        _number(ds, "KVP"), mas if mas is not None else micro / 1000 if micro is not None else None, name, _number(ds, "SliceThickness")
    )


def _read(path: Path) -> Dataset:
    try:
        ds = dcmread(path)
    except (InvalidDicomError, EOFError, OSError) as error:
        raise UnreadableDicom(f"an archived file of the series cannot be read ({type(error).__name__}); `ctreport verify` names it") from error
    for keyword in ("ImagePositionPatient", "ImageOrientationPatient", "PixelSpacing", "Rows", "Columns"):
        if ds.get(keyword) is None:
            raise Unsupported(f"图像缺少 {keyword}，无法确定层面位置")
    if str(ds.get("RescaleType", "HU") or "HU") not in ("HU", "US"):
        raise Unsupported(f"RescaleType 为 {ds.RescaleType}，不是 HU 值")
    return ds


def _orientation(headers: Sequence[Dataset]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Unit vectors of row, column and normal; every slice must share them and the matrix size."""
    cosines = np.array([[float(v) for v in ds.ImageOrientationPatient] for ds in headers])  # (Z, 6)
    if np.abs(cosines - cosines[0]).max() > COSINE_TOLERANCE:
        raise Unsupported("序列内层面方向不一致，不构成容积")
    shapes = {(int(ds.Rows), int(ds.Columns)) for ds in headers}
    if len(shapes) > 1:
        raise Unsupported(f"序列内矩阵大小不一致：{sorted(shapes)}")
    row, column = cosines[0][:3], cosines[0][3:]
    return row, column, np.cross(row, column)


def _placed(ds: Dataset, normal: NDArray[np.float64]) -> _Slice:
    position = np.array([float(v) for v in ds.ImagePositionPatient])
    return _Slice(ds, position, float(position @ normal))


def _steps(slices: Sequence[_Slice]) -> tuple[float, tuple[str, ...]]:
    """The median slice step in mm, and each gap as a sentence with its place. Several images at one place or too wide a gap are Unsupported."""
    steps = np.diff([s.along_mm for s in slices])  # (Z−1,)
    if (same := int((steps < SAME_PLACE_MM).sum())) > 0:
        raise Unsupported(f"{same + 1} 层位于同一位置（重复、多期或定点追踪），不构成单一容积")
    step = float(np.median(steps))
    wide = [int(index) for index in np.flatnonzero(steps > GAP_FACTOR * step)]
    gaps = tuple(f"第 {index + 1} 层后间距 {steps[index]:.1f} mm，疑缺 {max(1, round(steps[index] / step) - 1)} 层" for index in wide)
    if float(steps.max()) > MAX_GAP_MM:
        raise Unsupported(f"缺层过多（{'；'.join(gaps)}），不构成容积")
    return step, gaps


def _axes(slices: Sequence[_Slice], row: NDArray[np.float64], column: NDArray[np.float64], normal: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vectors of z, y, x. Raises Unsupported where the stack runs at an angle to the normal (gantry tilt)."""
    travel = slices[-1].position_mm - slices[0].position_mm
    along = travel / np.linalg.norm(travel)
    if (cosine := float(along @ normal)) < 1 - COSINE_TOLERANCE:
        angle = float(np.degrees(np.arccos(np.clip(cosine, -1, 1))))
        raise Unsupported(f"层面相对堆叠方向倾斜 {angle:.1f}°（机架倾斜），尚不支持")
    return np.stack([normal, column, row])


def _hounsfield(ds: Dataset) -> NDArray[np.float32]:
    """Stored values → HU with the slice's own slope and intercept (PS3.3 C.11.1.1.2); padding and outside → −1024."""
    try:
        stored = ds.pixel_array
    except (AttributeError, NotImplementedError, RuntimeError, ValueError) as error:
        syntax = ds.file_meta.TransferSyntaxUID.name if "TransferSyntaxUID" in ds.file_meta else "unknown"
        raise Permanent(f"pixels in transfer syntax '{syntax}' cannot be decoded here; convert the series and send it again") from error
    hu = stored.astype(np.float32) * float(ds.get("RescaleSlope", 1) or 1) + float(ds.get("RescaleIntercept", 0) or 0)
    outside = hu <= OUTSIDE_HU
    if (padding := ds.get("PixelPaddingValue")) is not None:
        outside |= stored == padding
    hu[outside] = AIR_HU
    return np.asarray(np.maximum(hu, np.float32(AIR_HU)), dtype=np.float32)


def _number(ds: Dataset, keyword: str) -> float | None:
    value = ds.get(keyword)
    try:
        return float(value) if value not in (None, "") else None
    except (TypeError, ValueError):
        return None
