"""Resampling to the grid that the compact encoder reads: axes superior, posterior, left, centred on the lungs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.errors import Unsupported
from pipeline.imaging.lungs import Lungs, find_lungs
from pipeline.imaging.volume import Volume

SHAPE = (48, 72, 96)  # z, y, x
SPACING_MM = (6.25, 3.75, 3.75)
COARSE_MM = 5.0  # grid on which lungs are looked for, in plane and between slices at least
AXIAL_COSINE = 0.9
SOFTEN = 0.35  # Gaussian sigma per step of downsampling: less noise folds back


@dataclass(frozen=True)
class Canonical:
    """A volume on the canonical grid. Voxel (z, y, x) lies at `center_mm + ((x, y, z) − (n−1)/2)·spacing` in patient LPS."""

    hu: NDArray[np.float32]  # SHAPE
    center_mm: tuple[float, float, float]  # LPS
    midline_mm: float  # LPS x between the lungs

    def to_patient(self, index: NDArray[np.float64]) -> NDArray[np.float64]:
        """Voxel coordinates (…, 3) as z, y, x → LPS in mm (…, 3) as x, y, z."""
        offset = (index - (np.array(SHAPE) - 1) / 2) * np.array(SPACING_MM)
        return np.asarray(np.asarray(self.center_mm) + offset[..., ::-1], dtype=np.float64)


def canonical(volume: Volume) -> Canonical:
    """Resample around the lungs. Raises Unsupported where no lungs are found, so that nothing else is read as a chest."""
    _refuse_other_planes(volume)
    lungs, low_mm, step_mm = _coarse_lungs(volume)
    if lungs is None:
        raise Unsupported("容积内未找到双肺，本模型只读胸部 CT")
    where = np.argwhere(lungs.mask)
    middle = (where.min(axis=0) + where.max(axis=0)) / 2  # z, y, x
    center = low_mm + middle[::-1] * step_mm
    soft = _softened(volume)
    offsets = [(np.arange(n) - (n - 1) / 2) * s for n, s in zip(SHAPE, SPACING_MM, strict=True)]
    hu = _sample(volume, soft, center[2] + offsets[0], center[1] + offsets[1], center[0] + offsets[2])
    return Canonical(hu, (float(center[0]), float(center[1]), float(center[2])), float(low_mm[0] + lungs.midline_x * step_mm))


def _refuse_other_planes(volume: Volume) -> None:
    if abs(float(volume.axes[0][2])) < AXIAL_COSINE:
        raise Unsupported("序列不是轴位")


def _bounds(volume: Volume) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    corners = np.array([[z, y, x] for z in (0, 1) for y in (0, 1) for x in (0, 1)]) * (np.array(volume.hu.shape) - 1)
    points = volume.to_patient(corners.astype(float))  # (8, 3)
    return points.min(axis=0), points.max(axis=0)


def _coarse_lungs(volume: Volume) -> tuple[Lungs | None, NDArray[np.float64], float]:
    low, high = _bounds(volume)
    x, y, z = (np.arange(a, b + COARSE_MM / 2, COARSE_MM) for a, b in zip(low, high, strict=True))
    return find_lungs(_sample(volume, volume.hu, z, y, x), (COARSE_MM, COARSE_MM, COARSE_MM)), low, COARSE_MM


def _softened(volume: Volume) -> NDArray[np.float32]:
    factors = [max(0.0, target / own - 1.0) for target, own in zip(SPACING_MM, volume.spacing_mm, strict=True)]
    return np.asarray(ndimage.gaussian_filter(volume.hu, [SOFTEN * f for f in factors], mode="nearest"), dtype=np.float32)


def _sample(
    volume: Volume, hu: NDArray[np.float32], z_mm: NDArray[np.float64], y_mm: NDArray[np.float64], x_mm: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Linear interpolation at the grid of patient coordinates; (len z, len y, len x). Outside, the volume's border repeats: an edge to air where a
    scan ends would look like a finding."""
    points = np.stack(np.broadcast_arrays(x_mm[None, None, :], y_mm[None, :, None], z_mm[:, None, None]), axis=-1)
    index = np.moveaxis(volume.to_index(points), -1, 0)  # (3, Z, Y, X)
    return np.asarray(ndimage.map_coordinates(hu, index, order=1, mode="nearest"), dtype=np.float32)
