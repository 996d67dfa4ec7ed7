from __future__ import annotations

import numpy as np
import pytest

from pipeline.imaging.lungs import find_lungs
from pipeline.training.phantom import draw
from pipeline.training.render import Grid, render

SPACING_MM = (5.0, 5.0, 5.0)
GRID = Grid.centered((60, 54, 76), SPACING_MM)


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_phantoms_have_two_lungs_beside_the_midline(seed: int) -> None:
    lungs = find_lungs(render(draw(seed), GRID), SPACING_MM)
    assert lungs is not None
    assert abs(GRID.x_mm[0] + lungs.midline_x * 5.0) < 15
    assert 1000 < lungs.volume_ml < 5000


def test_air_around_the_body_is_no_lung() -> None:
    hu = np.full((40, 60, 60), 40.0, dtype=np.float32)
    hu[:, :10], hu[:, -10:] = -1000, -1000
    assert find_lungs(hu, SPACING_MM) is None


def test_air_on_one_side_only_is_no_pair_of_lungs() -> None:
    hu = np.full((40, 60, 60), 40.0, dtype=np.float32)
    hu[:, :, :3], hu[:, :, -3:] = -1000, -1000
    hu[10:30, 15:45, 6:24] = -900
    assert find_lungs(hu, SPACING_MM) is None


def test_a_lung_that_touches_thin_skin_is_still_found() -> None:
    hu = np.full((40, 60, 60), 40.0, dtype=np.float32)
    hu[:, :, :3], hu[:, :, -3:] = -1000, -1000
    hu[10:30, 15:45, 6:26] = hu[10:30, 15:45, 34:54] = -900
    hu[20, 30, 3:6] = -900  # a leak of one voxel through the wall
    lungs = find_lungs(hu, SPACING_MM)
    assert lungs is not None
    assert lungs.midline_x == pytest.approx(29.5, abs=1)
