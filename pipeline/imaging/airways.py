"""Trachea and main bronchi on a coarse grid, slice by slice: narrow sections of gas near the midline with tissue all round.

Slice by slice, because across a gap in a series, or between thick slices, the trachea does not hang together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.imaging.grid import Grid

GAS_BELOW_HU = -900.0
TISSUE_ABOVE_HU = -500.0
SECTION_MM2 = (30.0, 900.0)
OFF_MIDLINE_MM = 40.0
WALLED = 0.6  # share of tissue in the ring around a section; a bulla has lung around it
LOWEST = 0.35  # of the height of air, from below: further down lie recesses of the lung, not bronchi
WALL_MM = 5.0

Mask = NDArray[np.bool_]
IN_PLANE = np.array([np.zeros((3, 3)), [[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.zeros((3, 3))], dtype=bool)  # neighbours within a slice


def airways(grid: Grid, inner: Mask, middle: float) -> Mask:
    """Voxels of `inner` (air inside the body) that belong to the trachea and main bronchi; `middle` is the column of the midline."""
    heights = np.flatnonzero(inner.any(axis=(1, 2)))
    if len(heights) == 0:
        return np.zeros_like(inner)
    from_z = int(heights[0] + LOWEST * (heights[-1] - heights[0]))
    labels, _ = ndimage.label(inner[from_z:] & (grid.hu[from_z:] < GAS_BELOW_HU), structure=IN_PLANE)
    lumen = np.zeros_like(inner)
    for number, box in enumerate(ndimage.find_objects(labels), 1):
        section = labels[box][0] == number  # (Y, X)
        at = (from_z + box[0].start, box[1], box[2])
        if _is_narrow(section, box[2].start, grid, middle) and _is_walled(section, at, grid):
            lumen[at] |= section
    steps = max(1, round(WALL_MM / grid.step_mm[2]))
    return np.asarray(ndimage.binary_dilation(lumen, structure=IN_PLANE, iterations=steps, mask=inner))


def _is_narrow(section: Mask, first_x: int, grid: Grid, middle: float) -> bool:
    area_mm2 = float(section.sum()) * grid.step_mm[1] * grid.step_mm[2]
    center = first_x + float(np.average(np.arange(section.shape[1]), weights=section.sum(axis=0)))
    return SECTION_MM2[0] <= area_mm2 <= SECTION_MM2[1] and abs(center - middle) * grid.step_mm[2] <= OFF_MIDLINE_MM


def _is_walled(section: Mask, at: tuple[int, slice, slice], grid: Grid) -> bool:
    """Most of the ring two to three voxels outside the section is tissue."""
    margin = 3
    low_y, low_x = max(0, at[1].start - margin), max(0, at[2].start - margin)
    hu = grid.hu[at[0], low_y : at[1].stop + margin, low_x : at[2].stop + margin]
    placed = np.zeros(hu.shape, dtype=bool)
    placed[at[1].start - low_y : at[1].stop - low_y, at[2].start - low_x : at[2].stop - low_x] = section
    ring = ndimage.binary_dilation(placed, iterations=3) & ~ndimage.binary_dilation(placed, iterations=1)
    return bool(ring.any()) and float((hu[ring] > TISSUE_ABOVE_HU).mean()) >= WALLED
