"""Windowing: HU → 0…1 by the DICOM linear formula (PS3.3 C.11.2.1.2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Window:
    """Centre (窗位) and width (窗宽) in HU."""

    name: str
    center_hu: float
    width_hu: float

    def apply(self, hu: NDArray[np.float32]) -> NDArray[np.float32]:
        """HU of any shape → float32 in 0…1 of the same shape."""
        low = self.center_hu - 0.5 - (self.width_hu - 1) / 2
        return np.asarray(np.clip((hu - low) / (self.width_hu - 1), 0.0, 1.0), dtype=np.float32)


LUNG = Window("肺窗", -600, 1500)
MEDIASTINUM = Window("纵隔窗", 40, 350)
BONE = Window("骨窗", 450, 1500)
LIVER = Window("肝窗", 60, 150)
ENCODER_WINDOWS = (LUNG, MEDIASTINUM, Window("全窗", 0, 2000))
