"""Resampling to the grid that the compact encoder reads: axes superior, posterior, left, centred on the lungs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline import geometry
from pipeline.errors import Unsupported
from pipeline.imaging.air import MIN_LUNG_ML, coarse_air
from pipeline.imaging.grid import index_at, is_aligned, separable, softened_rows
from pipeline.imaging.lungs import Lungs, lungs_of
from pipeline.imaging.volume import Volume

SHAPE = (56, 144, 192)  # z, y, x
SPACING_MM = (5.4, 1.875, 1.875)
EXACT_COSINE = 1 - 1e-7  # 0.03°: 0.1 mm at the edge of a chest
SLAB = 32  # slices softened at once
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


def canonical(volume: Volume, lungs: Lungs | None = None) -> Canonical:
    """Resample around the lungs; `lungs`, where they are known already, are asked only where air does not fill both sides. Raises Unsupported where
    no lungs are found, so that nothing else is read as a chest."""
    if abs(float(volume.axes[0][2])) < geometry.AXIAL_COSINE:
        raise Unsupported("序列不是轴位")
    center, midline_mm = _both_sides(volume) or _one_side(volume, lungs)
    offsets = [(np.arange(n) - (n - 1) / 2) * s for n, s in zip(SHAPE, SPACING_MM, strict=True)]
    hu = _softened(volume, center[2] + offsets[0], center[1] + offsets[1], center[0] + offsets[2])
    return Canonical(hu, (float(center[0]), float(center[1]), float(center[2])), midline_mm)


def _both_sides(volume: Volume) -> tuple[NDArray[np.float64], float] | None:
    """Middle of the box around the air of two lungs, and their midline. The committed weights were trained on just this centre."""
    air, low_mm, step_mm = coarse_air(volume)
    if air is None:
        return None
    where = np.argwhere(air.mask)
    middle = (where.min(axis=0) + where.max(axis=0)) / 2  # z, y, x
    return low_mm + middle[::-1] * step_mm, float(low_mm[0] + air.midline_x * step_mm)


def _one_side(volume: Volume, lungs: Lungs | None) -> tuple[NDArray[np.float64], float]:
    """The same where one lung holds (nearly) all the air: its box in height and depth, the midline of the body across."""
    lungs = lungs or lungs_of(volume)
    if lungs is None or lungs.volume_ml < MIN_LUNG_ML:
        raise Unsupported("容积内未找到双肺，本模型只读胸部 CT")
    low, high = lungs.box_mm
    return np.array([lungs.midline_mm, (low[1] + high[1]) / 2, (low[2] + high[2]) / 2]), lungs.midline_mm


def _softened(volume: Volume, z_mm: NDArray[np.float64], y_mm: NDArray[np.float64], x_mm: NDArray[np.float64]) -> NDArray[np.float32]:
    """The volume softened by a Gaussian and sampled, (len z, len y, len x); no second array of its size is made."""
    if is_aligned(volume, EXACT_COSINE):
        return separable(volume, z_mm, y_mm, x_mm, softened_rows(SOFTEN))
    return _by_slabs(volume, index_at(volume, z_mm, y_mm, x_mm))


def _by_slabs(volume: Volume, index: NDArray[np.float64]) -> NDArray[np.float32]:
    """The same for an oblique volume, some slices at a time: `index` is (3, …) as z, y, x, the answer (…)."""
    sigma = [SOFTEN * max(0.0, target / own - 1.0) for target, own in zip(SPACING_MM, volume.spacing_mm, strict=True)]
    last = len(volume.hu) - 1
    at = np.concatenate([np.clip(index[:1], 0, last), index[1:]])
    halo = int(4 * sigma[0] + 0.5)  # where ndimage.gaussian_filter cuts its kernel
    found = np.empty(index.shape[1:], dtype=np.float32)
    for first in range(0, last + 1, SLAB):
        inside = (at[0] >= first) & (at[0] < first + SLAB)
        low, high = max(0, first - halo), min(last, first + SLAB + halo) + 1
        if inside.any():
            soft = ndimage.gaussian_filter(volume.hu[low:high].astype(np.float32), sigma, mode="nearest")
            places = at[:, inside] - np.array([[low], [0], [0]])
            found[inside] = ndimage.map_coordinates(soft, places, order=1, mode="nearest")
    return found
