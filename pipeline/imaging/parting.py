"""Parting lungs that touch: in front of or behind the mediastinum only a membrane lies between them, thinner than a voxel."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

MAX_BRIDGE_MM = 24.0  # thickness of a bridge between lungs that is still cut
SOME = 0.03  # share of a piece across the midline from which a second lung in it is looked for
BOTH_SIDES = 0.12  # from which it counts as two lungs, whether it can be cut or not
CORE_ML = 25.0

Mask = NDArray[np.bool_]


def parted(air: Mask, step_mm: tuple[float, float, float], middle: float) -> tuple[Mask, Mask]:
    """(right, left): each piece of air goes whole to its side of the midline; one that fills both sides is cut at its narrowest."""
    labels, count = ndimage.label(air)
    right, left = np.zeros_like(air), np.zeros_like(air)
    if count == 0:
        return right, left
    for number, box in enumerate(ndimage.find_objects(labels), 1):
        piece = labels[box] == number
        offset = middle - box[2].start
        share = _left_share(piece, offset)
        across = min(share, 1 - share)
        halves = _cut(piece, step_mm, offset) if across >= SOME else None
        if halves is None and across >= BOTH_SIDES:
            halves = _split_at(piece, offset)
        if halves is None:
            halves = (piece, np.zeros_like(piece)) if share < 0.5 else (np.zeros_like(piece), piece)
        right[box] |= halves[0]
        left[box] |= halves[1]
    return right, left


def _left_share(piece: Mask, middle: float) -> float:
    columns = piece.sum(axis=(0, 1))
    return float(columns[max(0, int(np.ceil(middle))) :].sum() / columns.sum())


def _cut(piece: Mask, step_mm: tuple[float, float, float], middle: float) -> tuple[Mask, Mask] | None:
    """Wear the piece down until a core is left on each side, then let both grow back; None where it stays in one."""
    smallest = CORE_ML * 1000.0 / float(np.prod(step_mm))
    worn, thickness = piece, 0
    while thickness * step_mm[2] * 2 <= MAX_BRIDGE_MM:
        labels, count = ndimage.label(worn)
        sizes = np.bincount(labels.ravel(), minlength=count + 1)
        sizes[0] = 0
        cores = [int(n) for n in np.argsort(sizes)[::-1] if sizes[n] >= smallest]
        if len(cores) > 1:
            at = {n: float(np.average(np.arange(piece.shape[2]), weights=(labels == n).sum(axis=(0, 1)))) for n in cores}
            rights, lefts = ([n for n in cores if (at[n] < middle) is side] for side in (True, False))
            if rights and lefts:
                return _regrown(piece, np.isin(labels, rights), np.isin(labels, lefts))
        worn = ndimage.binary_erosion(worn, border_value=1)
        thickness += 1
    return None


def _regrown(piece: Mask, right: Mask, left: Mask) -> tuple[Mask, Mask]:
    """Both cores grow inside the piece, a voxel at a time and in turn, until nothing is free; what neither reaches goes to the nearer."""
    free = piece & ~right & ~left
    while free.any():
        more_right = ndimage.binary_dilation(right) & free
        more_left = ndimage.binary_dilation(left) & free & ~more_right
        if not (more_right.any() or more_left.any()):
            break
        right, left = right | more_right, left | more_left
        free &= ~more_right & ~more_left
    return right, left


def _split_at(piece: Mask, middle: float) -> tuple[Mask, Mask]:
    """Where the lungs run into each other too widely: the plane of the midline."""
    is_left = np.arange(piece.shape[2]) > middle
    return piece & ~is_left, piece & is_left
