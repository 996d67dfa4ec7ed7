from __future__ import annotations

import numpy as np
import pytest
from scipy import ndimage

from pipeline.imaging.laterality import PIXELS, STEP_MM
from pipeline.training.chest_slices import AIR_BELOW_HU, SMALLEST_MM2, ChestSlice, chest_slice


@pytest.fixture(scope="module")
def slices() -> list[ChestSlice]:
    return [chest_slice(np.random.default_rng(seed)) for seed in range(60)]


def test_the_same_seed_gives_the_same_slice() -> None:
    one, other = (chest_slice(np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(one.hu, other.hu)


def test_both_lungs_are_seen_and_are_air_on_either_side(slices: list[ChestSlice]) -> None:
    for one in slices:
        assert one.hu.shape == (PIXELS, PIXELS)
        assert min(one.right.sum(), one.left.sum()) * STEP_MM**2 >= SMALLEST_MM2
        assert not (one.right & one.left).any()
        assert (one.hu[one.right | one.left] < AIR_BELOW_HU).all()
        right, left = (ndimage.center_of_mass(mask)[1] for mask in (one.right, one.left))
        assert right < left  # the patient's right is at the left of the picture


def test_sides_differ_by_anatomy_where_there_is_a_heart(slices: list[ChestSlice]) -> None:
    """Whatever lies between the lungs reaches further to the left: over many patients, not in each."""
    middle = (PIXELS - 1) / 2
    lean = []
    for one in slices:
        solid = (one.hu > -50) & ~ndimage.binary_dilation(one.right | one.left, iterations=1)
        rows = one.right.any(axis=1) & one.left.any(axis=1)
        between = [row for row in np.flatnonzero(rows) if solid[row, 20:76].any()]
        lean += [float(np.flatnonzero(solid[row, 20:76]).mean() + 20 - middle) for row in between]
    assert np.mean(lean) > 0.3


def test_pixels_are_finite_hounsfield_units(slices: list[ChestSlice]) -> None:
    for one in slices:
        assert np.isfinite(one.hu).all()
        assert -1100 < one.hu.min() < -900
        assert one.hu.max() < 2000
