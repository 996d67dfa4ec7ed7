"""How noisy a volume is: the standard deviation of HU that a reader would measure in small uniform regions of soft tissue."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.imaging.volume import Volume

REGION_MM = 9.0  # side of the square region: many times the grain of the noise, smaller than heart, liver or muscle
MIN_REGION_VOX = 5
SLICES = 24  # looked at, evenly spread: more tell nothing new
SOFT_HU = (-30.0, 110.0)  # mean of a region of muscle, blood or liver (Christianson et al., AJR 2015;205:W87, take 0 to 170 for the same purpose)
BODY_HU = (-140.0, 200.0)  # where hardly any soft tissue is found: fat too
MIN_REGIONS = 200
DENSEST = 0.4  # the share of regions between whose values the true one is looked for

Array = NDArray[np.float32]


def noise_hu(volume: Volume) -> float:
    """Noise of a volume in HU, one sigma.

    Each square region of 9 mm has a standard deviation. Regions across an edge or a vessel have a larger one, uniform regions agree: the answer is
    the middle of the narrowest interval that holds 40 % of them (the half-sample idea of a mode), so the number of slices does not matter. What a
    region's own mean takes away from coarse-grained noise is given back. Lung is left out: its texture is no noise. Without any soft tissue, the
    whole volume is asked.
    """
    chosen = np.unique(np.linspace(0, len(volume.hu) - 1, SLICES).round().astype(int))
    side = max(MIN_REGION_VOX, round(REGION_MM / volume.spacing_mm[1]) | 1)
    mean, variance, neighbours = (np.concatenate(part) for part in zip(*(_regions(plane, side) for plane in volume.hu[chosen]), strict=True))
    for low, high in (SOFT_HU, BODY_HU, (-np.inf, np.inf)):
        soft = (mean > low) & (mean < high)
        if soft.sum() >= MIN_REGIONS:
            break
    agreeing = _shortest(variance[soft])
    if not agreeing.any():
        return 0.0
    middle = float(np.median(np.sqrt(variance[soft][agreeing])))
    return round(middle / math.sqrt(_kept_share(variance[soft][agreeing], neighbours[soft][agreeing], side)), 2)


def _regions(plane: NDArray[np.int16] | Array, side: int) -> tuple[Array, Array, Array]:
    """Mean, variance and covariance with the next voxel of the square regions of one slice (Y, X), which overlap by half; (N,) each."""
    values = plane.astype(np.float64)
    half = side // 2
    inside = (slice(half, -half, half), slice(half, -half, half))
    mean = ndimage.uniform_filter(values, side)[inside]
    square = ndimage.uniform_filter(values * values, side)[inside]
    product = ndimage.uniform_filter(values * np.roll(values, -1, axis=1), side)[inside]
    return mean.ravel(), np.maximum(square - mean * mean, 0.0).ravel(), (product - mean * mean).ravel()


def _shortest(variance: Array) -> NDArray[np.bool_]:
    """Which regions lie inside the shortest interval of standard deviations that holds DENSEST of them."""
    ordered = np.sort(np.sqrt(variance))
    held = max(1, int(DENSEST * len(ordered)))
    if len(ordered) == 0:
        return np.zeros(0, dtype=bool)
    first = int(np.argmin(ordered[held - 1 :] - ordered[: len(ordered) - held + 1]))
    deviation = np.sqrt(variance)
    return np.asarray((deviation >= ordered[first]) & (deviation <= ordered[first + held - 1]))


def _kept_share(variance: Array, neighbours: Array, side: int) -> float:
    """The share of the noise's variance that is left around a region's mean, for noise whose correlation falls as a Gaussian does.

    With a correlation exp(−d²/4s²), that of white noise under a Gaussian of s voxels, the mean of n voxels keeps 4πs²/n of the variance, and one
    voxel's worth where the noise is white. s follows from the correlation of neighbours, which the mean itself lowers: hence three rounds.
    """
    found = float(np.median(neighbours)) / max(float(np.median(variance)), 1e-9)
    lost = 1.0 / side**2
    for _ in range(3):
        correlation = min(0.95, found * (1.0 - lost) + lost)
        spread = -1.0 / (4.0 * np.log(correlation)) if correlation > 0.02 else 0.0  # s², voxels²
        lost = min(0.5, max(1.0, 4.0 * np.pi * spread) / side**2)
    return 1.0 - lost
