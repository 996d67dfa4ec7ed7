"""Chests for tests: a phantom on a small grid, with what real chests have and phantoms lack drawn into it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.imaging.volume import Acquisition, Volume
from pipeline.training.phantom import draw
from pipeline.training.render import FLUID_HU, SOFT_HU, Grid, render

GAS_HU = -1000.0
PLAIN = 8  # a phantom without findings
BODY_MM = (300.0, 288.0, 384.0)  # z, y, x

Array = NDArray[np.float32]


def chest(seed: int = PLAIN, spacing_mm: tuple[float, float, float] = (5.0, 3.0, 3.0)) -> tuple[Volume, Grid]:
    """A phantom as a volume whose axes are superior, posterior, left, and its grid of patient coordinates."""
    shape = tuple(round(length / step) for length, step in zip(BODY_MM, spacing_mm, strict=True))
    grid = Grid.centered((shape[0], shape[1], shape[2]), spacing_mm)
    return volume_of(render(draw(seed), grid), grid), grid


def volume_of(hu: Array, grid: Grid) -> Volume:
    """HU on a grid as a volume."""
    z, y, x = grid.step_mm
    return Volume(
        hu=np.clip(np.rint(hu), -1024, 3071).astype(np.float32),
        spacing_mm=(z, y, x),
        along_mm=z * np.arange(len(grid.z_mm), dtype=np.float64),
        origin_mm=(float(grid.x_mm[0]), float(grid.y_mm[0]), float(grid.z_mm[0])),
        axes=np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
        sop_uids=tuple(f"2.25.{k}" for k in range(len(grid.z_mm))),
        acquisition=Acquisition(120.0, 100.0, "B45f", z),
    )


def places(grid: Grid) -> tuple[Array, Array, Array]:
    """Patient x, y, z of each voxel, to be broadcast."""
    return grid.x_mm[None, None, :], grid.y_mm[None, :, None], grid.z_mm[:, None, None]


def with_values(volume: Volume, where: NDArray[np.bool_], hu: float) -> Volume:
    """The volume with one value in some places."""
    return replace(volume, hu=np.where(np.broadcast_to(where, volume.hu.shape), np.float32(hu), volume.hu))


def with_trachea(volume: Volume, grid: Grid) -> Volume:
    """A trachea of 18 mm from above, and a main bronchus of 12 mm into each lung."""
    x, y, z = places(grid)
    trachea = (np.hypot(x, y + 5) < 9) & (z > 30)
    bronchi = (np.hypot(y + 5, z - 30 + 0.3 * np.abs(x)) < 6) & (np.abs(x) < 45)
    return with_values(volume, trachea | bronchi, GAS_HU)


def with_touching_lungs(volume: Volume, grid: Grid) -> Volume:
    """Lung between the lungs in front, 5 mm thick: the anterior junction."""
    x, y, z = places(grid)
    return with_values(volume, (np.abs(x) < 45) & (np.abs(y + 45) < 2.6) & (z > -10) & (z < 70), -850.0)


def with_table_and_arms(volume: Volume, grid: Grid) -> Volume:
    """A hollow table that the back rests on, and an arm beside each flank."""
    x, y, _ = places(grid)
    table = (np.abs(x) < 180) & (y > 112) & (y < 136)
    hollow = (np.abs(x) < 174) & (y > 118) & (y < 130)
    arms = (np.hypot(np.abs(x) - 178, y - 20) < 14) & np.ones_like(volume.hu, dtype=bool)
    return with_values(with_values(with_values(volume, table, -100.0), hollow, GAS_HU), arms, SOFT_HU)


def with_fluid_for_a_lung(volume: Volume, grid: Grid, sign: int, share: float = 1.0) -> Volume:
    """Fluid in place of the air of one side (+1: left), from the back over `share` of the depth."""
    x, y, _ = places(grid)
    return with_values(volume, (np.sign(x) == sign) & (y > 80 - 165 * share) & (volume.hu < -200) & (np.abs(x) < 140), FLUID_HU)


def with_stomach_gas(volume: Volume, grid: Grid) -> Volume:
    """A bubble of 268 ml under the left dome, 12 mm below it."""
    x, y, z = places(grid)
    return with_values(volume, np.sqrt((x - 70) ** 2 + (y - 2) ** 2 + (z + 130) ** 2) < 40, GAS_HU)


def cropped(volume: Volume, low_mm: float, high_mm: float) -> Volume:
    """The slices between two heights."""
    z = volume.origin_mm[2] + volume.along_mm
    kept = np.flatnonzero((z >= low_mm) & (z <= high_mm))
    x, y, _ = volume.origin_mm
    return replace(
        volume,
        hu=volume.hu[kept],
        along_mm=volume.along_mm[kept] - volume.along_mm[kept[0]],
        origin_mm=(x, y, float(z[kept[0]])),
        sop_uids=tuple(volume.sop_uids[k] for k in kept),
    )
