"""The anatomy of one invented patient: body, lungs with lobes, diaphragm, heart, great vessels, airways, upper abdomen, and the lungs' vessel trees.

Patient coordinates are LPS in mm: +x left, +y posterior, +z superior, the origin in the middle of the chest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.model import Side
from pipeline.training.truth import Point

Floats = NDArray[np.floating]
Segments = NDArray[np.float32]  # (S, 8): x0 y0 z0 x1 y1 z1 and the radius at either end, mm

WALL = 0.88  # of the body's half axes: where ribs and muscle begin
BREADTH = 0.35  # how far the dome falls per unit of squared distance from its middle, in lung half axes, as a share of 100 mm
CENTRAL_TENDON_MM = -84.0
MEDIASTINUM_DEPTH_MM = 76.0
VESSEL_TRUNKS = 9
BRANCHINGS = 4
CARINA: Point = (1.0, 17.0, 42.0)


@dataclass(frozen=True, slots=True)
class Ellipsoid:
    """Axis-aligned; half axes in mm."""

    center_mm: Point
    axes_mm: Point

    def level(self, point_mm: Sequence[float] | Floats, grown_mm: float = 0.0) -> float:
        """Below 1 inside the ellipsoid with half axes `grown_mm` longer; inf where nothing is left of it."""
        axes = np.array(self.axes_mm) + grown_mm
        return float((((np.asarray(point_mm) - np.array(self.center_mm)) / axes) ** 2).sum()) if (axes > 0).all() else np.inf


@dataclass(frozen=True, slots=True)
class Lung:
    """One lung: an ellipsoid on its dome, with its fissures. `oblique` is z = a + b·y; `horizontal_mm` splits the right one's front."""

    side: Side
    center_mm: Point
    axes_mm: Point
    oblique: tuple[float, float]
    horizontal_mm: float | None
    dome_mm: float = -70.0  # height of the dome's top

    def lobe_at(self, y_mm: float, z_mm: float) -> str:
        """The lobe of a point inside this lung."""
        if z_mm < self.oblique[0] + self.oblique[1] * y_mm:
            return "下叶"
        return "中叶" if self.horizontal_mm is not None and z_mm < self.horizontal_mm else "上叶"

    def floor_mm(self, x_mm: Floats | float, y_mm: Floats | float) -> Floats:
        """Height of the diaphragm below this lung."""
        x, y = (x_mm - self.center_mm[0]) / self.axes_mm[0], (y_mm - self.center_mm[1]) / self.axes_mm[1]
        return np.asarray(self.dome_mm - 100.0 * BREADTH * (x * x + y * y))


@dataclass(frozen=True)
class Anatomy:
    """What surrounds findings, apart from the lung's vessels."""

    body_mm: tuple[float, float]  # half axes x, y
    lungs: tuple[Lung, Lung]  # right, left
    mediastinum_mm: float  # half width
    heart: Ellipsoid
    liver: Ellipsoid
    spleen: Ellipsoid
    stomach: Ellipsoid
    bubble: bool  # gas in the stomach
    blood: Segments  # great vessels
    airways: Segments

    def diaphragm_mm(self, x_mm: Floats | float, y_mm: Floats | float) -> Floats:
        """Height of the diaphragm: both domes and the central tendon between them."""
        right, left = (lung.floor_mm(x_mm, y_mm) for lung in self.lungs)
        return np.asarray(np.maximum(np.maximum(right, left), CENTRAL_TENDON_MM))

    def lung(self, side: Side) -> Lung:
        """The lung of a side."""
        return self.lungs[0] if side is Side.RIGHT else self.lungs[1]


def draw_anatomy(rng: np.random.Generator) -> Anatomy:
    """A patient."""
    body = float(rng.uniform(155, 172)), float(rng.uniform(105, 122))
    width = float(rng.uniform(31, 36))
    return Anatomy(
        body_mm=body,
        lungs=(_lung(rng, Side.RIGHT), _lung(rng, Side.LEFT)),
        mediastinum_mm=width,
        heart=Ellipsoid(_near(rng, (24.0, -30.0, -38.0), (4.0, 4.0, 4.0)), _near(rng, (51.0, 43.0, 46.0), (2.0, 2.0, 2.0))),
        liver=Ellipsoid(_near(rng, (-48.0, -8.0, -122.0), (5.0, 4.0, 3.0)), _near(rng, (90.0, 80.0, 62.0), (4.0, 4.0, 2.0))),
        spleen=Ellipsoid(_near(rng, (100.0, 38.0, -116.0), (3.0, 3.0, 4.0)), _near(rng, (28.0, 44.0, 36.0), (3.0, 4.0, 4.0))),
        stomach=Ellipsoid(_near(rng, (58.0, -26.0, -124.0), (4.0, 4.0, 4.0)), _near(rng, (36.0, 38.0, 32.0), (3.0, 3.0, 3.0))),
        bubble=bool(rng.random() < 0.55),
        blood=_blood(body[1]),
        airways=_airways(rng, width),
    )


def _near(rng: np.random.Generator, middle: Point, spread: Point) -> Point:
    """Around a middle, at most `spread` off."""
    x, y, z = np.array(middle) + rng.uniform(-1, 1, 3) * np.array(spread)
    return float(x), float(y), float(z)


def _lung(rng: np.random.Generator, side: Side) -> Lung:
    sign = -1.0 if side is Side.RIGHT else 1.0
    center = _near(rng, (sign * 74.0, 1.0, 0.0), (4.0, 5.0, 6.0))
    axes = _near(rng, (54.0, 79.0, 122.0), (4.0, 5.0, 6.0))
    oblique = float(rng.uniform(-30, -15)), float(rng.uniform(0.75, 0.95))
    horizontal = float(rng.uniform(8, 20)) if side is Side.RIGHT else None
    dome = float(rng.uniform(-70, -61) if side is Side.RIGHT else rng.uniform(-79, -70))
    return Lung(side, center, axes, oblique, horizontal, dome)


def _blood(depth_mm: float) -> Segments:
    """Aorta with its arch, the superior vena cava and the pulmonary trunk with both arteries."""
    back = 0.42 * depth_mm
    rows = [
        (-8, -30, -12, -6, -26, 48, 15, 14.5),  # ascending aorta
        (-6, -26, 48, 20, 0, 62, 13, 12.5),  # arch
        (20, 0, 62, 20, back - 4, 52, 12.5, 12),
        (20, back - 4, 52, 17, back, 30, 12, 11.5),  # descending aorta
        (17, back, 30, 14, back, -200, 11.5, 10.5),
        (-20, -18, 0, -21, -17, 90, 8, 7.5),  # superior vena cava
        (10, -38, 8, 16, -12, 30, 13, 11),  # pulmonary trunk
        (12, -10, 28, -36, 3, 22, 9, 8),
        (16, -10, 32, 38, 12, 30, 9, 8),
    ]
    return np.array(rows, dtype=np.float32)  # (9, 8)


def _airways(rng: np.random.Generator, width_mm: float) -> Segments:
    """Trachea, main bronchi, and a first branch into each lung."""
    x, y, z = CARINA
    right, left = (-width_mm - 3, 13.0, 22.0), (width_mm + 6, 17.0, 19.0)
    rows = [(x, y + 1, 170, x, y, z, 9.0, 9.0), (x, y, z, *right, 7.0, 6.0), (x, y, z, *left, 6.5, 5.5)]
    for start, sign in ((right, -1.0), (left, 1.0)):
        rows.append((*start, start[0] + sign * rng.uniform(8, 14), start[1] + rng.uniform(4, 14), start[2] - rng.uniform(18, 30), 4.5, 3.0))
        rows.append((*start, start[0] + sign * rng.uniform(8, 14), start[1] - rng.uniform(8, 18), start[2] + rng.uniform(10, 22), 4.0, 2.6))
    return np.array(rows, dtype=np.float32)  # (7, 8)


def vessel_tree(rng: np.random.Generator, anatomy: Anatomy) -> NDArray[np.float32]:
    """Vessels of both lungs as segments (V, 7): both ends x, y, z and a radius, mm; from each hilum outwards, branching and getting thinner."""
    starts, goals = [], []
    for lung in anatomy.lungs:
        sign = -1.0 if lung.side is Side.RIGHT else 1.0
        hilum = np.array([sign * (anatomy.mediastinum_mm + 1), 10.0, 22.0])
        starts.append(hilum + rng.normal(0, 5, (VESSEL_TRUNKS, 3)))
        goals.append(np.array(lung.center_mm) + _spread(rng, VESSEL_TRUNKS) * np.array(lung.axes_mm) * np.array([0.7, 0.75, 0.75]))
    start, way = np.concatenate(starts), np.concatenate(goals) - np.concatenate(starts)
    radius, rows = rng.uniform(2.8, 4.0, len(start)), []
    for _ in range(BRANCHINGS + 1):
        end = start + way * rng.uniform(0.34, 0.5, (len(start), 1)) + rng.normal(0, 2.5, start.shape)
        rows.append(np.column_stack([start, end, radius]))
        left = np.repeat(start + way - end, 2, axis=0)
        reach = np.linalg.norm(left, axis=1, keepdims=True)
        turned = left + rng.normal(0, 0.6, left.shape) * reach
        way = turned * reach / np.maximum(np.linalg.norm(turned, axis=1, keepdims=True), 1.0)
        start, radius = np.repeat(end, 2, axis=0), np.repeat(radius, 2) * rng.uniform(0.62, 0.8, len(left))
    return np.concatenate(rows).astype(np.float32)


def _spread(rng: np.random.Generator, count: int) -> Floats:
    """Unit vectors over the whole sphere, (count, 3)."""
    turned = directions(count) @ _rotation(rng)
    return np.asarray(turned)


def directions(count: int) -> Floats:
    """Evenly spread unit vectors (count, 3): a Fibonacci sphere."""
    index = np.arange(count) + 0.5
    z = 1 - 2 * index / count
    angle = np.pi * (1 + 5**0.5) * index
    ring = np.sqrt(1 - z * z)
    return np.stack([ring * np.cos(angle), ring * np.sin(angle), z], axis=1)


def _rotation(rng: np.random.Generator) -> Floats:
    q, r = np.linalg.qr(rng.normal(size=(3, 3)))
    return np.asarray(q * np.sign(np.diag(r)))


def segment_distance_mm(segments: Segments, point_mm: Sequence[float] | Floats) -> Floats:
    """How far a point lies from the surface of each segment, (S,); negative inside."""
    start, end = segments[:, :3].astype(np.float64), segments[:, 3:6].astype(np.float64)
    along = end - start
    t = np.clip(((np.asarray(point_mm) - start) * along).sum(axis=1) / np.maximum((along**2).sum(axis=1), 1e-9), 0, 1)
    radius = segments[:, 6] + t * (segments[:, 7] - segments[:, 6])
    return np.asarray(np.linalg.norm(np.asarray(point_mm) - start - t[:, None] * along, axis=1) - radius)
