"""The slices of a volume that a reader, or an encoder of single slices, would look at first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipeline.imaging.lungs import Lungs
from pipeline.imaging.regions import Region
from pipeline.imaging.volume import Volume

REGION_SHARE = 0.5  # at most this share of the slices goes to regions, the rest covers the lungs evenly
CUT_WELL = 0.25  # of a region's height off its middle
EVEN = 0.7  # of a stretch of lung, the middle counts this much more than its ends


def key_slices(volume: Volume, lungs: Lungs | None, regions: Sequence[Region], count: int) -> tuple[int, ...]:
    """Rising z indices of `volume`, at most `count`; 0 takes every slice.

    The slice through the middle of each of the best regions comes first. The others part the height of the lungs into equal stretches, and of
    each stretch that has none yet the slice with much lung near its middle is taken. Without lungs: evenly over the volume.
    """
    total = len(volume.hu)
    if count == 0 or count >= total:
        return tuple(range(total))
    heights = heights_mm(volume)
    area = _lung_area(lungs, heights) if lungs is not None else np.ones(total)
    if not area.any():
        area = np.ones(total)
    chosen = _of_regions(heights, regions, max(1, int(count * REGION_SHARE)))
    return tuple(sorted(chosen | _even(heights, area, count - len(chosen), chosen)))


def heights_mm(volume: Volume) -> NDArray[np.float64]:
    """LPS z of the middle of each slice, (Z,)."""
    _, y, x = volume.hu.shape
    index = np.array([[k, (y - 1) / 2, (x - 1) / 2] for k in range(len(volume.hu))])
    return np.asarray(volume.to_patient(index)[:, 2])


def in_slice(volume: Volume, z: int, y_mm: NDArray[np.float64], x_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Patient coordinates (len y, len x, 3) of the points of one slice, which may lean and turn, at each y and x."""
    (nx, ny, nz), (ox, oy, oz) = volume.axes[0], volume.origin_mm
    y, x = y_mm[:, None], x_mm[None, :]
    height = oz + (volume.along_mm[z] - (x - ox) * nx - (y - oy) * ny) / nz
    return np.stack(np.broadcast_arrays(x, y, height), axis=-1)


def _lung_area(lungs: Lungs, heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Voxels of lung at each slice's height, (Z,)."""
    own = lungs.low_mm[2] + np.arange(len(lungs.mask)) * lungs.step_mm[0]
    return np.asarray(np.interp(heights, own, lungs.mask.sum(axis=(1, 2)).astype(float), left=0.0, right=0.0))


def _of_regions(heights: NDArray[np.float64], regions: Sequence[Region], limit: int) -> set[int]:
    """Slices through the regions' middles; one that a chosen slice already cuts well is left to it."""
    chosen: list[int] = []
    for region in regions:
        off = np.abs(heights - region.center_mm[2])
        nearest = int(np.argmin(off))
        if not any(off[k] <= max(region.size_mm[2] * CUT_WELL, off[nearest]) for k in chosen):
            chosen.append(nearest)
        if len(chosen) == limit:
            break
    return set(chosen)


def _even(heights: NDArray[np.float64], area: NDArray[np.float64], count: int, chosen: set[int]) -> set[int]:
    """`count` more slices: the best of each stretch of lung that has none; where that gives too few, those farthest from the chosen."""
    with_lung = heights[area > 0]
    edges = np.linspace(with_lung.min(), with_lung.max(), len(chosen) + count + 1)
    found: set[int] = set()
    for low, high in pairwise(edges):
        inside = [int(k) for k in np.flatnonzero((heights >= low) & (heights <= high) & (area > 0))]
        if len(found) < count and inside and not (chosen | found) & set(inside):
            off = np.abs(heights[inside] - (low + high) / 2) / max((high - low) / 2, 1e-6)
            found.add(inside[int(np.argmax(area[inside] / area.max() - EVEN * off))])
    while len(found) < count:
        taken = heights[sorted(chosen | found)]
        distance = np.abs(heights[:, None] - taken).min(axis=1) if len(taken) else np.ones(len(heights))
        found.add(int(np.argmax(np.where(area > 0, distance, distance * 1e-3))))
    return found
