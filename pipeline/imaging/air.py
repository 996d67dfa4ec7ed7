"""Air inside the body on a coarse grid, as the compact encoder was trained to be centred on it: its centre and midline come from here, unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.imaging.grid import bounds, sampled
from pipeline.imaging.volume import Volume

COARSE_MM = 5.0  # grid on which it is looked for, in plane and between slices
AIR_BELOW_HU = -320.0
MEDIASTINUM_SHIFT_MM = 40.0  # how far from the middle of the body it is looked for
NEARLY_EMPTY = 0.08  # of the fullest column
BRIDGED = 2  # columns fuller than that between two empty runs: the windpipe
MIN_LUNG_ML = 250.0
SMALL_BESIDE = 0.1  # of the largest piece: gas in the stomach, where the windpipe joins both lungs into one
MAX_LUNG_ML = 6_000.0

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class LungAir:
    """Air of two lungs (axes z, y, x = superior, posterior, left). `midline_x` is the voxel column between the lungs."""

    mask: Mask  # (Z, Y, X)
    midline_x: float
    volume_ml: float


def coarse_air(volume: Volume) -> tuple[LungAir | None, NDArray[np.float64], float]:
    """The air of two lungs on a grid of 5 mm, the patient coordinates (x, y, z) of that grid's first voxel, and its step in mm."""
    low, high = bounds(volume)
    x, y, z = (np.arange(a, b + COARSE_MM / 2, COARSE_MM) for a, b in zip(low, high, strict=True))
    return find_lung_air(sampled(volume, volume.hu, z, y, x), (COARSE_MM, COARSE_MM, COARSE_MM)), low, COARSE_MM


def find_lung_air(hu: NDArray[np.float32], spacing_mm: tuple[float, float, float]) -> LungAir | None:
    """The air of two lungs in a volume whose axes are z, y, x = superior, posterior, left; None when there are none.

    Air that reaches the front, back or side border is outside the body. Of the rest, the one or two largest pieces are lungs when their
    volume is a human's and one lies on each side of their common middle.
    """
    air = hu < AIR_BELOW_HU
    outer = outside(air)
    pieces, count = ndimage.label(air & ~outer)
    if count == 0:
        return None
    voxel_ml = float(np.prod(spacing_mm)) / 1000.0
    sizes = np.bincount(pieces.ravel())[1:] * voxel_ml
    least_ml = max(MIN_LUNG_ML / 4, SMALL_BESIDE * float(sizes.max()))
    kept = [int(label) + 1 for label in np.argsort(sizes)[::-1][:2] if sizes[label] >= least_ml]
    mask = np.isin(pieces, kept)
    volume_ml = float(mask.sum()) * voxel_ml
    if not MIN_LUNG_ML <= volume_ml <= MAX_LUNG_ML:
        return None
    return _two_sided(mask, volume_ml, middle_of(~outer), spacing_mm[2])


def outside(air: Mask) -> Mask:
    """Air that reaches the front, back or side border, but not through a leak of one or two voxels: where a lung lies against thin skin."""
    labels, _ = ndimage.label(ndimage.binary_erosion(air, border_value=1))
    border = np.concatenate([labels[:, 0].ravel(), labels[:, -1].ravel(), labels[:, :, 0].ravel(), labels[:, :, -1].ravel()])
    wide = np.isin(labels, np.unique(border[border > 0]))
    return np.asarray(ndimage.binary_dilation(wide, iterations=2, mask=air))


def middle_of(body: Mask) -> float:
    """The column halfway between the sides of the body, without the outermost hundredth: arms, table, wires."""
    filled = np.cumsum(body.sum(axis=(0, 1)))
    low, high = np.searchsorted(filled, [0.01 * filled[-1], 0.99 * filled[-1]])
    return float(low + high) / 2


def valley_of(mask: Mask, middle: float, step_mm: float) -> float:
    """The middle of the nearly empty columns of a mask near the middle: between the lungs, whose windpipe is a little air too."""
    columns = mask.sum(axis=(0, 1)).astype(float)  # (X,)
    reach = MEDIASTINUM_SHIFT_MM / step_mm
    low, high = max(0, round(middle - reach)), min(len(columns), round(middle + reach) + 1)
    smooth = ndimage.gaussian_filter1d(columns[low:high], 1.0)
    empty = smooth <= smooth.min() + NEARLY_EMPTY * (columns.max() - smooth.min()) + 1e-6
    lowest = int(smooth.argmin())
    pieces, _ = ndimage.label(ndimage.binary_closing(empty, iterations=BRIDGED))
    return low + float(np.flatnonzero(pieces == pieces[lowest]).mean())


def _two_sided(mask: Mask, volume_ml: float, middle: float, step_mm: float) -> LungAir | None:
    """Refuse air on one side only (bowel, one cavity): each side of the mediastinum must hold a fifth of it."""
    columns = mask.sum(axis=(0, 1)).astype(float)  # (X,)
    valley = valley_of(mask, middle, step_mm)
    left_share = columns[int(np.ceil(valley)) :].sum() / columns.sum()
    return LungAir(mask, valley, volume_ml) if 0.2 <= left_share <= 0.8 else None
