"""Lungs by classical means on the HU volume; left and right by patient coordinates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

AIR_BELOW_HU = -320.0
MEDIASTINUM_SHIFT_MM = 40.0  # how far from the middle of the body it is looked for
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
    outside = _outside(air)
    inner = air & ~outside
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
    return _two_sided(mask, volume_ml, _body_middle(~outside), spacing_mm[2])


def _outside(air: Mask) -> Mask:
    """Air that reaches the front, back or side border, but not through a leak of one or two voxels: where a lung lies against thin skin."""
    labels, _ = ndimage.label(ndimage.binary_erosion(air, border_value=1))
    border = np.concatenate([labels[:, 0].ravel(), labels[:, -1].ravel(), labels[:, :, 0].ravel(), labels[:, :, -1].ravel()])
    wide = np.isin(labels, np.unique(border[border > 0]))
    return np.asarray(ndimage.binary_dilation(wide, iterations=2, mask=air))


def _body_middle(body: Mask) -> float:
    """The column halfway between the sides of the body, without the outermost hundredth: arms, table, wires."""
    filled = np.cumsum(body.sum(axis=(0, 1)))
    low, high = np.searchsorted(filled, [0.01 * filled[-1], 0.99 * filled[-1]])
    return float(low + high) / 2


def _two_sided(mask: Mask, volume_ml: float, middle: float, step_mm: float) -> Lungs | None:
    """Refuse air on one side only (bowel, one cavity): each side of the mediastinum must hold a fifth of it."""
    columns = mask.sum(axis=(0, 1)).astype(float)  # (X,)
    reach = MEDIASTINUM_SHIFT_MM / step_mm
    low, high = max(0, round(middle - reach)), min(len(columns), round(middle + reach) + 1)
    valley = low + _emptiest(columns[low:high])
    left_share = columns[int(np.ceil(valley)) :].sum() / columns.sum()
    return Lungs(mask, valley, volume_ml) if 0.2 <= left_share <= 0.8 else None


def _emptiest(columns: NDArray[np.float64]) -> float:
    """The middle of the emptiest columns."""
    smooth = ndimage.gaussian_filter1d(columns, 1.0)
    return float(np.flatnonzero(smooth <= smooth.min() + 1e-6).mean())
