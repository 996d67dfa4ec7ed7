from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pipeline.imaging.keyslices import heights_mm, key_slices
from pipeline.imaging.lungs import lungs_of
from pipeline.imaging.regions import NODULE, Region
from pipeline.imaging.volume import Volume
from tests.chests import chest

VOLUME = chest()[0]
TOTAL = len(VOLUME.hu)
LUNGS = lungs_of(VOLUME)
assert LUNGS is not None


def region(z_mm: float, size_mm: float = 10.0, score: float = 0.5) -> Region:
    return Region((-70.0, 0.0, z_mm), (size_mm,) * 3, score, NODULE)


@given(st.integers(0, TOTAL + 5), st.lists(st.floats(-140, 140), max_size=12))
def test_as_many_different_slices_as_asked_for_in_rising_order(count: int, heights: list[float]) -> None:
    for own in (LUNGS, None):
        chosen = key_slices(VOLUME, own, [region(z) for z in heights], count)
        assert list(chosen) == sorted(set(chosen))
        assert len(chosen) == (TOTAL if count == 0 else min(count, TOTAL))
        assert all(0 <= z < TOTAL for z in chosen)


def test_nought_takes_the_whole_volume() -> None:
    assert key_slices(VOLUME, LUNGS, (), 0) == tuple(range(TOTAL))


def test_the_best_regions_are_shown_through_their_middles() -> None:
    regions = [region(62.5), region(-37.5), region(2.5)]
    chosen = key_slices(VOLUME, LUNGS, regions, 8)
    heights = heights_mm(VOLUME)
    for one in regions:
        assert np.abs(heights[list(chosen)] - one.center_mm[2]).min() <= 2.5


def test_regions_beside_each_other_share_a_slice() -> None:
    chosen = key_slices(VOLUME, LUNGS, [region(62.5, 30.0), region(66.5, 30.0), region(60.0, 30.0)], 6)
    assert sum(abs(heights_mm(VOLUME)[z] - 62.5) < 7 for z in chosen) == 1


def test_the_others_cover_the_lungs_evenly() -> None:
    assert LUNGS is not None
    heights = heights_mm(VOLUME)[list(key_slices(VOLUME, LUNGS, (), 10))]
    low, high = LUNGS.box_mm[0][2], LUNGS.box_mm[1][2]
    assert heights.min() > low - 5
    assert heights.max() < high + 5
    assert np.diff(heights).max() < 2.5 * (high - low) / 10


def test_without_lungs_slices_are_spread_over_the_volume() -> None:
    chosen = key_slices(VOLUME, None, (), 6)
    assert np.ptp(chosen) > 0.6 * TOTAL


def test_heights_are_patient_coordinates() -> None:
    upside_down = Volume(
        VOLUME.hu[::-1],
        VOLUME.spacing_mm,
        VOLUME.along_mm,
        (VOLUME.origin_mm[0], VOLUME.origin_mm[1], heights_mm(VOLUME)[-1]),
        VOLUME.axes * np.array([[-1], [1], [1]]),
        VOLUME.sop_uids,
        VOLUME.acquisition,
    )
    np.testing.assert_allclose(heights_mm(upside_down), heights_mm(VOLUME)[::-1])
