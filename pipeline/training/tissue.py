"""Painting solids into HU on a grid. Edges are soft over one voxel in the direction of the surface's normal, as partial volume makes them; what
lies outside a grid costs next to nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from pipeline.training.anatomy import Ellipsoid, Segments

Array = NDArray[np.float32]
Value = Array | np.float32 | float
Box = tuple[slice, slice, slice]  # z, y, x

AIR_HU, FAT_HU, SOFT_HU, FLUID_HU, BONE_HU = -1000.0, -90.0, 45.0, 12.0, 320.0


@dataclass(frozen=True)
class Grid:
    """Axis coordinates in mm (LPS) of voxel centres, rising."""

    x_mm: Array  # (X,)
    y_mm: Array  # (Y,)
    z_mm: Array  # (Z,)
    spacing_mm: tuple[float, float, float] | None = field(default=None, kw_only=True)  # z, y, x; None: as each axis's first two coordinates

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
        if self.spacing_mm is not None:
            return self.spacing_mm
        return float(self.z_mm[1] - self.z_mm[0]), float(self.y_mm[1] - self.y_mm[0]), float(self.x_mm[1] - self.x_mm[0])

    def part(self, box: Box) -> Grid:
        """The grid of some of its voxels."""
        return Grid(self.x_mm[box[2]], self.y_mm[box[1]], self.z_mm[box[0]], spacing_mm=self.step_mm)


def box_of(grid: Grid, low: tuple[float, float, float], high: tuple[float, float, float]) -> Box | None:
    """Slices (Z, Y, X) of the voxels between two corners given as (x, y, z); None when they miss the grid."""
    found = []
    for axis, index in ((grid.z_mm, 2), (grid.y_mm, 1), (grid.x_mm, 0)):
        if high[index] < axis[0] or low[index] > axis[-1]:
            return None
        first, last = np.searchsorted(axis, (low[index], high[index]))
        if first >= last:
            return None
        found.append(slice(int(first), int(last)))
    return found[0], found[1], found[2]


def over(hu: Array, share: Array, target_hu: Value) -> None:
    """Matter of another kind takes its share of each voxel."""
    hu += share * (target_hu - hu)


def raised(hu: Array, share: Array, target_hu: float) -> None:
    """The same where it is denser than what is there."""
    hu += share * np.maximum(np.float32(target_hu) - hu, 0)


def ramp(distance: Array, width: Value) -> Array:
    """1 inside (negative distance), 0 outside, a ramp of `width` between."""
    share = np.float32(0.5) - distance / width
    np.maximum(share, 0, out=share)
    np.minimum(share, 1, out=share)
    return share


def ellipse_share(grid: Grid, center: tuple[float, float], axes: tuple[float, float]) -> Array:
    """How much of each pixel (Y, X) lies in an ellipse given as x, y."""
    u = ((grid.x_mm - center[0]) / axes[0]) ** 2
    v = ((grid.y_mm - center[1]) / axes[1]) ** 2
    _, sy, sx = grid.step_mm
    level = u[None, :] + v[:, None] - 1
    slope = np.sqrt((u * (sx / axes[0]) ** 2)[None, :] + (v * (sy / axes[1]) ** 2)[:, None] + 1e-12)
    return ramp((0.5 * level).astype(np.float32), slope.astype(np.float32))


def ellipsoid_box(grid: Grid, one: Ellipsoid, blur_mm: float = 0.0) -> Box | None:
    """The voxels that an ellipsoid touches."""
    z, y, x = grid.step_mm
    (cx, cy, cz), (ax, ay, az), more = one.center_mm, one.axes_mm, blur_mm / 2
    return box_of(grid, (cx - ax - x - more, cy - ay - y - more, cz - az - z - more), (cx + ax + x + more, cy + ay + y + more, cz + az + z + more))


def ellipsoid_share(grid: Grid, one: Ellipsoid, blur_mm: float = 0.0) -> Array:
    """How much of each voxel (Z, Y, X) lies in an ellipsoid; its edge is at least `blur_mm` wide."""
    steps = np.array(grid.step_mm[::-1]) ** 2 + blur_mm**2
    squared = [((axis - c) / a) ** 2 for axis, c, a in zip((grid.x_mm, grid.y_mm, grid.z_mm), one.center_mm, one.axes_mm, strict=True)]
    slopes = [(u * np.float32(s / a**2)).astype(np.float32) for u, s, a in zip(squared, steps, one.axes_mm, strict=True)]
    u, v, w = (axis.astype(np.float32) for axis in squared)
    level = (u - np.float32(1))[None, None, :] + v[None, :, None] + w[:, None, None]
    slope = slopes[0][None, None, :] + (slopes[1] + np.float32(1e-12))[None, :, None] + slopes[2][:, None, None]
    np.sqrt(slope, out=slope)
    level *= np.float32(-0.5)
    level /= slope
    level += np.float32(0.5)
    return np.clip(level, 0.0, 1.0, out=level)


def segment_shares(grid: Grid, segments: Segments) -> Iterator[tuple[Box, Array]]:
    """Box and share of each voxel of every round segment (S, 8) that touches the grid. A thin one gives no more than it holds."""
    steps = np.array(grid.step_mm[::-1], dtype=np.float32)  # x, y, z
    axes = (grid.x_mm, grid.y_mm, grid.z_mm)
    along = segments[:, 3:6] - segments[:, :3]
    length = np.maximum((along * along).sum(axis=1), np.float32(1e-6))  # (S,) squared
    width = np.sqrt(np.maximum(((steps * steps) * (length[:, None] - along * along)).sum(axis=1) / (2 * length), np.float32(0.04)))
    reach = (segments[:, 6:8].max(axis=1) + width / 2)[:, None]
    low, high = np.minimum(segments[:, :3], segments[:, 3:6]) - reach, np.maximum(segments[:, :3], segments[:, 3:6]) + reach
    first, last = (np.stack([np.searchsorted(axis, end[:, k]) for k, axis in enumerate(axes)], axis=1) for end in (low, high))
    for number in np.flatnonzero((first < last).all(axis=1)).tolist():
        (x0, y0, z0), (x1, y1, z1) = first[number].tolist(), last[number].tolist()
        part = grid.x_mm[x0:x1], grid.y_mm[y0:y1], grid.z_mm[z0:z1]
        share = _segment_share(part, segments[number].tolist(), along[number].tolist(), float(length[number]), float(width[number]))
        yield (slice(z0, z1), slice(y0, y1), slice(x0, x1)), share


def _segment_share(axes: tuple[Array, Array, Array], segment: list[float], along: list[float], length: float, width: float) -> Array:
    """Share of one segment whose squared length is given; `width` is a voxel's size across it."""
    x, y, z = axes[0] - segment[0], axes[1] - segment[1], axes[2] - segment[2]
    away = ((z * z)[:, None] + y * y)[:, :, None] + x * x  # (Z, Y, X) squared distance from the start
    t = ((z * (along[2] / length))[:, None] + y * (along[1] / length))[:, :, None] + x * (along[0] / length)
    nearest = np.minimum(np.maximum(t, 0), 1)
    t *= -2 * length
    t += nearest * length
    t *= nearest
    away += t
    np.maximum(away, 0, out=away)
    np.sqrt(away, out=away)  # from the axis
    thin, wide = segment[6], segment[7]
    if wide != thin:
        nearest *= wide - thin
        away -= nearest
    away *= -1 / width
    away += 0.5 + thin / width
    np.maximum(away, 0, out=away)
    np.minimum(away, 1, out=away)
    if (held := _held((thin + wide) / 2, width)) < 1:
        away *= held
    return away


def _held(radius: float, width: float) -> float:
    """Cross section of a thin round thing beside that of its ramp."""
    if radius >= 0.75 * width:
        return 1.0
    peak, foot = min(1.0, 0.5 + radius / width), radius + width / 2
    return float(min(1.0, radius**2 / (foot**2 * peak / 3)))


def balls_share(grid: Grid, balls: Array) -> Array | None:
    """How much of each voxel lies in one of many small balls (N, 4): x, y, z, radius; None when all miss the grid."""
    steps = np.array(grid.step_mm[::-1], dtype=np.float32)
    low = np.array([grid.x_mm[0], grid.y_mm[0], grid.z_mm[0]])
    high = np.array([grid.x_mm[-1], grid.y_mm[-1], grid.z_mm[-1]])
    near = balls[((balls[:, :3] + balls[:, 3:] + steps > low) & (balls[:, :3] - balls[:, 3:] - steps < high)).all(axis=1)]
    if len(near) == 0:
        return None
    share = np.zeros(grid.shape, dtype=np.float32)
    half = np.ceil(float(near[:, 3].max()) / steps + 0.5).astype(int)  # voxels around the nearest one
    at = np.rint((near[:, :3] - low) / steps).astype(int)  # (N, 3)
    index = [at[:, k, None] + np.arange(-half[k], half[k] + 1) for k in range(3)]  # (N, K) each
    apart = [low[k] + index[k] * steps[k] - near[:, k, None] for k in range(3)]
    squares = [(a * a).astype(np.float32) for a in apart]
    slopes = [q * s * s for q, s in zip(squares, steps, strict=True)]
    distance = np.sqrt(squares[2][:, :, None, None] + squares[1][:, None, :, None] + squares[0][:, None, None, :])  # (N, Kz, Ky, Kx)
    width = np.sqrt(slopes[2][:, :, None, None] + slopes[1][:, None, :, None] + slopes[0][:, None, None, :] + np.float32(1e-6))
    width /= np.maximum(distance, 1e-3)
    radius = near[:, 3, None, None, None]
    mean = float(np.prod(steps)) ** (1 / 3)
    gain = np.where(radius < mean, radius**2 / (radius**2 + mean**2 / 4), 1.0).astype(np.float32)
    value = ramp(distance - radius, np.maximum(width, steps.min())) * gain
    inside = [(i >= 0) & (i < n) for i, n in zip(index, grid.shape[::-1], strict=True)]
    valid = inside[2][:, :, None, None] & inside[1][:, None, :, None] & inside[0][:, None, None, :] & (value > 0)
    flat = (index[2][:, :, None, None] * grid.shape[1] + index[1][:, None, :, None]) * grid.shape[2] + index[0][:, None, None, :]
    np.maximum.at(share.reshape(-1), flat[valid], value[valid])
    return share
