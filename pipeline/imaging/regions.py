"""Regions where something may be: blobs inside the lungs at several sizes, vessels and sheets suppressed, the best first.

A blob of diameter d answers most to a Laplacian of Gaussian of sigma d / (2·√3); the difference of two Gaussians stands for it (Lowe, IJCV 2004;
60:91). Vessels have one flat direction: the ratio of the smallest to the largest curvature tells them from blobs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.imaging.grid import Grid, averaged
from pipeline.imaging.lungs import Lungs, closing
from pipeline.imaging.volume import Volume

NODULE, CONSOLIDATION = "结节", "实变"

STEP_MM = 2.0
SIGMAS_MM = (1.5, 2.1, 3.0, 4.2)  # on the grid of 2 mm: diameters of 5 to 15 mm
SIGMAS_COARSE_MM = (4.2, 6.0, 8.5, 12.0)  # on one of 4 mm: 15 to 40 mm
RATIO = 1.6  # between the Gaussians of a difference
LUNG_HU = -850.0
CONTRAST_HU = 850.0  # soft tissue in lung: a response of 1
MIN_RESPONSE = 0.03
MIN_ROUNDNESS = 0.15
LOOKED_AT = 80  # strongest peaks of each size that are looked at closely
LARGE_MM = 30.0  # from here it is no nodule (Fleischner Society: glossary of terms, Radiology 2008;246:697)
DENSE_HU = -400.0
CORE_MM = 7.0  # half the thickness of dense tissue that is no vessel
PLEURAL_MM = 18.0  # radius of the largest lesion that is found where it sits on the pleura
MARGIN_MM = 12.0  # around the lungs, so that borders do not count as edges

Array = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Region:
    """A box in patient LPS that fits tightly around something; `score` is 0…1, comparable within one volume."""

    center_mm: tuple[float, float, float]  # x, y, z
    size_mm: tuple[float, float, float]  # x, y, z: whole lengths of the box
    score: float
    kind: str  # 结节 | 实变


@dataclass(frozen=True, slots=True)
class _Peak:
    index: NDArray[np.int64]  # z, y, x
    sigma_mm: float
    response: float


def candidate_regions(volume: Volume, lungs: Lungs, limit: int) -> tuple[Region, ...]:
    """At most `limit` regions, the likeliest first; the same volume gives the same regions."""
    grid, inside = _lung_box(volume, lungs)
    values = np.where(inside, np.clip(grid.hu, -1000.0, 50.0), np.float32(LUNG_HU))
    found = _large(grid, inside)
    for factor, sigmas in ((1, SIGMAS_MM), (2, SIGMAS_COARSE_MM)):
        own = grid if factor == 1 else _halved(grid)
        field = values if factor == 1 else _mean_of_blocks(values)
        found += [region for peak in _peaks(field, STEP_MM * factor, sigmas) if (region := _judged(peak, field, own)) is not None]
    return _apart(sorted(found, key=lambda region: (-region.score, region.center_mm)), limit)


def _lung_box(volume: Volume, lungs: Lungs) -> tuple[Grid, Mask]:
    """The volume around the lungs on a cubic grid, and which of its voxels lie in a lung or in what a lesion on the pleura takes from it."""
    low, high = (np.array(corner) for corner in lungs.box_mm)
    grid = averaged(volume, low - MARGIN_MM, high + MARGIN_MM, (STEP_MM, STEP_MM, STEP_MM))
    lung = closing(lungs.left, PLEURAL_MM, lungs.step_mm) | closing(lungs.right, PLEURAL_MM, lungs.step_mm)
    index = []
    for axis in range(3):  # z, y, x
        places = grid.low_mm[2 - axis] + np.arange(grid.hu.shape[axis]) * STEP_MM
        index.append(np.rint((places - lungs.low_mm[2 - axis]) / lungs.step_mm[axis]).astype(int))
    within = [(i >= 0) & (i < n) for i, n in zip(index, lung.shape, strict=True)]
    picked = lung[np.ix_(*(np.clip(i, 0, n - 1) for i, n in zip(index, lung.shape, strict=True)))]
    return grid, picked & within[0][:, None, None] & within[1][:, None] & within[2]


def _halved(grid: Grid) -> Grid:
    low = grid.low_mm
    return Grid(_mean_of_blocks(grid.hu), (low[0] + STEP_MM / 2, low[1] + STEP_MM / 2, low[2] + STEP_MM / 2), (2 * STEP_MM,) * 3)


def _mean_of_blocks(values: Array) -> Array:
    """(Z, Y, X) → the means of blocks of 2 × 2 × 2; an odd last plane is left out."""
    z, y, x = (n // 2 for n in values.shape)
    return np.asarray(values[: 2 * z, : 2 * y, : 2 * x].reshape(z, 2, y, 2, x, 2).mean(axis=(1, 3, 5)), dtype=np.float32)


def _peaks(values: Array, step_mm: float, sigmas_mm: tuple[float, ...]) -> list[_Peak]:
    """Local maxima of the difference of Gaussians at each size, the strongest of each."""
    found = []
    for sigma in sigmas_mm:
        narrow, wide = (ndimage.gaussian_filter(values, s / step_mm, mode="nearest", truncate=3.0) for s in (sigma, sigma * RATIO))
        response = (narrow - wide) / np.float32(CONTRAST_HU)
        highest = ndimage.maximum_filter(response, size=2 * max(1, round(sigma / step_mm)) + 1) == response
        where = np.argwhere(highest & (response > MIN_RESPONSE))
        strength = response[tuple(where.T)]
        order = np.lexsort((*where.T[::-1], -strength))[:LOOKED_AT]
        found += [_Peak(where[n], sigma, float(strength[n])) for n in order]
    return found


def _judged(peak: _Peak, values: Array, grid: Grid) -> Region | None:
    """A peak as a region: its response, weighed by how round it is and how much lung is around it. None where it is no blob at all."""
    step = grid.step_mm[0]
    round_share = _roundness(values, peak.index, peak.sigma_mm / step)
    if round_share < MIN_ROUNDNESS:
        return None
    radius = np.sqrt(3) * peak.sigma_mm / step
    free = min(1.0, 1.5 * _air_around(grid.hu, peak.index, radius))
    score = np.sqrt(min(1.0, 2.0 * peak.response)) * round_share**2 * free  # the root: ground glass has a third of the contrast
    size = round(2 * _half_radius(values, peak.index, radius) * step, 1)
    x, y, z = (round(float(v), 2) for v in grid.to_patient(peak.index.astype(float)))
    return Region((x, y, z), (size, size, size), round(float(score), 4), CONSOLIDATION if size > LARGE_MM else NODULE)


def _half_radius(values: Array, index: NDArray[np.int64], radius: float) -> float:
    """Where the mean over a sphere falls to halfway between the middle and lung, in voxels, from half `radius` to twice it."""
    patch, distance = _around(values, index, 2 * radius)
    means = [float(patch[(distance >= r - 0.5) & (distance < r + 0.5)].mean()) for r in range(int(2 * radius) + 1)]
    half = (max(means[0], means[min(1, len(means) - 1)]) + LUNG_HU) / 2
    below = [r for r, mean in enumerate(means) if mean < half]
    if not below or below[0] == 0:
        return radius
    outer = below[0]
    share = (means[outer - 1] - half) / max(means[outer - 1] - means[outer], 1e-6)
    return float(np.clip(outer - 1 + share, radius / 2, 2 * radius))


def _roundness(values: Array, index: NDArray[np.int64], sigma: float) -> float:
    """Smallest over largest curvature at a bright spot softened by `sigma` voxels: 1 a ball, about 0 a vessel or a sheet."""
    reach = int(np.ceil(3 * sigma)) + 1
    spans = [slice(max(0, int(i) - reach), int(i) + reach + 1) for i in index]
    patch = ndimage.gaussian_filter(values[tuple(spans)].astype(np.float64), sigma, mode="nearest", truncate=3.0)
    at = tuple(int(i) - span.start for i, span in zip(index, spans, strict=True))
    if any(not 0 < a < n - 1 for a, n in zip(at, patch.shape, strict=True)):
        return 0.0
    cube = patch[tuple(slice(a - 1, a + 2) for a in at)]  # (3, 3, 3)
    curvature = np.linalg.eigvalsh(_hessian(cube))
    return float(curvature[2] / curvature[0]) if curvature[2] < 0 else 0.0


def _hessian(cube: NDArray[np.float64]) -> NDArray[np.float64]:
    """Second differences at the middle of a cube of 3 × 3 × 3 values; (3, 3)."""
    second = np.empty((3, 3))
    for a in range(3):
        line = np.moveaxis(cube, a, 0)[:, 1, 1]
        second[a, a] = line[0] - 2 * line[1] + line[2]
        for b in range(a):
            plane = np.moveaxis(cube, (a, b), (0, 1))[:, :, 1]
            second[a, b] = second[b, a] = (plane[2, 2] - plane[2, 0] - plane[0, 2] + plane[0, 0]) / 4
    return second


def _air_around(hu: Array, index: NDArray[np.int64], radius: float) -> float:
    """Share of lung-dark voxels in the shell from 1.3 to 2 radii around a spot."""
    patch, distance = _around(hu, index, 2 * radius)
    shell = (distance >= 1.3 * radius) & (distance <= max(2 * radius, 1.3 * radius + 1))
    return float((patch[shell] < DENSE_HU).mean()) if shell.any() else 0.0


def _around(values: Array, index: NDArray[np.int64], radius: float) -> tuple[Array, NDArray[np.float64]]:
    """The values within a cube around a spot, and each one's distance from it in voxels."""
    reach = int(np.ceil(radius)) + 1
    spans = [slice(max(0, int(i) - reach), int(i) + reach + 1) for i in index]
    patch = values[tuple(spans)]
    z, y, x = np.ogrid[tuple(slice(s.start - int(i), s.start - int(i) + n) for s, i, n in zip(spans, index, patch.shape, strict=True))]
    return patch, np.sqrt(z * z + y * y + x * x)


def _large(grid: Grid, inside: Mask) -> list[Region]:
    """Dense tissue in the lungs thicker than any vessel there, and larger than a nodule."""
    dense = inside & (grid.hu > DENSE_HU)
    core = ndimage.distance_transform_edt(dense, sampling=STEP_MM) > CORE_MM
    labels, count = ndimage.label(core)
    found = []
    for number, box in enumerate(ndimage.find_objects(labels), 1):
        low, high = (np.array([getattr(s, end) for s in box], dtype=float) for end in ("start", "stop"))
        size = (high - low) * STEP_MM + 2 * CORE_MM  # z, y, x
        if size.max() <= LARGE_MM:
            continue
        share = float((labels[box] == number).mean())
        center = grid.to_patient((low + high - 1) / 2)
        x, y, z = (round(float(v), 2) for v in center)
        wide = [round(float(v), 1) for v in size[::-1]]
        found.append(Region((x, y, z), (wide[0], wide[1], wide[2]), round(min(1.0, 0.5 + share / 2), 4), CONSOLIDATION))
    return found if count else []


def _apart(ranked: list[Region], limit: int) -> tuple[Region, ...]:
    """The best of those that overlap."""
    kept: list[Region] = []
    for region in ranked:
        if len(kept) == limit:
            break
        if all(_distance(region, other) > (max(region.size_mm) + max(other.size_mm)) / 4 for other in kept):
            kept.append(region)
    return tuple(kept)


def _distance(one: Region, other: Region) -> float:
    return float(np.linalg.norm(np.subtract(one.center_mm, other.center_mm)))
