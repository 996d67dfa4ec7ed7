from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pipeline.imaging.coverage import organs_shown
from pipeline.imaging.lungs import lungs_of
from pipeline.imaging.volume import Volume, read_volume
from tests.chests import chest, cropped, places, with_fluid_for_a_lung, with_values


def shown(volume: Volume) -> tuple[str, ...]:
    return organs_shown(volume, lungs_of(volume))


@pytest.fixture(scope="module")
def whole() -> Volume:
    return chest()[0]


def test_a_chest_shows_lungs_mediastinum_heart_and_what_lies_below(whole: Volume) -> None:
    assert {"肺", "纵隔", "心脏", "肝", "脾", "上腹"} <= set(shown(whole))


def test_a_scan_that_ends_at_the_bases_shows_no_spleen_and_no_upper_abdomen(whole: Volume) -> None:
    ends = shown(cropped(whole, -68.0, 150.0))
    assert {"肺", "纵隔", "心脏"} <= set(ends)
    assert not {"肝", "脾", "上腹"} & set(ends)


def test_apices_alone_show_no_heart(whole: Volume) -> None:
    tops = shown(cropped(whole, 80.0, 150.0))
    assert "肺" in tops
    assert not {"心脏", "肝", "脾"} & set(tops)


def test_a_scan_that_starts_at_the_apices_shows_no_thyroid(whole: Volume) -> None:
    lungs = lungs_of(whole)
    assert lungs is not None
    assert "甲状腺" not in shown(cropped(whole, -150.0, lungs.box_mm[1][2] + 5))


def test_a_scan_that_goes_well_above_the_apices_shows_the_neck() -> None:
    volume, grid = chest(spacing_mm=(5.0, 3.0, 3.0))
    z = places(grid)[2]
    lower = with_values(volume, (z > 60) & (volume.hu < -200) & (np.hypot(places(grid)[0] / 150, places(grid)[1] / 95) < 1), 40.0)
    assert {"甲状腺", "颈部"} <= set(shown(lower))


def test_fluid_under_a_lung_is_no_liver(whole: Volume) -> None:
    _, grid = chest()
    x, y, z = places(grid)
    only_fluid = with_values(whole, (z < -50) & (np.hypot(x / 140, y / 95) < 1), 8.0)
    assert not {"肝", "脾"} & set(shown(only_fluid))


def test_one_opaque_lung_hides_nothing_of_the_other_side(whole: Volume) -> None:
    _, grid = chest()
    assert {"肺", "肝"} <= set(shown(with_fluid_for_a_lung(whole, grid, 1)))


def test_without_lungs_nothing_is_claimed(whole: Volume) -> None:
    assert organs_shown(whole, None) == ()


def test_the_real_chest_goes_down_to_liver_and_spleen(test_data: Path) -> None:
    assert {"肺", "纵隔", "心脏", "肝", "脾"} <= set(shown(read_volume(sorted((test_data / "chest_lidc_0314").glob("*.dcm")))))
