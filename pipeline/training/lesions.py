"""Findings as matter: the shape of each nodule, what it does to its surroundings, holes of emphysema, the lattice of fibrosis, nodes, liver lesions.

A shape is decided by the phantom's seed and the finding's place, so that changing one finding leaves the others as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from pipeline.training.anatomy import Anatomy, Ellipsoid, Lung, Segments, directions
from pipeline.training.placing import FIBROSIS_BAND_MM, FIBROSIS_TOP_MM, NODE_STRETCH, nearest_pleura
from pipeline.training.tissue import (
    SOFT_HU,
    Array,
    Grid,
    balls_share,
    box_of,
    ellipsoid_box,
    ellipsoid_share,
    over,
    raised,
    ramp,
    segment_shares,
)
from pipeline.training.truth import Lesion, LiverLesion, Node

SOLID_HU, GLASS_HU = 35.0, -560.0
CORE = 0.55  # radius of a part-solid nodule's solid core beside its own
BUMP_SHARE, BUMP_MM, MOST_BUMP = 0.12, 1.1, 0.24  # of the radius, but no less than so many mm where that is no more than the last
CLEFT = 0.74  # cosine between a lobe's direction and where the cleft beside it is deepest
BLUR_MM = 7.0  # how wide the edge of a consolidation is
HOLE_HU = -975.0
HOLES = 700  # per lung
AROUND_HOLES_HU = 28.0  # what lung with emphysema loses between the holes
CYST_HU, HAEMANGIOMA_HU, HYPODENSE_HU, RIM_HU = 8.0, 40.0, 30.0, 150.0


@dataclass(frozen=True)
class Shape:
    """A nodule's outline: lobes (their directions, none: round), spicules as segments, and the calcified core."""

    radius_mm: float  # of the ball that the lobes stand on
    depth: float  # of the clefts and height of the lobes, as a share of the radius
    lobes: NDArray[np.float32]  # (K, 3)
    spicules: Segments  # (S, 8)
    core_mm: float
    core_hu: float


def _rng(seed: int, place: tuple[float, float, float], what: int) -> np.random.Generator:
    """One stream per finding, the same for its mirror image."""
    x, y, z = place
    return np.random.default_rng([seed, what, round(abs(x) * 100), round((y + 1000) * 100), round((z + 1000) * 100)])


@lru_cache(maxsize=256)
def shape_of(seed: int, lesion: Lesion) -> Shape:
    """The outline of a nodule of a phantom."""
    rng = _rng(seed, lesion.center_mm, 1)
    sign = 1.0 if lesion.center_mm[0] > 0 else -1.0
    lobes, depth, radius = np.zeros((0, 3), dtype=np.float32), 0.0, lesion.size_mm / 2
    if lesion.margin == "分叶":
        lobes, depth = _lobes(rng), min(max(BUMP_SHARE, BUMP_MM / radius), MOST_BUMP)
        radius = lesion.size_mm / _largest_diameter(lobes, depth)
    spicules = _spicules(rng, lesion) if lesion.margin == "毛刺" else np.zeros((0, 8), dtype=np.float32)
    mirror = np.array([sign, 1, 1], dtype=np.float32)
    spicules[:, [0, 3]] = lesion.center_mm[0] + sign * spicules[:, [0, 3]]
    return Shape(radius, depth, lobes * mirror, spicules, float(rng.uniform(0.4, 0.55)) * lesion.size_mm / 2, float(rng.uniform(260, 400)))


def _lobes(rng: np.random.Generator) -> NDArray[np.float32]:
    """Four or five lobes around and one at either pole."""
    count = int(rng.integers(4, 6))
    angle = 2 * np.pi * (np.arange(count) + rng.uniform(-0.18, 0.18, count) + rng.random()) / count
    z = rng.uniform(-0.3, 0.3, count)
    around = np.stack([np.cos(angle), np.sin(angle), z], axis=1)
    poles = np.concatenate([rng.normal(0, 0.2, (2, 2)), [[1.0], [-1.0]]], axis=1)
    found = np.concatenate([around, poles])
    return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


_SPHERE = directions(240).astype(np.float32)


def _largest_diameter(lobes: NDArray[np.float32], depth: float) -> float:
    """Of a lobed ball of radius 1."""
    reach = _lobed(_SPHERE @ lobes.T, depth)
    return float(pdist(_SPHERE * reach[:, None]).max())


def _lobed(cosines: NDArray[np.float32], depth: float) -> NDArray[np.float32]:
    """Radius of a lobed ball of radius 1 in the directions whose cosines to each lobe are given (…, K)."""
    high = np.clip((cosines.max(axis=-1) - CLEFT) / (1 - CLEFT), 0, 1)
    return np.asarray(1 + depth * (2 * high - 1), dtype=np.float32)


def _spicules(rng: np.random.Generator, lesion: Lesion) -> Segments:
    """Thin tapering lines out of the surface, most of them near the axial plane; x counts from the lesion's centre, mirrored alike on both sides."""
    count = int(rng.integers(12, 17))
    angle = 2 * np.pi * (np.arange(count) + rng.uniform(-0.3, 0.3, count)) / count
    ways = np.stack([np.cos(angle), np.sin(angle), rng.normal(0, 0.32, count)], axis=1)
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    radius, center = lesion.size_mm / 2, np.array([0.0, *lesion.center_mm[1:]])
    length = rng.uniform(5, 10, (count, 1))
    start, end = center + ways * (radius - 1.5), center + ways * (radius + length)
    thick = rng.uniform(1.0, 1.4, (count, 1))
    return np.hstack([start, end, thick, 0.5 * thick]).astype(np.float32)


def paint_lesion(hu: Array, grid: Grid, lesion: Lesion, seed: int, anatomy: Anatomy) -> None:
    """One lesion of the lung, with what it does around itself."""
    x, y, z = lesion.center_mm
    reach = lesion.size_mm / 2 + 12.0 + PLEURAL_MM * lesion.retraction
    if box_of(grid, (x - reach, y - reach, z - reach), (x + reach, y + reach, z + reach)) is None:
        return
    if lesion.kind == "实变":
        _paint_consolidation(hu, grid, lesion)
        return
    shape = shape_of(seed, lesion)
    if lesion.retraction:
        _paint_lines(hu, grid, retraction_of(anatomy, anatomy.lung(lesion.side), lesion), SOLID_HU)
    _paint_lines(hu, grid, shape.spicules, SOLID_HU)
    _paint_ball(hu, grid, lesion, shape, 1.0, SOLID_HU if lesion.density == "实性" else GLASS_HU)
    if lesion.density == "部分实性":
        _paint_ball(hu, grid, lesion, shape, CORE, SOLID_HU)
    if lesion.calcified:
        core = Ellipsoid(lesion.center_mm, (shape.core_mm,) * 3)
        _paint_solid(hu, grid, core, shape.core_hu)


PLEURAL_MM = 26.0


def retraction_of(anatomy: Anatomy, lung: Lung, lesion: Lesion) -> Segments:
    """A strand from a nodule to the nearest pleura, and the tent of pleura that it pulls in, (2, 8)."""
    center = np.array(lesion.center_mm)
    pleura = nearest_pleura(anatomy, lung, lesion.center_mm)
    way = (pleura - center) / max(float(np.linalg.norm(pleura - center)), 1e-6)
    start, tent = center + way * (lesion.size_mm / 2 - 1.5), pleura - way * 7.0
    rows = [[*start, *pleura, 1.3, 1.6], [*tent, *(pleura + way * 2.0), 1.0, 6.5]]
    return np.array(rows, dtype=np.float32)


def _paint_lines(hu: Array, grid: Grid, lines: Segments, target_hu: float) -> None:
    for box, share in segment_shares(grid, lines):
        raised(hu[box], share, target_hu)


def _paint_ball(hu: Array, grid: Grid, lesion: Lesion, shape: Shape, scale: float, target_hu: float) -> None:
    """The body of a nodule, or its core."""
    radius = shape.radius_mm * scale
    reach = radius * (1 + shape.depth) + max(grid.step_mm)
    box = box_of(grid, *_around(lesion.center_mm, reach))
    if box is None:
        return
    part = grid.part(box)
    x, y, z = (axis - np.float32(c) for axis, c in zip((part.x_mm, part.y_mm, part.z_mm), lesion.center_mm, strict=True))
    x, y, z = x[None, None, :], y[None, :, None], z[:, None, None]
    sz, sy, sx = (np.float32(s) for s in grid.step_mm)
    distance = np.sqrt(x * x + y * y + z * z + np.float32(1e-4))  # (Z, Y, X)
    width = np.sqrt((x * sx) ** 2 + (y * sy) ** 2 + (z * sz) ** 2 + np.float32(1e-4)) / distance
    if len(shape.lobes):
        high = np.full(distance.shape, -1.0, dtype=np.float32)
        for a, b, c in shape.lobes.tolist():
            np.maximum(high, (a * x + b * y + c * z) / distance, out=high)
        outline = radius * _lobed(high[..., None], shape.depth)
    else:
        outline = np.full((1, 1, 1), radius, dtype=np.float32)
    mean = (grid.step_mm[0] * grid.step_mm[1] * grid.step_mm[2]) ** (1 / 3)
    gain = radius**2 / (radius**2 + mean**2 / 4) if radius < mean else 1.0  # smaller than a voxel: no more than it holds
    raised(hu[box], ramp(distance - outline, np.maximum(width, min(grid.step_mm))) * np.float32(gain), target_hu)


def _paint_consolidation(hu: Array, grid: Grid, lesion: Lesion) -> None:
    """A lumpy cloud with a blurred edge."""
    radius = lesion.size_mm / 2
    box = box_of(grid, *_around(lesion.center_mm, radius + 9))
    if box is None:
        return
    part = grid.part(box)
    x, y, z = (axis - np.float32(c) for axis, c in zip((part.x_mm, part.y_mm, part.z_mm), lesion.center_mm, strict=True))
    lumps = np.float32(3.0) * np.sin(np.abs(part.x_mm) / 5.0)[None, :] * np.cos(part.y_mm / 6.0)[:, None]  # (Y, X)
    distance = np.sqrt((x * x)[None, None, :] + (y * y)[None, :, None] + (z * z)[:, None, None]) + lumps[None]
    raised(hu[box], ramp(distance - np.float32(radius), np.float32(max(BLUR_MM, grid.step_mm[0]))), SOLID_HU)


def _paint_solid(hu: Array, grid: Grid, one: Ellipsoid, target_hu: float, blur_mm: float = 0.0) -> None:
    if (box := ellipsoid_box(grid, one, blur_mm)) is not None:
        over(hu[box], ellipsoid_share(grid.part(box), one, blur_mm), np.float32(target_hu))


def _around(center: tuple[float, float, float], reach: float) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    x, y, z = center
    return (x - reach, y - reach, z - reach), (x + reach, y + reach, z + reach)


def paint_node(hu: Array, grid: Grid, node: Node) -> None:
    """Soft tissue, longer along the body than across."""
    radius = node.size_mm / 2
    _paint_solid(hu, grid, Ellipsoid(node.center_mm, (radius, radius, NODE_STRETCH * radius)), SOFT_HU)


def paint_liver_lesion(hu: Array, grid: Grid, one: LiverLesion, seed: int, contrast: bool) -> None:
    """A cyst is sharp, a hypodense lesion blurred; contrast medium lights up nodules along a haemangioma's rim."""
    radius = one.size_mm / 2
    ball = Ellipsoid(one.center_mm, (radius, radius, radius))
    if ellipsoid_box(grid, ball, 8.0) is None:
        return
    target = {"囊肿": CYST_HU, "血管瘤": HAEMANGIOMA_HU, "低密度灶": HYPODENSE_HU}[one.kind]
    lift = 20.0 if contrast and one.kind != "囊肿" else 0.0
    _paint_solid(hu, grid, ball, target + lift, 0.45 * radius if one.kind == "低密度灶" else 0.0)
    if one.kind == "血管瘤" and contrast:
        rng = _rng(seed, one.center_mm, 2)
        count = int(rng.integers(5, 8))
        angle = 2 * np.pi * (np.arange(count) + rng.uniform(-0.25, 0.25, count)) / count
        for turn, height, share in zip(angle, rng.uniform(-0.35, 0.35, count), rng.uniform(0.24, 0.34, count), strict=True):
            x, y, z = np.array(one.center_mm) + radius * (1 - share) * np.array([np.cos(turn), np.sin(turn), height])
            _paint_solid(hu, grid, Ellipsoid((float(x), float(y), float(z)), (share * radius,) * 3), RIM_HU)


@lru_cache(maxsize=64)
def holes_of(seed: int, lung: Lung) -> Array:
    """Holes of 4 to 10 mm in one lung (N, 4), most of them high up."""
    rng = np.random.default_rng([seed, 3, round(abs(lung.center_mm[0]) * 100)])
    ways = rng.normal(size=(4 * HOLES, 3))
    points = ways / np.linalg.norm(ways, axis=1, keepdims=True) * rng.random((4 * HOLES, 1)) ** (1 / 3) * 0.96
    kept = points[rng.random(len(points)) < np.clip(0.25 + 0.75 * points[:, 2], 0.06, 1)][:HOLES]
    centers = np.array(lung.center_mm) + kept * np.array(lung.axes_mm)
    return np.hstack([centers, rng.uniform(2.0, 5.0, (len(kept), 1))]).astype(np.float32)


def paint_emphysema(hu: Array, grid: Grid, lung: Lung, seed: int) -> None:
    """Holes in the tissue of one lung, and a little less density between them."""
    hu -= np.float32(AROUND_HOLES_HU)
    if (share := balls_share(grid, holes_of(seed, lung))) is not None:
        over(hu, share, np.float32(HOLE_HU))


def paint_fibrosis(hu: Array, grid: Grid, lung: Lung, anatomy: Anatomy, seed: int) -> None:
    """Coarse reticulation in a band along the pleura of the base: denser lung with a lattice of 5 to 8 mm."""
    rng = np.random.default_rng([seed, 4, round(abs(lung.center_mm[0]) * 100)])
    period, band, phase = rng.uniform(5.5, 8.0, 3), float(rng.uniform(12.0, FIBROSIS_BAND_MM)), rng.uniform(0, 6, 3)
    low = np.clip((FIBROSIS_TOP_MM - 6.0 - grid.z_mm) / 12.0, 0, 1).astype(np.float32)  # (Z,)
    if not low.any():
        return
    share = _rim(grid, lung, anatomy, band) * low[:, None, None]
    if not share.any():
        return
    x, y, z = grid.x_mm[None, :], grid.y_mm[:, None], grid.z_mm
    wave_x = np.abs(np.sin(np.pi * (np.abs(x) + 2.2 * np.sin(y / 9.0 + phase[0])) / period[0]))  # (Y, X)
    wave_y = np.abs(np.sin(np.pi * (y + 2.2 * np.sin(np.abs(x) / 10.0 + phase[1])) / period[1]))
    walls = (1 - np.minimum(wave_x, wave_y)) ** 1.5  # (Y, X): 1 on a wall
    drift = (0.85 + 0.15 * np.sin(z / period[2] + phase[2])).astype(np.float32)  # (Z,)
    target = drift[:, None, None] * (np.float32(560.0) * walls.astype(np.float32))[None] - np.float32(830.0)
    hu += share * np.maximum(target - hu, 0)


def _rim(grid: Grid, lung: Lung, anatomy: Anatomy, band_mm: float) -> Array:
    """1 near the costal pleura of a lung, 0 deeper than the band, (Z, Y, X)."""
    u, v, w = (
        ((axis - np.float32(c)) / np.float32(a)).astype(np.float32)
        for axis, c, a in zip((grid.x_mm, grid.y_mm, grid.z_mm), lung.center_mm, lung.axes_mm, strict=True)
    )
    level = (u * u)[None, None, :] + (v * v)[None, :, None] + (w * w)[:, None, None]
    slopes = [(2 * q / np.float32(a)) ** 2 for q, a in zip((u, v, w), lung.axes_mm, strict=True)]
    slope = np.sqrt(slopes[0][None, None, :] + slopes[1][None, :, None] + slopes[2][:, None, None] + np.float32(1e-8))
    depth = (1 - level) / slope  # mm below the ellipsoid
    a, b = anatomy.body_mm
    radial = np.sqrt((grid.x_mm[None, :] / np.float32(a)) ** 2 + (grid.y_mm[:, None] / np.float32(b)) ** 2)
    wall = (np.float32(0.88) - radial) * np.float32(b)  # (Y, X) mm inside the chest wall
    outward = u * np.float32(np.sign(lung.center_mm[0]))
    costal = np.clip(outward * 2 + np.float32(1.2), 0, 1)  # (X,): not along the mediastinum
    return np.asarray(np.clip((band_mm - np.minimum(depth, wall[None])) / 4.0, 0, 1) * costal[None, None, :], dtype=np.float32)
