"""Two classical measures that noise disturbs, to show what denoising does to them: the outline of a nodule, and fine lines in the lung."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Array = NDArray[np.float32]
Mask = NDArray[np.bool_]

LINE_MM = 0.9  # scale of the lines that are looked for
LINE_HU = 55.0  # response of a line that counts
ROUND = 0.5  # curvature along a line, as a share of that across it: more is a dot


def sphere_distance_mm(shape: tuple[int, ...], center: tuple[float, float, float], step_mm: tuple[float, float, float]) -> Array:
    """Distance of each voxel from a centre in voxels; z, y, x."""
    z, y, x = ((np.arange(n) - c) * s for n, c, s in zip(shape, center, step_mm, strict=True))
    return np.asarray(np.sqrt(z[:, None, None] ** 2 + y[None, :, None] ** 2 + x[None, None, :] ** 2), dtype=np.float32)


def outlined(hu: Array, distance_mm: Array, size_mm: float) -> Mask:
    """A nodule whose centre and rough size a reader gave: everything above the middle between its core and its surroundings that hangs together
    with the core, within 1.5 radii and 2 mm."""
    radius = size_mm / 2
    core = distance_mm <= max(1.5, 0.35 * radius)
    around = (distance_mm > 1.4 * radius + 2) & (distance_mm < 1.4 * radius + 8)
    if not core.any() or not around.any():
        return np.zeros(hu.shape, dtype=bool)
    threshold = float(np.median(hu[core]) + np.median(hu[around])) / 2
    pieces, _ = ndimage.label((hu > threshold) & (distance_mm <= 1.5 * radius + 2))
    labels = pieces[core]
    labels = labels[labels > 0]
    return np.asarray(pieces == np.bincount(labels).argmax()) if len(labels) else np.zeros(hu.shape, dtype=bool)


def dice(found: Mask, true: Mask) -> float:
    """Overlap of two masks, 0…1."""
    total = int(found.sum()) + int(true.sum())
    return 2.0 * int((found & true).sum()) / total if total else 1.0


def line_share(hu: Array, lung: Mask, step_mm: float) -> float:
    """Share of the lung (Z, Y, X) that shows fine bright lines: the classical sign of thickened septa.

    The stronger curvature of each slice (eigenvalues of the Hessian, Frangi et al. 1998), counted where it is a line and not a dot.
    """
    sigma = LINE_MM / step_mm
    inside = np.where(lung, hu, float(np.median(hu[lung])) if lung.any() else 0.0)  # the lung's edge is no line
    yy, xx, yx = (ndimage.gaussian_filter(inside, (0, sigma, sigma), order=order) for order in ((0, 2, 0), (0, 0, 2), (0, 1, 1)))
    middle, spread = (yy + xx) / 2, np.sqrt(((yy - xx) / 2) ** 2 + yx**2)
    across, along = middle - spread, middle + spread  # across a bright line the curvature is most negative
    lines = (-across * sigma**2 > LINE_HU) & (np.abs(along) < ROUND * np.abs(across))
    return float((lines & lung).sum() / max(1, lung.sum()))
