"""Rendering a phantom in HU on a grid; edges are soft over one voxel, as partial volume makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.training.phantom import HEART_AXES, Lesion, Lung, Phantom

Array = NDArray[np.float32]

AIR_HU, FAT_HU, SOFT_HU, BLOOD_HU, FLUID_HU, BONE_HU = -1000.0, -90.0, 45.0, 42.0, 12.0, 320.0
LESION_HU = {"实性": 35.0, "磨玻璃": -560.0, "部分实性": -560.0}


@dataclass(frozen=True)
class Grid:
    """Axis coordinates in mm (LPS) of voxel centres."""

    x_mm: Array  # (X,)
    y_mm: Array  # (Y,)
    z_mm: Array  # (Z,)

    @classmethod
    def centered(cls, shape: tuple[int, int, int], spacing_mm: tuple[float, float, float]) -> Grid:
        """A grid of shape (Z, Y, X) around the origin."""
        z, y, x = ((np.arange(n) - (n - 1) / 2) * s for n, s in zip(shape, spacing_mm, strict=True))
        return cls(x.astype(np.float32), y.astype(np.float32), z.astype(np.float32))

    @property
    def shape(self) -> tuple[int, int, int]:
        """(Z, Y, X)."""
        return len(self.z_mm), len(self.y_mm), len(self.x_mm)

    @property
    def step_mm(self) -> tuple[float, float, float]:
        """Spacing (z, y, x)."""
        return float(self.z_mm[1] - self.z_mm[0]), float(self.y_mm[1] - self.y_mm[0]), float(self.x_mm[1] - self.x_mm[0])


def render(phantom: Phantom, grid: Grid) -> Array:
    """The phantom in HU, float32 (Z, Y, X), noise included. Deterministic per phantom and grid."""
    hu = _body(phantom, grid)
    lungs = [(lung, _lung_mask(phantom, lung, grid)) for lung in phantom.lungs]
    for lung, mask in lungs:
        hu += mask * (phantom.lung_hu + 25.0 * (grid.y_mm[None, :, None] / 80.0) - hu)
        if (reach := phantom.effusion_mm.get(lung.side)) is not None:
            hu += mask * _fluid(lung, reach, grid) * (FLUID_HU - hu)
    inside = np.maximum(lungs[0][1], lungs[1][1])
    _vessels(phantom, grid, hu, inside)
    for lesion in phantom.truth.lesions:
        _lesion(lesion, grid, hu)
    return _with_noise(phantom, hu)


def _soft(distance_mm: NDArray[np.floating[Any]], width_mm: float) -> Array:
    """1 inside (negative distance), 0 outside, a ramp of `width_mm` between."""
    return np.asarray(np.clip(0.5 - distance_mm / width_mm, 0.0, 1.0), dtype=np.float32)


def _ellipsoid(grid: Grid, center: tuple[float, float, float], axes: tuple[float, float, float]) -> Array:
    """Approximate signed distance in mm to an ellipsoid, (Z, Y, X)."""
    x = ((grid.x_mm - center[0]) / axes[0])[None, None, :]
    y = ((grid.y_mm - center[1]) / axes[1])[None, :, None]
    z = ((grid.z_mm - center[2]) / axes[2])[:, None, None]
    return np.asarray((np.sqrt(x * x + y * y + z * z) - 1.0) * min(axes), dtype=np.float32)


def _body(phantom: Phantom, grid: Grid) -> Array:
    a, b = phantom.body_mm
    x, y = grid.x_mm[None, :], grid.y_mm[:, None]
    radial = np.sqrt((x / a) ** 2 + (y / b) ** 2)
    outer = _soft((radial - 1.0) * b, grid.step_mm[1])  # (Y, X)
    muscle = _soft((radial - 0.9) * b, grid.step_mm[1])
    plane = AIR_HU + outer * (FAT_HU - AIR_HU)
    plane += muscle * (SOFT_HU - plane)
    spine = _soft(np.sqrt(x**2 + (y - 0.66 * b) ** 2) - 17.0, grid.step_mm[1])
    plane += spine * (BONE_HU - 120.0 - plane)
    aorta = _soft(np.sqrt((x - 22.0) ** 2 + (y - 0.42 * b) ** 2) - 12.0, grid.step_mm[1])
    plane += aorta * (BLOOD_HU - plane)
    ring = _soft(np.abs(radial - 0.86) * b - 3.0, grid.step_mm[1])
    ribs = (np.mod(grid.z_mm[:, None, None] + 0.6 * grid.y_mm[None, :, None] + 300.0, 26.0) < 9.0).astype(np.float32)  # (Z, Y, 1)
    hu = np.repeat(plane[None].astype(np.float32), grid.shape[0], axis=0)
    hu += ring[None] * ribs * (BONE_HU - hu)
    return hu


def _lung_mask(phantom: Phantom, lung: Lung, grid: Grid) -> Array:
    width = grid.step_mm[1]
    mask = _soft(_ellipsoid(grid, lung.center_mm, lung.axes_mm), width)
    heart = _soft(_ellipsoid(grid, phantom.heart_mm, HEART_AXES), width)
    dome = lung.center_mm[2] - 0.62 * lung.axes_mm[2] + 0.10 * lung.axes_mm[1]
    a, b = phantom.body_mm
    radial = np.sqrt((grid.x_mm[None, :] / a) ** 2 + (grid.y_mm[:, None] / b) ** 2)
    wall = _soft(((radial - 0.88) * b).astype(np.float32), width)[None]  # ribs and muscle stay around the lung
    floor = np.clip((grid.z_mm - dome) / grid.step_mm[0] + 0.5, 0.0, 1.0)[:, None, None]  # the diaphragm
    return np.asarray(mask * (1.0 - heart) * wall * floor, dtype=np.float32)


def _fluid(lung: Lung, reach_mm: float, grid: Grid) -> Array:
    """Fluid lies at the back and, curving, more of it low down; (Z, Y, 1)."""
    back = lung.center_mm[1] + lung.axes_mm[1] - reach_mm
    rise = np.clip((grid.z_mm[:, None, None] - lung.center_mm[2] - 20.0) * 0.35, 0.0, None)
    return _soft(back + rise - grid.y_mm[None, :, None], 6.0)


def _vessels(phantom: Phantom, grid: Grid, hu: Array, inside: Array) -> None:
    for x0, y0, z0, x1, y1, z1, radius in phantom.vessels:
        start, end = np.array([x0, y0, z0]), np.array([x1, y1, z1])
        box = _box(grid, np.minimum(start, end) - 6, np.maximum(start, end) + 6)
        if box is None:
            continue
        x, y, z = grid.x_mm[box[2]][None, None, :], grid.y_mm[box[1]][None, :, None], grid.z_mm[box[0]][:, None, None]
        along = end - start
        t = np.clip(((x - x0) * along[0] + (y - y0) * along[1] + (z - z0) * along[2]) / (along @ along), 0, 1)
        distance = np.sqrt((x - x0 - t * along[0]) ** 2 + (y - y0 - t * along[1]) ** 2 + (z - z0 - t * along[2]) ** 2)
        share = _soft(distance - radius, max(grid.step_mm)) * inside[box]
        hu[box] += share * np.maximum(BLOOD_HU - hu[box], 0)


def _lesion(lesion: Lesion, grid: Grid, hu: Array) -> None:
    radius, center = lesion.size_mm / 2, np.array(lesion.center_mm)
    box = _box(grid, center - radius - 8, center + radius + 8)
    if box is None:
        return
    x, y, z = grid.x_mm[box[2]][None, None, :], grid.y_mm[box[1]][None, :, None], grid.z_mm[box[0]][:, None, None]
    distance = np.sqrt((x - center[0]) ** 2 + (y - center[1]) ** 2 + (z - center[2]) ** 2)
    if lesion.kind == "实变":  # a lumpy outline
        distance = distance + 3.0 * np.sin(x / 5.0) * np.cos(y / 6.0)
    width = float(np.mean(grid.step_mm))
    target = LESION_HU[lesion.density]
    hu[box] += _soft(distance - radius, width) * np.maximum(target - hu[box], 0)
    if lesion.density == "部分实性":
        hu[box] += _soft(distance - 0.55 * radius, width) * np.maximum(LESION_HU["实性"] - hu[box], 0)


def _box(grid: Grid, low: NDArray[np.float64], high: NDArray[np.float64]) -> tuple[slice, slice, slice] | None:
    """Slices (Z, Y, X) of the voxels between two corners given as (x, y, z); None when they miss the grid."""
    found = []
    for axis, index in ((grid.z_mm, 2), (grid.y_mm, 1), (grid.x_mm, 0)):
        first, last = np.searchsorted(axis, [low[index], high[index]])
        if first >= last:
            return None
        found.append(slice(int(first), int(last)))
    return found[0], found[1], found[2]


def _with_noise(phantom: Phantom, hu: Array) -> Array:
    """Correlated noise of the acquisition's strength."""
    rng = np.random.default_rng([phantom.truth.seed, hu.size])
    noise = ndimage.gaussian_filter(rng.standard_normal(hu.shape, dtype=np.float32), phantom.correlation_vox)
    return np.asarray(hu + noise * (phantom.noise_hu / max(float(noise.std()), 1e-6)), dtype=np.float32)
