"""The close look at a point: a small block of HU at a fixed step, from the volume at its own resolution."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipeline.encoder.net import FINE, FINE_MM
from pipeline.imaging.grid import sampled
from pipeline.imaging.volume import Volume

Looks = Callable[[NDArray[np.float64]], NDArray[np.float32]]  # points (P, 3) LPS x, y, z in mm → HU (P, 11, 32, 32)


def looks_into(volume: Volume) -> Looks:
    """Close looks into an upright volume, by linear interpolation; outside of it the border repeats."""

    def look(points_mm: NDArray[np.float64]) -> NDArray[np.float32]:
        offsets = fine_offsets()
        blocks = [sampled(volume, volume.hu, *(offset + at for offset, at in zip(offsets, point[::-1], strict=True))) for point in points_mm]
        return np.stack(blocks)  # (P, 11, 32, 32)

    return look


def fine_offsets() -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Distances in mm of the block's planes, rows and columns from its middle."""
    z, y, x = (((np.arange(n) - (n - 1) / 2) * step).astype(np.float64) for n, step in zip(FINE, FINE_MM, strict=True))
    return z, y, x
