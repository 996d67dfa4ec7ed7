"""Stacks whose slices do not stand straight above each other: gantry tilt, or a reconstruction centre that moved. Each slice is shifted in its own
plane, so that nothing is interpolated between slices and every slice stays what was scanned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.imaging.pixels import AIR_HU, Hu

STRAIGHT_MM = 0.05  # positions are written with rounding; a pixel is ten times as large

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Shift:
    """How far each slice lies beside the first, in its plane; mm along column direction (down the rows) and row direction."""

    down_mm: Floats  # (Z,)
    across_mm: Floats  # (Z,)
    along_mm: Floats  # (Z,)

    @property
    def straight(self) -> bool:
        """Every slice stands above the first."""
        return float(max(np.ptp(self.down_mm), np.ptp(self.across_mm))) <= STRAIGHT_MM

    @property
    def angle_deg(self) -> float:
        """Angle between the stack and the slice normal."""
        beside = np.hypot(self.down_mm[-1] - self.down_mm[0], self.across_mm[-1] - self.across_mm[0])
        return float(np.degrees(np.arctan2(beside, self.along_mm[-1] - self.along_mm[0])))

    @property
    def even(self) -> bool:
        """The shift grows with the place: a tilt, and no jump."""
        return all(
            float(np.abs(_off_line(self.along_mm, values)).max()) <= max(STRAIGHT_MM, 0.02 * np.ptp(values))
            for values in (self.down_mm, self.across_mm)
        )

    def sentence(self) -> str:
        """What is the matter, with the angle or the place."""
        if self.even:
            return f"层面相对堆叠方向倾斜 {self.angle_deg:.1f}°（机架倾斜）"
        beside = np.hypot(self.down_mm - self.down_mm[0], self.across_mm - self.across_mm[0])
        first = int(np.argmax(beside > STRAIGHT_MM))
        return f"层面中心不在一条直线上：自第 {first + 1} 层起横向偏移最多 {float(beside.max()):.1f} mm"


def shift_of(positions_mm: Floats, row: Floats, column: Floats) -> Shift:
    """Shift of slices at `positions_mm` (Z, 3), whose rows run along `row` and columns along `column` (3,)."""
    beside = positions_mm - positions_mm[0]
    return Shift(beside @ column, beside @ row, beside @ np.cross(row, column))


def _off_line(along_mm: Floats, values: Floats) -> Floats:
    """How far values lie off the straight line between the first and the last."""
    share = (along_mm - along_mm[0]) / (along_mm[-1] - along_mm[0])
    return np.asarray(values - values[0] - share * (values[-1] - values[0]))


def grown(shift: Shift, shape: tuple[int, int, int], spacing_mm: tuple[float, float]) -> tuple[int, int, int]:
    """Shape that holds every shifted slice whole."""
    rows, columns = (int(np.ceil(np.ptp(mm) / step - 1e-6)) for mm, step in ((shift.down_mm, spacing_mm[0]), (shift.across_mm, spacing_mm[1])))
    return shape[0], shape[1] + rows, shape[2] + columns


def straightened(hu: Hu, shift: Shift, spacing_mm: tuple[float, float]) -> Hu:
    """The slices on one rectangular grid, by linear interpolation in plane; what no slice covers is air. (Z, Y, X) → `grown`.

    Voxel (z, 0, 0) of the result lies at the first slice's position plus the least shift, in both directions.
    """
    out = np.full(grown(shift, (hu.shape[0], hu.shape[1], hu.shape[2]), spacing_mm), AIR_HU, dtype=hu.dtype)  # (Z, Y', X')
    down = (shift.down_mm - shift.down_mm.min()) / spacing_mm[0]
    across = (shift.across_mm - shift.across_mm.min()) / spacing_mm[1]
    for z in range(len(hu)):
        moved = _moved(_moved(hu[z].astype(np.float32), down[z]).T, across[z]).T  # (Y, X), with the whole steps still to go
        y, x = int(down[z] + 1e-6), int(across[z] + 1e-6)
        moved = moved[: out.shape[1] - y, : out.shape[2] - x]
        out[z, y : y + moved.shape[0], x : x + moved.shape[1]] = np.rint(moved) if out.dtype == np.int16 else moved
    return out


def _moved(plane: NDArray[np.float32], steps: float) -> NDArray[np.float32]:
    """The plane (N, M) moved down its first axis by the fraction of `steps`; one row longer where there is a fraction, its edges repeated."""
    part = np.float32(steps - int(steps + 1e-6))
    if part <= 1e-6:
        return plane
    wide = np.concatenate([plane[:1], plane, plane[-1:]])  # (N + 2, M)
    return np.asarray((1 - part) * wide[1:] + part * wide[:-1], dtype=np.float32)
