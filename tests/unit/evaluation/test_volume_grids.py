"""Two grids are the same place or not, however their axes run."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from pipeline.evaluation.volume_grids import Grid, affine_of, differing

AXES = np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]])
SPACING_MM = np.array([2.0, 0.5, 0.75])
ORIGIN_MM = np.array([-10.0, 20.0, 300.0])


def grid(seed: int = 1) -> Grid:
    hu = np.random.default_rng(seed).integers(-1000, 1000, (3, 4, 5)).astype(np.int16)
    return Grid(hu, affine_of(AXES, SPACING_MM, ORIGIN_MM))


TURNS = list(itertools.product(itertools.permutations(range(3)), itertools.product((1, -1), repeat=3)))


def turned(one: Grid, order: tuple[int, ...], signs: tuple[int, ...]) -> Grid:
    """The same voxels at the same places, with other axes: what another reader might give."""
    hu = one.hu.transpose(order)[tuple(slice(None, None, sign) for sign in signs)]
    to_one = np.zeros((4, 4))  # indices of the turned → indices of one
    to_one[3, 3] = 1
    for axis, (source, sign) in enumerate(zip(order, signs, strict=True)):
        to_one[source, axis], to_one[source, 3] = sign, 0 if sign > 0 else one.hu.shape[source] - 1
    return Grid(np.ascontiguousarray(hu), one.affine @ to_one)


@pytest.mark.parametrize(("order", "signs"), TURNS)
def test_a_grid_turned_or_flipped_is_the_same(order: tuple[int, ...], signs: tuple[int, ...]) -> None:
    assert differing(grid(), turned(grid(), order, signs)) == 0


def test_each_other_voxel_is_counted() -> None:
    other = grid()
    other.hu[0, 0, 0] += 1
    other.hu[2, 3, 4] -= 5
    assert differing(grid(), other) == 2
    assert differing(grid(), turned(other, (2, 1, 0), (-1, 1, 1))) == 2


def test_outside_the_field_of_view_any_value_at_or_below_air_will_do() -> None:
    one, other = grid(), grid()
    one.hu[0, 0, 0], other.hu[0, 0, 0] = -2000, -1024
    assert differing(one, other) == 0
    other.hu[0, 0, 0] = -1000
    assert differing(one, other) == 1


@pytest.mark.parametrize("moved", [(0.02, 0, 0), (0, 0.75, 0), (0, 0, -2.0)])
def test_another_place_is_not_compared(moved: tuple[float, ...]) -> None:
    assert differing(grid(), Grid(grid().hu, affine_of(AXES, SPACING_MM, ORIGIN_MM + moved))) is None


def test_another_spacing_direction_or_size_is_not_compared() -> None:
    one = grid()
    assert differing(one, Grid(one.hu, affine_of(AXES, SPACING_MM * 1.1, ORIGIN_MM))) is None
    lean = AXES.copy()
    lean[0] = [0.0, 0.2, 0.98]
    assert differing(one, Grid(one.hu, affine_of(lean, SPACING_MM, ORIGIN_MM))) is None
    assert differing(one, Grid(one.hu[:2], one.affine)) is None
