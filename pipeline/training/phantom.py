"""Procedural chest phantoms: what is in them is drawn first (the truth), then rendered in HU on any grid.

Patient coordinates are LPS in mm: +x left, +y posterior, +z superior, the origin in the middle of the chest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.model import Side

LOBES = {Side.RIGHT: ("上叶", "中叶", "下叶"), Side.LEFT: ("上叶", "下叶")}
DENSITIES = ("实性", "磨玻璃", "部分实性")
LOW_DOSE_SHARE = 0.35
EFFUSION_SHARE = 0.25
CONSOLIDATION_SHARE = 0.15
NORMAL_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Lesion:
    """One lesion; terms are the report schema's."""

    kind: str  # 结节 | 实变
    side: Side
    lobe: str
    density: str
    size_mm: float
    center_mm: tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Truth:
    """What a phantom holds."""

    lesions: tuple[Lesion, ...]
    effusion: frozenset[Side]
    low_dose: bool
    seed: int
    kvp: float
    mas: float
    kernel: str

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` is the way back."""
        return asdict(self) | {"effusion": sorted(self.effusion)}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Truth:
        """Truth as `to_json` wrote it."""
        lesions = tuple(Lesion(**lesion | {"side": Side(lesion["side"]), "center_mm": tuple(lesion["center_mm"])}) for lesion in raw["lesions"])
        return cls(**dict(raw) | {"lesions": lesions, "effusion": frozenset(Side(side) for side in raw["effusion"])})

    def dumps(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_json(), ensure_ascii=False, indent=1)


@dataclass(frozen=True, slots=True)
class Lung:
    """One lung: an ellipsoid with its fissures. `oblique` is z = a + b·y; `horizontal_mm` splits the right lung's front."""

    side: Side
    center_mm: tuple[float, float, float]
    axes_mm: tuple[float, float, float]
    oblique: tuple[float, float]
    horizontal_mm: float | None

    def lobe_at(self, y_mm: float, z_mm: float) -> str:
        """The lobe of a point inside this lung."""
        if z_mm < self.oblique[0] + self.oblique[1] * y_mm:
            return "下叶"
        return "中叶" if self.horizontal_mm is not None and z_mm < self.horizontal_mm else "上叶"


@dataclass(frozen=True)
class Phantom:
    """Everything that rendering needs: the anatomy of one patient, the acquisition and the truth."""

    truth: Truth
    body_mm: tuple[float, float]
    lungs: tuple[Lung, ...]
    heart_mm: tuple[float, float, float]
    lung_hu: float
    vessels: NDArray[np.float32]  # (V, 7): x0 y0 z0 x1 y1 z1 radius, mm
    effusion_mm: Mapping[Side, float]  # how far fluid reaches up from the back of the lung
    noise_hu: float
    correlation_vox: float


def draw(seed: int) -> Phantom:
    """The phantom of a seed: the same seed, the same patient."""
    rng = np.random.default_rng(seed)
    lungs = tuple(_lung(rng, side) for side in (Side.RIGHT, Side.LEFT))
    low_dose = bool(rng.random() < LOW_DOSE_SHARE)
    kvp = float(rng.choice([100, 120, 140]))
    mas = float(rng.uniform(15, 40) if low_dose else rng.uniform(90, 250))
    kernel = str(rng.choice(["B30f", "B45f", "B60f"]))
    sharp = {"B30f": 0.8, "B45f": 1.0, "B60f": 1.4}[kernel]
    noise_hu = float(12.0 * sharp * np.sqrt(150.0 / mas) * (120.0 / kvp))
    heart = (25.0 + rng.normal(0, 5), -30.0 + rng.normal(0, 5), -45.0 + rng.normal(0, 8))
    effusion = _effusion(rng)
    lesions = () if rng.random() < NORMAL_SHARE else _lesions(rng, lungs, heart, effusion)
    return Phantom(
        truth=Truth(lesions, frozenset(effusion), low_dose, seed, kvp, round(mas, 1), kernel),
        body_mm=(float(rng.uniform(155, 172)), float(rng.uniform(105, 122))),
        lungs=lungs,
        heart_mm=(float(heart[0]), float(heart[1]), float(heart[2])),
        lung_hu=float(rng.uniform(-890, -810)),
        vessels=_vessels(rng, lungs),
        effusion_mm=effusion,
        noise_hu=noise_hu,
        correlation_vox=float(rng.uniform(0.3, 0.7)),
    )


def _lung(rng: np.random.Generator, side: Side) -> Lung:
    sign = -1.0 if side is Side.RIGHT else 1.0
    center = (sign * rng.uniform(70, 78), rng.uniform(-4, 6), rng.uniform(-6, 6))
    axes = (rng.uniform(50, 58), rng.uniform(74, 84), rng.uniform(116, 128))
    oblique = (rng.uniform(-30, -15), rng.uniform(0.75, 0.95))
    horizontal = float(rng.uniform(8, 20)) if side is Side.RIGHT else None
    return Lung(side, (float(center[0]), float(center[1]), float(center[2])), (float(axes[0]), float(axes[1]), float(axes[2])), oblique, horizontal)


def _effusion(rng: np.random.Generator) -> dict[Side, float]:
    if rng.random() > EFFUSION_SHARE:
        return {}
    sides = [[Side.LEFT], [Side.RIGHT], [Side.LEFT, Side.RIGHT]][int(rng.choice(3, p=[0.38, 0.38, 0.24]))]
    return {side: float(rng.uniform(18, 40)) for side in sides}


def _lesions(
    rng: np.random.Generator, lungs: tuple[Lung, ...], heart: tuple[float, float, float], effusion: Mapping[Side, float]
) -> tuple[Lesion, ...]:
    found: list[Lesion] = []
    for _ in range(int(rng.choice([1, 2, 3], p=[0.55, 0.3, 0.15]))):
        found += _place(rng, lungs, heart, effusion, found, "结节")
    if rng.random() < CONSOLIDATION_SHARE:
        found += _place(rng, lungs, heart, effusion, found, "实变")
    return tuple(found)


def _place(
    rng: np.random.Generator,
    lungs: tuple[Lung, ...],
    heart: tuple[float, float, float],
    effusion: Mapping[Side, float],
    others: list[Lesion],
    kind: str,
) -> list[Lesion]:
    """A lesion well inside one lobe, apart from heart, fluid, fissures and the others; none when 60 draws find no room."""
    for _ in range(60):
        lung = lungs[int(rng.integers(2))]
        size = float(np.round(rng.uniform(8, 30) if kind == "结节" else rng.uniform(32, 55)))
        density = str(rng.choice(DENSITIES, p=[0.5, 0.3, 0.2])) if kind == "结节" else "实性"
        point = np.array(lung.center_mm) + np.array(lung.axes_mm) * rng.uniform(-0.85, 0.85, 3)
        if not _has_room(lung, point, size / 2, heart, effusion.get(lung.side)):
            continue
        if any(np.linalg.norm(point - np.array(o.center_mm)) < (size + o.size_mm) / 2 + 12 for o in others):
            continue
        center = (float(point[0]), float(point[1]), float(point[2]))
        return [Lesion(kind, lung.side, lung.lobe_at(center[1], center[2]), density, size, center)]
    return []


def _has_room(lung: Lung, point: NDArray[np.float64], radius: float, heart: tuple[float, float, float], fluid_mm: float | None) -> bool:
    inner = np.array(lung.axes_mm) - radius - 4
    if (inner <= 8).any() or (((point - np.array(lung.center_mm)) / inner) ** 2).sum() > 1:
        return False
    if (((point - np.array(heart)) / (np.array(HEART_AXES) + radius + 4)) ** 2).sum() < 1:
        return False
    if fluid_mm is not None and point[1] + radius > lung.center_mm[1] + lung.axes_mm[1] - fluid_mm - 4:
        return False
    if abs(point[2] - lung.oblique[0] - lung.oblique[1] * point[1]) < 8:
        return False
    return lung.horizontal_mm is None or abs(point[2] - lung.horizontal_mm) > 6


HEART_AXES = (52.0, 45.0, 55.0)


def _vessels(rng: np.random.Generator, lungs: tuple[Lung, ...]) -> NDArray[np.float32]:
    """Straight segments from each hilum outwards, thinner towards the pleura."""
    rows = []
    for lung in lungs:
        hilum = np.array(lung.center_mm) * np.array([0.55, 1.0, 1.0]) + np.array([0, 5, 0])
        for _ in range(14):
            direction = rng.normal(size=3)
            direction /= np.linalg.norm(direction)
            end = np.array(lung.center_mm) + direction * np.array(lung.axes_mm) * rng.uniform(0.5, 0.9)
            middle = (hilum + end) / 2 + rng.normal(0, 6, 3)
            rows += [[*hilum, *middle, rng.uniform(2.2, 3.8)], [*middle, *end, rng.uniform(1.2, 2.2)]]
    return np.array(rows, dtype=np.float32)  # (V, 7)
