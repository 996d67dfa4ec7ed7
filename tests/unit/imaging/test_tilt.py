"""A tilted stack of a known field: after straightening, every voxel has the value of the field at its place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.imaging.pixels import AIR_HU
from pipeline.imaging.tilt import grown, shift_of, straightened

Floats = NDArray[np.floating[Any]]
SPACING_MM = (0.7, 1.3)
SHAPE = (8, 20, 16)
ROW, COLUMN, NORMAL = np.eye(3)


def field(points_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Linear in space: linear interpolation is exact."""
    return np.asarray(points_mm @ np.array([3.0, -5.0, 2.0]) + 100.0)


def stack(down_mm: Floats, across_mm: Floats) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Slices 2 mm apart whose first voxels lie at `down_mm`, `across_mm`: pixels and positions."""
    positions = down_mm[:, None] * COLUMN + across_mm[:, None] * ROW + 2.0 * np.arange(len(down_mm))[:, None] * NORMAL
    y, x = np.arange(SHAPE[1]) * SPACING_MM[0], np.arange(SHAPE[2]) * SPACING_MM[1]
    points = positions[:, None, None] + y[None, :, None, None] * COLUMN + x[None, None, :, None] * ROW
    return field(points).astype(np.float32), positions


@settings(max_examples=40, deadline=None)
@given(st.floats(-3, 3), st.floats(-3, 3), st.booleans())
def test_every_voxel_has_the_value_of_its_place(down: float, across: float, jump: bool) -> None:
    steps = (np.arange(SHAPE[0]) >= 4).astype(float) if jump else np.arange(SHAPE[0], dtype=float)
    hu, positions = stack(down * steps, across * steps)
    shift = shift_of(positions, ROW, COLUMN)
    found = straightened(hu, shift, SPACING_MM)
    assert found.shape == grown(shift, SHAPE, SPACING_MM)
    origin = positions[0] + shift.down_mm.min() * COLUMN + shift.across_mm.min() * ROW
    z, y, x = np.meshgrid(*(np.arange(n, dtype=float) for n in found.shape), indexing="ij")
    points = origin + 2.0 * z[..., None] * NORMAL + SPACING_MM[0] * y[..., None] * COLUMN + SPACING_MM[1] * x[..., None] * ROW
    own_y = (points - positions[:, None, None]) @ COLUMN / SPACING_MM[0]
    own_x = (points - positions[:, None, None]) @ ROW / SPACING_MM[1]
    inside = (own_y >= 0) & (own_y <= SHAPE[1] - 1) & (own_x >= 0) & (own_x <= SHAPE[2] - 1)
    assert inside.sum() >= SHAPE[0] * (SHAPE[1] - 1) * (SHAPE[2] - 1)
    np.testing.assert_allclose(found[inside], field(points)[inside], atol=0.02)
    beyond = (own_y < -1) | (own_y > SHAPE[1]) | (own_x < -1) | (own_x > SHAPE[2])
    assert (found[beyond] == AIR_HU).all()


@pytest.mark.parametrize("angle_deg", [0.5, 10.0, -24.0])
def test_a_lean_is_told_with_its_angle(angle_deg: float) -> None:
    _, positions = stack(2.0 * np.arange(8) * np.tan(np.radians(angle_deg)), np.zeros(8))
    shift = shift_of(positions, ROW, COLUMN)
    assert not shift.straight
    assert shift.sentence() == f"层面相对堆叠方向倾斜 {abs(angle_deg):.1f}°（机架倾斜）"


def test_a_centre_that_jumps_is_told_with_its_place() -> None:
    _, positions = stack(np.zeros(8), np.where(np.arange(8) < 5, 0.0, 12.5))
    assert shift_of(positions, ROW, COLUMN).sentence() == "层面中心不在一条直线上：自第 6 层起横向偏移最多 12.5 mm"


def test_rounded_positions_are_straight() -> None:
    _, positions = stack(np.random.default_rng(1).uniform(-0.02, 0.02, 8), np.zeros(8))
    assert shift_of(positions, ROW, COLUMN).straight


def test_whole_numbers_stay_whole_numbers() -> None:
    hu, positions = stack(0.31 * np.arange(8), np.zeros(8))
    found = straightened(hu.astype(np.int16), shift_of(positions, ROW, COLUMN), SPACING_MM)
    assert found.dtype == np.int16
