"""Where findings go: apart from each other, heart, vessels, fluid and fissures, so that what the truth says is there to be seen."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipeline.model import Side
from pipeline.training.anatomy import CENTRAL_TENDON_MM, MEDIASTINUM_DEPTH_MM, WALL, Anatomy, Lung, directions, segment_distance_mm
from pipeline.training.truth import DENSITIES, LIVER_KINDS, LOBES, Lesion, LiverLesion, Node, Point

Vector = NDArray[np.floating]

NORMAL_SHARE = 0.16  # drawn so; some more turn out normal by chance
EFFUSION_SHARE, CONSOLIDATION_SHARE, EMPHYSEMA_SHARE, FIBROSIS_SHARE, NODE_SHARE, LIVER_SHARE = 0.25, 0.16, 0.15, 0.14, 0.16, 0.21
NODULE_COUNTS = (0.1, 0.46, 0.28, 0.16)
SMALL_SHARE = 0.12  # of nodules, 6 to 8 mm
CROWD_COUNTS = (3, 9)  # nodules of a crowded phantom
CROWD_SMALL_SHARE, CROWD_MIDDLE_SHARE = 0.4, 0.35  # what is hard to find is what the encoder is shown most often
CROWD_MIDDLE_MM, CROWD_LARGEST_MM = 16.0, 40.0
CROWD_SHARES = {"effusion": 0.25, "consolidation": 0.2, "emphysema": 0.2, "fibrosis": 0.14, "node": 0.3, "liver": 0.55}
CALCIFIED_SHARE = 0.28  # of solid nodules
RETRACTION_SHARE = 0.3  # of nodules that are near enough to the pleura
PLEURA_NEAR_MM = 25.0
FIBROSIS_TOP_MM = 5.0  # above it there is none
FIBROSIS_BAND_MM = 18.0
TRIES = 60
LOBE_SHARES = {Side.RIGHT: (0.36, 0.22, 0.42), Side.LEFT: (0.5, 0.5)}
LIVER_LOW_MM = -118.0  # centres lie higher, so that canonical grids show them


@dataclass(frozen=True)
class Findings:
    """All that is wrong with a patient."""

    lesions: tuple[Lesion, ...] = ()
    nodes: tuple[Node, ...] = ()
    liver: tuple[LiverLesion, ...] = ()
    effusion_mm: Mapping[Side, float] | None = None  # how far fluid reaches up from the back of the lung
    emphysema: frozenset[Side] = frozenset()
    fibrosis: frozenset[Side] = frozenset()


def draw_findings(rng: np.random.Generator, anatomy: Anatomy, crowded: bool = False) -> Findings:
    """Nothing in some patients, else a mixture whose parts are drawn apart from each other. `crowded`: more than any patient has, and smaller."""
    if not crowded and rng.random() < NORMAL_SHARE:
        return Findings(effusion_mm={})
    given = {name: rng.random() < (CROWD_SHARES[name] if crowded else share / (1 - NORMAL_SHARE)) for name, share in _SHARES.items()}
    effusion = {side: float(rng.uniform(18, 40)) for side in _sides(rng, 0.38)} if given["effusion"] else {}
    emphysema = frozenset(_sides(rng, 0.25)) if given["emphysema"] else frozenset()
    fibrosis = frozenset(_sides(rng, 0.25)) - set(effusion) if given["fibrosis"] else frozenset()
    room = Room(anatomy, effusion, fibrosis)
    lesions: list[Lesion] = []
    nodules = int(rng.integers(*CROWD_COUNTS)) if crowded else int(rng.choice(4, p=NODULE_COUNTS))
    for kind in ["实变"] * given["consolidation"] + ["结节"] * nodules:
        lesions += _lesion(rng, room, lesions, kind, crowded)
    nodes: list[Node] = []
    for _ in range(int(rng.integers(1, 3)) if given["node"] else 0):
        nodes += _node(rng, anatomy, nodes)
    liver: list[LiverLesion] = []
    for _ in range(1 + int(rng.random() < (0.75 if crowded else 0.25)) if given["liver"] else 0):
        liver += _liver_lesion(rng, anatomy, liver)
    return Findings(tuple(lesions), tuple(nodes), tuple(liver), effusion, emphysema, fibrosis)


_SHARES = {
    "effusion": EFFUSION_SHARE,
    "consolidation": CONSOLIDATION_SHARE,
    "emphysema": EMPHYSEMA_SHARE,
    "fibrosis": FIBROSIS_SHARE,
    "node": NODE_SHARE,
    "liver": LIVER_SHARE,
}


@dataclass(frozen=True)
class Room:
    """What lesions of the lung keep clear of."""

    anatomy: Anatomy
    effusion_mm: Mapping[Side, float]
    fibrosis: frozenset[Side]


def _sides(rng: np.random.Generator, one: float) -> list[Side]:
    """One side with probability `one` each, else both."""
    return [[Side.LEFT], [Side.RIGHT], [Side.LEFT, Side.RIGHT]][int(rng.choice(3, p=[one, one, 1 - 2 * one]))]


def _lesion(rng: np.random.Generator, room: Room, others: Sequence[Lesion], kind: str, crowded: bool) -> list[Lesion]:
    """A lesion well inside one lobe; none when the draws find no room."""
    size, density = _crowd_size(rng, kind) if crowded else _size(rng, kind), "实性"
    if kind == "结节":
        density = str(rng.choice(DENSITIES, p=[0.4, 0.42, 0.18] if size < 12 else [0.52, 0.26, 0.22]))
    wished = {side: str(rng.choice(LOBES[side], p=shares)) for side, shares in LOBE_SHARES.items()}
    for _ in range(4 * TRIES):
        lung = room.anatomy.lungs[int(rng.integers(2))]
        point = np.array(lung.center_mm) + np.array(lung.axes_mm) * rng.uniform(-0.85, 0.85, 3)
        if lung.lobe_at(float(point[1]), float(point[2])) != wished[lung.side] or not has_room(room, lung, point, size / 2):
            continue
        if any(np.linalg.norm(point - np.array(o.center_mm)) < (size + o.size_mm) / 2 + 12 for o in others):
            continue
        center = _point(point)
        lobe = lung.lobe_at(center[1], center[2])
        if kind == "实变":
            return [Lesion(kind, lung.side, lobe, density, size, center, "模糊")]
        margin = _margin(rng, size, density)
        calcified = density == "实性" and bool(rng.random() < CALCIFIED_SHARE)
        gap = pleura_gap_mm(room.anatomy, lung, center) - size / 2
        near = gap <= PLEURA_NEAR_MM and lung.side not in room.fibrosis
        return [Lesion(kind, lung.side, lobe, density, size, center, margin, calcified, near and bool(rng.random() < RETRACTION_SHARE))]
    return []


def _size(rng: np.random.Generator, kind: str) -> float:
    """Largest diameter, whole mm."""
    if kind == "实变":
        return float(np.round(rng.uniform(32, 55)))
    return float(np.round(rng.uniform(6, 8) if rng.random() < SMALL_SHARE else rng.uniform(8, 30)))


def _crowd_size(rng: np.random.Generator, kind: str) -> float:
    """The same for a crowded phantom, whose nodules are mostly small."""
    if kind == "实变":
        return _size(rng, kind)
    drawn = rng.random()
    if drawn < CROWD_SMALL_SHARE:
        return float(np.round(rng.uniform(6, 10)))
    return float(np.round(rng.uniform(8, CROWD_MIDDLE_MM if drawn < CROWD_SMALL_SHARE + CROWD_MIDDLE_SHARE else CROWD_LARGEST_MM)))


def _margin(rng: np.random.Generator, size_mm: float, density: str) -> str:
    """Larger and solid nodules are spiculated more often; every combination occurs."""
    p = (0.6, 0.22, 0.18) if size_mm < 10 else (0.46, 0.3, 0.24) if density == "磨玻璃" or size_mm < 15 else (0.3, 0.32, 0.38)
    return str(rng.choice(("光滑", "分叶", "毛刺"), p=p))


def has_room(room: Room, lung: Lung, point: Vector, radius: float) -> bool:
    """A ball there is inside the lung and clear of everything that would hide it or blur its lobe."""
    anatomy, x, y, z = room.anatomy, *(float(value) for value in point)
    inner = np.array(lung.axes_mm) - radius - 4
    if (inner <= 8).any() or (((point - np.array(lung.center_mm)) / inner) ** 2).sum() > 1:
        return False
    if anatomy.heart.level(point, radius + 4) < 1 or segment_distance_mm(anatomy.blood, point).min() < radius + 4:
        return False
    if segment_distance_mm(anatomy.airways, point).min() < radius + 5:
        return False
    if not (_above_dome(lung, x, y, z, radius + 4) and _inside_wall(anatomy, x, y, radius + 4) and _beside_mediastinum(anatomy, x, y, radius + 4)):
        return False
    fluid_mm = room.effusion_mm.get(lung.side)
    if fluid_mm is not None and y + radius > lung.center_mm[1] + lung.axes_mm[1] - fluid_mm - 4:
        return False
    if lung.side in room.fibrosis and z - radius < FIBROSIS_TOP_MM and pleura_gap_mm(anatomy, lung, _point(point)) < radius + FIBROSIS_BAND_MM + 3:
        return False
    if abs(z - lung.oblique[0] - lung.oblique[1] * y) < 8:
        return False
    return lung.horizontal_mm is None or abs(z - lung.horizontal_mm) > 6


def _above_dome(lung: Lung, x: float, y: float, z: float, reach: float) -> bool:
    step = 0.5
    slope_x = float(lung.floor_mm(x + step, y) - lung.floor_mm(x - step, y)) / (2 * step)
    slope_y = float(lung.floor_mm(x, y + step) - lung.floor_mm(x, y - step)) / (2 * step)
    return z - float(lung.floor_mm(x, y)) > reach * math.sqrt(1 + slope_x**2 + slope_y**2)


def _inside_wall(anatomy: Anatomy, x: float, y: float, reach: float) -> bool:
    a, b = anatomy.body_mm
    return (x / (WALL * a - reach)) ** 2 + (y / (WALL * b - reach)) ** 2 < 1


def _beside_mediastinum(anatomy: Anatomy, x: float, y: float, reach: float) -> bool:
    return (x / (anatomy.mediastinum_mm + reach)) ** 2 + (y / (MEDIASTINUM_DEPTH_MM + reach)) ** 2 > 1


_WAYS = directions(160)


def pleura_gap_mm(anatomy: Anatomy, lung: Lung, center_mm: Point) -> float:
    """From a point inside a lung to the nearest costal pleura."""
    return float(np.linalg.norm(nearest_pleura(anatomy, lung, center_mm) - np.array(center_mm)))


def nearest_pleura(anatomy: Anatomy, lung: Lung, center_mm: Point) -> Vector:
    """The nearest of some 160 points on the costal pleura, seen from a point inside a lung."""
    center, a, b = np.array(center_mm), *anatomy.body_mm
    ellipsoid = _exit(center - np.array(lung.center_mm), _WAYS, np.array(lung.axes_mm))
    wall = _exit(center, _WAYS, np.array([WALL * a, WALL * b, np.inf]))
    reach = np.minimum(ellipsoid, wall)  # (160,)
    best = int(reach.argmin())
    return np.asarray(center + reach[best] * _WAYS[best])


def _exit(start: Vector, ways: Vector, axes: Vector) -> Vector:
    """How far rays from inside an ellipsoid at the origin go until they leave it, (N,)."""
    p, w = start / axes, ways / axes
    a, b, c = (w * w).sum(axis=1), (w * p).sum(axis=1), float((p * p).sum()) - 1
    return np.asarray((-b + np.sqrt(np.maximum(b * b - a * c, 0))) / np.maximum(a, 1e-12))


STATIONS: tuple[tuple[Point, Point], ...] = (  # boxes: from, to
    ((-28.0, -4.0, 56.0), (-10.0, 24.0, 98.0)),  # right paratracheal
    ((-8.0, 20.0, 0.0), (8.0, 42.0, 20.0)),  # subcarinal
    ((-14.0, -62.0, 36.0), (14.0, -46.0, 70.0)),  # prevascular
)
NODE_STRETCH = 1.3  # length along z beside the short axis


def _node(rng: np.random.Generator, anatomy: Anatomy, others: Sequence[Node]) -> list[Node]:
    """A node clearly in fat."""
    for _ in range(4 * TRIES):
        low, high = STATIONS[int(rng.choice(len(STATIONS), p=[0.4, 0.35, 0.25]))]
        point, size = rng.uniform(low, high), float(np.round(rng.uniform(11, 25)))
        if not in_fat(anatomy, point, size / 2 + 2):
            continue
        if all(np.linalg.norm(point - np.array(o.center_mm)) > NODE_STRETCH * (size + o.size_mm) / 2 + 8 for o in others):
            return [Node(size, _point(point))]
    return []


def in_fat(anatomy: Anatomy, point: Vector, radius: float) -> bool:
    """A ball there touches nothing of the mediastinum but fat."""
    x, y, z = (float(value) for value in point)
    a, b = anatomy.mediastinum_mm - radius, MEDIASTINUM_DEPTH_MM - radius
    clear = min(segment_distance_mm(anatomy.blood, point).min(), segment_distance_mm(anatomy.airways, point).min() - 1.5)
    spine_gap = float(np.hypot(x, y - 0.66 * anatomy.body_mm[1])) - 18.0
    beside = np.hypot(x - 4.0, y - 44.0) - 6.5  # the oesophagus
    inside = a > 0 and b > 0 and (x / a) ** 2 + (y / b) ** 2 < 1 and z > -60
    return bool(inside and min(clear, spine_gap, beside) > radius and anatomy.heart.level(point, radius) > 1)


def _liver_lesion(rng: np.random.Generator, anatomy: Anatomy, others: Sequence[LiverLesion]) -> list[LiverLesion]:
    """A lesion well inside the liver, as high as scans of the chest show it."""
    kind = str(rng.choice(LIVER_KINDS, p=[0.4, 0.25, 0.35]))
    for _ in range(4 * TRIES):
        size = float(np.round(rng.uniform(12, 35)))
        low, high = np.array([-125.0, -70.0, LIVER_LOW_MM]), np.array([15.0, 55.0, CENTRAL_TENDON_MM])
        point = rng.uniform(low, high)
        if not in_liver(anatomy, point, size / 2 + 5):
            continue
        if all(np.linalg.norm(point - np.array(o.center_mm)) > (size + o.size_mm) / 2 + 10 for o in others):
            return [LiverLesion(kind, size, _point(point))]
    return []


def in_liver(anatomy: Anatomy, point: Vector, radius: float) -> bool:
    """A ball there is all liver."""
    x, y, z = (float(value) for value in point)
    around = [anatomy.diaphragm_mm(x + radius * dx, y + radius * dy) for dx in (-1, 0, 1) for dy in (-1, 0, 1)]
    back = np.hypot(x, y - 0.66 * anatomy.body_mm[1]) > radius + 20
    under = z + radius < min(map(float, around)) - 2
    return bool(anatomy.liver.level(point, -radius) < 1 and under and back and _inside_wall(anatomy, x, y, radius + 3))


def _point(point: Vector) -> Point:
    return float(point[0]), float(point[1]), float(point[2])
