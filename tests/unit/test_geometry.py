"""Planes in space: any orientation, any order, any hole; beside a slow reference."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline import geometry

ANGLES = st.tuples(st.floats(-math.pi, math.pi), st.floats(-math.pi, math.pi), st.floats(-math.pi, math.pi))
STEPS_MM = st.floats(0.3, 20.0)


def turned(angles: tuple[float, float, float]) -> NDArray[np.float64]:
    """A rotation about x, then y, then z, as a matrix (3, 3)."""
    a, b, c = angles
    x = np.array([[1, 0, 0], [0, np.cos(a), -np.sin(a)], [0, np.sin(a), np.cos(a)]])
    y = np.array([[np.cos(b), 0, np.sin(b)], [0, 1, 0], [-np.sin(b), 0, np.cos(b)]])
    z = np.array([[np.cos(c), -np.sin(c), 0], [np.sin(c), np.cos(c), 0], [0, 0, 1]])
    return np.asarray(z @ y @ x)


@given(ANGLES, st.booleans())
def test_the_normal_is_of_length_one_and_at_right_angles_to_rows_and_columns(angles: tuple[float, float, float], flipped: bool) -> None:
    row, column = turned(angles)[:, 0] * (-1 if flipped else 1), turned(angles)[:, 1]
    found = np.array(geometry.normal((*row, *column)))
    np.testing.assert_allclose(found, np.cross(row, column), atol=1e-12)
    assert np.linalg.norm(found) == pytest.approx(1)
    assert abs(found @ row) < 1e-12
    assert geometry.is_orientation((*row, *column))


@given(ANGLES, st.lists(st.integers(-300, 300), min_size=2, max_size=30, unique=True), st.randoms(use_true_random=False))
def test_places_along_the_normal_are_those_that_were_given_whatever_lies_beside_it(
    angles: tuple[float, float, float], places: list[int], random: object
) -> None:
    axes = turned(angles)
    cosines = (*axes[:, 0], *axes[:, 1])
    beside = np.random.default_rng(1).normal(size=(len(places), 2)) * 100
    points = [place * axes[:, 2] + a * axes[:, 0] + b * axes[:, 1] for place, (a, b) in zip(places, beside, strict=True)]
    alongs = [geometry.along(cosines, point) for point in points]
    np.testing.assert_allclose(alongs, places, atol=1e-9)
    assert [places[group[0]] for group in geometry.by_place(alongs)] == sorted(places)


@given(ANGLES, st.floats(0.995, 1.005), st.floats(-0.004, 0.004))
def test_rounded_cosines_become_unit_vectors_at_right_angles(angles: tuple[float, float, float], length: float, lean: float) -> None:
    axes = turned(angles)
    found = np.array(geometry.orthonormal((*(axes[:, 0] * length), *(axes[:, 1] + lean * axes[:, 0])))).reshape(2, 3)
    np.testing.assert_allclose(found @ found.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(found, [axes[:, 0], axes[:, 1]], atol=0.01)


@pytest.mark.parametrize(
    "cosines", [(1, 0, 0), (1, 0, 0, 0, 1), (0,) * 6, (1, 0, 0, 1, 0, 0), (2, 0, 0, 0, 1, 0), (math.nan, 0, 0, 0, 1, 0), (math.inf, 0, 0, 0, 1, 0)]
)
def test_what_spans_no_plane_is_no_orientation(cosines: tuple[float, ...]) -> None:
    assert not geometry.is_orientation(cosines)


@given(st.lists(st.sampled_from([(1, 0, 0, 0, 1, 0), (1, 0, 0, 0, 0, -1), (0, 1, 0, 0, 0, -1), (-1, 0, 0, 0, 1, 0)]), min_size=1, max_size=40))
def test_orientations_are_told_apart_and_none_is_lost(planes: list[tuple[float, ...]]) -> None:
    jitter = np.random.default_rng(2).uniform(-4e-4, 4e-4, (len(planes), 6))
    groups = geometry.by_orientation([tuple(np.array(plane) + noise) for plane, noise in zip(planes, jitter, strict=True)])
    assert sorted(index for group in groups for index in group) == list(range(len(planes)))
    assert [{planes[index] for index in group} for group in groups] == [{plane} for plane in dict.fromkeys(planes)]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60))
def test_images_at_one_place_stay_together(places: list[int]) -> None:
    groups = geometry.by_place([place * 0.5 for place in places])
    assert [sorted(group) for group in groups] == [[i for i, one in enumerate(places) if one == place] for place in sorted(set(places))]


@given(st.integers(6, 60), STEPS_MM, st.sampled_from([1, -1, 3]), st.data())
def test_planes_taken_out_are_missing_at_their_place(count: int, step_mm: float, stride: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count - 4))
    gone = set(range(first, first + data.draw(st.integers(1, min(4, count - 2 - first)))))
    kept = [index for index in range(count) if index not in gone]
    if (holes := geometry.missing([index * step_mm for index in kept], [100 + stride * index for index in kept])) or count - len(gone) > 6:
        (hole,) = holes
        assert (hole.after, hole.missing, hole.numbered) == (first, len(gone), True)
        assert hole.after_mm == pytest.approx((first - 1) * step_mm)
        assert hole.step_mm == pytest.approx((len(gone) + 1) * step_mm)


@given(st.integers(3, 60), STEPS_MM, st.floats(-0.04, 0.04))
def test_an_even_series_lacks_nothing(count: int, step_mm: float, jitter: float) -> None:
    alongs = [(index + jitter * (index % 2)) * step_mm for index in range(count)]
    found = geometry.spacing(alongs)
    assert found is not None
    assert (found.even, found.holes) == (True, ())
    assert found.step_mm == pytest.approx(step_mm, rel=0.09)
    assert geometry.missing(alongs) == ()


def test_nothing_is_told_of_fewer_than_three_planes_or_of_planes_at_one_place() -> None:
    assert geometry.spacing([1.0]) is None
    assert geometry.spacing([1.0, 1.0, 2.0]) is None
    assert geometry.missing([1.0, 9.0]) == ()


def test_a_wide_hole_that_the_numbers_do_not_confirm_parts_two_blocks() -> None:
    alongs = [*range(6), *range(40, 46)]
    assert geometry.missing([float(one) for one in alongs]) == ()
    (hole,) = geometry.missing([float(one) for one in alongs], [one + 1 for one in alongs])
    assert (hole.after, hole.missing, hole.numbered) == (6, 34, True)


@given(st.lists(st.tuples(st.sampled_from([1.0, 2.5, 5.0, 10.0]), st.integers(1, 12)), min_size=1, max_size=5))
def test_runs_are_maximal_and_cover_every_step(blocks: list[tuple[float, int]]) -> None:
    steps = [step for step, count in blocks for _ in range(count)]
    found = geometry.runs([0.0, *np.cumsum(steps).tolist()])
    assert [step for run in found for step in [run.step_mm] * (run.last - run.first)] == pytest.approx(steps)
    assert all(a.last == b.first and a.step_mm != pytest.approx(b.step_mm) for a, b in combinations(found, 2) if b.first == a.last)
