from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from pipeline.imaging.grid import averaged, bounds, is_aligned, linear_rows, mean_rows, sampled, separable, softened_rows
from pipeline.imaging.volume import Volume
from tests.chests import chest

PLACES = st.lists(st.floats(0.1, 20, allow_subnormal=False), min_size=1, max_size=12).map(lambda steps: np.cumsum([0.0, *steps]))


@pytest.fixture(scope="module")
def volume() -> Volume:
    return chest(spacing_mm=(5.0, 3.0, 3.0))[0]


def axis_places(volume: Volume, step_mm: float) -> list[np.ndarray]:
    """z, y, x inside the volume."""
    low, high = bounds(volume)
    return [np.arange(low[k] + 1.3, high[k], step_mm) for k in (2, 1, 0)]


@given(PLACES, st.lists(st.floats(-30, 200), min_size=1, max_size=20).map(sorted))
def test_linear_rows_are_interpolation(places: np.ndarray, wanted: list[float]) -> None:
    values = np.random.default_rng(0).normal(size=len(places))
    np.testing.assert_allclose(linear_rows(places, np.array(wanted)) @ values, np.interp(wanted, places, values), atol=1e-5)


@given(PLACES, st.integers(2, 12))
def test_mean_rows_keep_a_constant_and_stay_within_the_values(places: np.ndarray, count: int) -> None:
    wanted = np.linspace(places[0], places[-1], count)
    rows = mean_rows(places, wanted)
    np.testing.assert_allclose(rows @ np.full(len(places), 7.0), 7.0, atol=1e-4)
    assert float(rows.min()) >= 0


def test_slice_by_slice_gives_what_softening_and_sampling_the_whole_array_gives(volume: Volume) -> None:
    z, y, x = axis_places(volume, 7.0)
    found = separable(volume, z, y, x, softened_rows(0.35))
    own = volume.spacing_mm
    soft = ndimage.gaussian_filter(volume.hu, [0.35 * max(0.0, 7.0 / s - 1) for s in own], mode="nearest")
    np.testing.assert_allclose(found, sampled(volume, soft, z, y, x), atol=1e-2)


def test_a_volume_stored_otherwise_gives_the_same_grid(volume: Volume) -> None:
    turned = replace(volume, hu=volume.hu.transpose(0, 2, 1), spacing_mm=(5.0, 3.0, 3.0), axes=volume.axes[[0, 2, 1]])
    low, high = bounds(volume)
    one, other = (averaged(v, low, high, (10.0, 6.0, 6.0)) for v in (volume, turned))
    np.testing.assert_allclose(one.hu, other.hu, atol=1e-3)
    assert one.low_mm == other.low_mm


def test_a_coarse_voxel_is_the_mean_of_what_it_covers(volume: Volume) -> None:
    noisy = replace(volume, hu=np.random.default_rng(1).normal(0, 100, volume.hu.shape).astype(np.float32))
    low, high = bounds(noisy)
    grid = averaged(noisy, low, high, (5.0, 12.0, 12.0))
    assert float(grid.hu.std()) < 40  # of 16 voxels each: 25, somewhat more for the interpolation


def test_coarse_and_oblique_agree(volume: Volume) -> None:
    turned = replace(volume, axes=volume.axes @ np.array([[0.99985, 0.0173, 0], [-0.0173, 0.99985, 0], [0, 0, 1]]))
    assert is_aligned(volume)
    assert not is_aligned(turned)
    low, high = bounds(turned)
    point = np.array([75.0, 0.0, 20.0])
    grid = averaged(turned, low, high, (5.0, 3.0, 3.0))
    z, y, x = np.rint((point - grid.low_mm)[::-1] / grid.step_mm).astype(int)
    assert grid.hu[z, y, x] < -700
    np.testing.assert_allclose(grid.to_patient(np.array([z, y, x], dtype=float)), point, atol=3)
