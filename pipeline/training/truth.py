"""What a phantom holds: findings with their place and size, and how it was scanned. Terms are the report schema's.

Patient coordinates are LPS in mm: +x left, +y posterior, +z superior, the origin in the middle of the chest.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from pipeline.model import Side

LOBES = {Side.RIGHT: ("上叶", "中叶", "下叶"), Side.LEFT: ("上叶", "下叶")}
DENSITIES = ("实性", "磨玻璃", "部分实性")
MARGINS = ("光滑", "分叶", "毛刺", "模糊")
LIVER_KINDS = ("囊肿", "血管瘤", "低密度灶")
SIDED = ("effusion", "emphysema", "fibrosis")

Point = tuple[float, float, float]  # x, y, z in mm


@dataclass(frozen=True, slots=True)
class Lesion:
    """One lesion of a lung. `size_mm` is the largest diameter of its body, spicules not counted."""

    kind: str  # 结节 | 实变
    side: Side
    lobe: str
    density: str
    size_mm: float
    center_mm: Point
    margin: str = "光滑"  # 光滑 | 分叶 | 毛刺 of a nodule, 模糊 of a consolidation
    calcified: bool = False
    retraction: bool = False  # 胸膜牵拉


@dataclass(frozen=True, slots=True)
class Node:
    """An enlarged lymph node of the mediastinum; `size_mm` is its short axis."""

    size_mm: float
    center_mm: Point


@dataclass(frozen=True, slots=True)
class LiverLesion:
    """A lesion of the liver; `size_mm` is its diameter."""

    kind: str  # 囊肿 | 血管瘤 | 低密度灶
    size_mm: float
    center_mm: Point


@dataclass(frozen=True, slots=True)
class Truth:
    """What a phantom holds, and the acquisition as its DICOM headers tell it."""

    lesions: tuple[Lesion, ...]
    effusion: frozenset[Side]
    low_dose: bool
    seed: int
    kvp: float
    mas: float
    kernel: str
    nodes: tuple[Node, ...] = ()
    liver: tuple[LiverLesion, ...] = ()
    emphysema: frozenset[Side] = frozenset()
    fibrosis: frozenset[Side] = frozenset()
    contrast: bool = False
    thickness_mm: float = 5.0

    @property
    def is_normal(self) -> bool:
        """Nothing to report."""
        return not (self.lesions or self.nodes or self.liver or self.effusion or self.emphysema or self.fibrosis)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` is the way back."""
        return asdict(self) | {name: sorted(getattr(self, name)) for name in SIDED}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Truth:
        """Truth as `to_json` wrote it, also by an older version that knew fewer findings."""
        found = dict(raw)
        found["lesions"] = tuple(Lesion(**_placed(one) | {"side": Side(one["side"])}) for one in raw["lesions"])
        found["nodes"] = tuple(Node(**_placed(one)) for one in raw.get("nodes", ()))
        found["liver"] = tuple(LiverLesion(**_placed(one)) for one in raw.get("liver", ()))
        found |= {name: frozenset(Side(side) for side in raw.get(name, ())) for name in SIDED}
        return cls(**found)

    def dumps(self) -> str:
        """One JSON document."""
        return json.dumps(self.to_json(), ensure_ascii=False, indent=1)


def _placed(raw: Mapping[str, Any]) -> dict[str, Any]:
    return dict(raw) | {"center_mm": tuple(raw["center_mm"])}
