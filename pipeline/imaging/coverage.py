"""Which organs a volume shows: from the place of its slices relative to the lungs, never from the header's BodyPartExamined."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pipeline.imaging.grid import averaged, bounds
from pipeline.imaging.lungs import Lungs
from pipeline.imaging.volume import Volume

LUNG, MEDIASTINUM, HEART = "肺", "纵隔", "心脏"
LIVER, SPLEEN, UPPER_ABDOMEN = "肝", "脾", "上腹"
THYROID, NECK = "甲状腺", "颈部"

SOFT_HU = (-20.0, 250.0)
ORGAN_HU = 25.0  # mean; fluid in the chest has less
LIVER_ML, SPLEEN_ML = 150.0, 80.0  # solid tissue straight below the lung of that side
BELOW_MM = 30.0  # slices below both lung bases
THYROID_MM, NECK_MM = 15.0, 50.0  # above the lung apices: the lower poles lie a thumb's breadth above them
MEDIASTINUM_MM, HEART_MM = 60.0, 150.0  # height of lung in the scan from which they are in it, even where the bases are cut off
BASES_MM = 90.0  # with the bases in the scan, this much lung reaches up to the heart
STEP_MM = 5.0

Mask = NDArray[np.bool_]


def organs_shown(volume: Volume, lungs: Lungs | None) -> tuple[str, ...]:
    """Terms of the organs in the volume; () where no lungs are found: unknown, not empty."""
    if lungs is None or not lungs.mask.any():
        return ()
    low, high = bounds(volume)
    (_, _, base), (_, _, apex) = lungs.box_mm
    below_mm, above_mm, height_mm = base - float(low[2]), float(high[2]) - apex, apex - base
    shown = [LUNG]
    shown += [MEDIASTINUM] if height_mm >= MEDIASTINUM_MM else []
    shown += [HEART] if height_mm >= (BASES_MM if below_mm > STEP_MM else HEART_MM) else []
    shown += _below(volume, lungs, below_mm)
    shown += [THYROID] if above_mm >= THYROID_MM else []
    shown += [NECK] if above_mm >= NECK_MM else []
    return tuple(shown)


def _below(volume: Volume, lungs: Lungs, below_mm: float) -> list[str]:
    """Liver and spleen, told by solid tissue under the lungs; `below_mm` is how far the scan goes below both bases."""
    low = np.asarray(lungs.low_mm)
    hu = averaged(volume, low, low + (np.array(lungs.mask.shape) - 1)[::-1] * np.array(lungs.step_mm)[::-1], lungs.step_mm).hu
    voxel_ml = float(np.prod(lungs.step_mm)) / 1000.0
    found = [LIVER] if _solid(hu, lungs.right) * voxel_ml >= LIVER_ML else []
    found += [SPLEEN] if _solid(hu, _back_half(lungs.left)) * voxel_ml >= SPLEEN_ML else []  # in front lies the heart
    return found + ([UPPER_ABDOMEN] if found and below_mm >= BELOW_MM else [])


def _back_half(lung: Mask) -> Mask:
    """The posterior half of a lung's depth."""
    rows = np.flatnonzero(lung.any(axis=(0, 2)))
    half = np.zeros_like(lung)
    if len(rows):
        middle = int(rows[0] + rows[-1]) // 2
        half[:, middle:] = lung[:, middle:]
    return half


def _solid(hu: NDArray[np.float32], lung: Mask) -> int:
    """Voxels of soft tissue, denser than fluid, that lie below the lowest air in the columns of a lung."""
    under = ~np.logical_or.accumulate(lung, axis=0) & lung.any(axis=0)
    solid = under & (hu > SOFT_HU[0]) & (hu < SOFT_HU[1])
    return int(solid.sum()) if solid.any() and float(hu[solid].mean()) >= ORGAN_HU else 0
