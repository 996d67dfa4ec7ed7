"""Lungs by classical means on the HU volume; left and right by patient coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

AIR_BELOW_HU = -320.0
OPENING_MM = 4.0
MIN_LUNG_ML = 250.0
MAX_LUNG_ML = 6_000.0

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Lungs:
    """Lung air on a canonical grid (axes z, y, x = superior, posterior, left). `midline_x` is the voxel column between the lungs."""

    mask: Mask  # (Z, Y, X)
    midline_x: float
    volume_ml: float


def find_lungs(hu: NDArray[np.float32], spacing_mm: tuple[float, float, float]) -> Lungs | None:
    """The lungs of a volume whose axes are z, y, x = superior, posterior, left; None when there are none.

    Air that reaches the front, back or side border is outside the body. Of the rest, the one or two largest pieces are lungs when their
    volume is a human's and one lies on each side of their common middle.
    """
    air = hu < AIR_BELOW_HU
    labels, _ = ndimage.label(air)
    outside = np.unique(np.concatenate([labels[:, 0].ravel(), labels[:, -1].ravel(), labels[:, :, 0].ravel(), labels[:, :, -1].ravel()]))
    inner = air & ~np.isin(labels, outside)
    pieces, count = ndimage.label(inner)
    if count == 0:
        return None
    voxel_ml = float(np.prod(spacing_mm)) / 1000.0
    sizes = np.bincount(pieces.ravel())[1:] * voxel_ml
    kept = [int(label) + 1 for label in np.argsort(sizes)[::-1][:2] if sizes[label] >= MIN_LUNG_ML / 4]
    mask = np.isin(pieces, kept)
    volume_ml = float(mask.sum()) * voxel_ml
    if not MIN_LUNG_ML <= volume_ml <= MAX_LUNG_ML:
        return None
    return _two_sided(mask, volume_ml)


def _two_sided(mask: Mask, volume_ml: float) -> Lungs | None:
    """Refuse air on one side only (bowel, one cavity): each side of the middle must hold a fifth of it."""
    columns = mask.sum(axis=(0, 1)).astype(float)  # (X,)
    middle = _valley(columns)
    left_share = columns[int(np.ceil(middle)) :].sum() / columns.sum()
    return Lungs(mask, middle, volume_ml) if 0.2 <= left_share <= 0.8 else None


def _valley(columns: NDArray[np.float64]) -> float:
    """The emptiest column of the middle half of the lungs: where the mediastinum is."""
    smooth = ndimage.gaussian_filter1d(columns, 2.0)
    filled = np.flatnonzero(columns)
    low, high = np.percentile(filled, [25, 75]).astype(int)
    return float(low + np.argmin(smooth[low : high + 1]))
