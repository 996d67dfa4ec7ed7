"""Two volumes from two readers: is it the same place, and are the voxels the same?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SAME_PLACE_MM = 0.01
FIELD_OF_VIEW_HU = -1024.0  # lower values are padding or lie outside the field of view, where each reader writes what it likes
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Grid:
    """Voxels `hu[k, j, i]`; `(k, j, i, 1) @ affine.T` is their place in patient LPS, mm."""

    hu: NDArray[np.generic]  # (K, J, I) of any number type
    affine: Numbers  # (4, 4)


def affine_of(axes: Numbers, spacing_mm: Numbers, origin_mm: Numbers) -> Numbers:
    """(4, 4) from unit vectors (a row per array axis, LPS), spacing per array axis and the place of voxel 0, 0, 0."""
    made = np.eye(4)
    made[:3, :3], made[:3, 3] = (axes * spacing_mm[:, None]).T, origin_mm
    return made


def differing(one: Grid, other: Grid) -> int | None:
    """Voxels in the field of view of `one` that have another value in `other`; None where the two are not the same grid turned or flipped."""
    turned = _turned(one, other)
    if turned is None:
        return None
    count = 0
    for slab, its in zip(one.hu, turned, strict=True):  # a slice at a time: two volumes of floats would not fit on a small machine
        seen = slab >= FIELD_OF_VIEW_HU
        count += int(np.count_nonzero(slab[seen] != its[seen])) + int(np.count_nonzero(its[~seen] > FIELD_OF_VIEW_HU))
    return count


def _turned(one: Grid, other: Grid) -> NDArray[np.generic] | None:
    """`other.hu` with the axes of `one`, a view."""
    change = np.linalg.inv(other.affine) @ one.affine  # indices of one → indices of other
    turn = np.rint(change[:3, :3]).astype(int)
    if not np.array_equal(np.abs(turn).sum(axis=0), [1, 1, 1]) or not np.array_equal(np.abs(turn).sum(axis=1), [1, 1, 1]):
        return None
    order = [int(np.flatnonzero(turn[:, axis])[0]) for axis in range(3)]  # axis of other for each axis of one
    view = other.hu.transpose(order)[tuple(slice(None, None, int(turn[order[axis], axis])) for axis in range(3))]
    return view if view.shape == one.hu.shape and _same_corners(one, other, turn) else None


def _same_corners(one: Grid, other: Grid, turn: NDArray[np.int_]) -> bool:
    """Whether both put the first and the last voxel at the same place."""
    last = np.array(other.hu.shape) - 1
    start = np.where(turn.sum(axis=1) < 0, last, 0)
    ends = [(np.zeros(3), start), (np.array(one.hu.shape) - 1, last - start)]
    return all(np.abs(_place(one, at) - _place(other, there)).max() < SAME_PLACE_MM for at, there in ends)


def _place(grid: Grid, index: NDArray[np.float64] | NDArray[np.int_]) -> Numbers:
    return np.asarray(grid.affine[:3, :3] @ index + grid.affine[:3, 3])
