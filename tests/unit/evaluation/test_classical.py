from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.classical import dice, line_share, outlined, sphere_distance_mm

STEP_MM = (2.0, 1.0, 1.0)
SHAPE = (16, 40, 40)
CENTER = (8.0, 20.0, 20.0)


def ball(size_mm: float, inside: float = 30.0, outside: float = -850.0) -> np.ndarray:
    distance = sphere_distance_mm(SHAPE, CENTER, STEP_MM)
    return np.where(distance <= size_mm / 2, inside, outside).astype(np.float32)


def test_distances_are_in_mm() -> None:
    distance = sphere_distance_mm(SHAPE, CENTER, STEP_MM)
    assert distance[8, 20, 20] == 0
    assert distance[9, 20, 20] == 2
    assert distance[8, 20, 25] == 5


@pytest.mark.parametrize("size_mm", [6.0, 12.0, 18.0])
def test_a_clean_nodule_is_outlined_exactly(size_mm: float) -> None:
    distance = sphere_distance_mm(SHAPE, CENTER, STEP_MM)
    assert dice(outlined(ball(size_mm), distance, size_mm), distance <= size_mm / 2) == 1.0


def test_a_nodule_that_is_not_there_overlaps_hardly() -> None:
    distance = sphere_distance_mm(SHAPE, CENTER, STEP_MM)
    assert dice(outlined(ball(0.0, inside=-850.0), distance, 12.0), distance <= 6.0) < 0.1


def test_what_touches_from_far_is_cut_off() -> None:
    hu = ball(12.0)
    hu[8, 20, 20:] = 30.0  # a vessel that leaves the nodule
    distance = sphere_distance_mm(SHAPE, CENTER, STEP_MM)
    found = outlined(hu, distance, 12.0)
    assert dice(found, distance <= 6.0) > 0.95
    assert not found[8, 20, 35]


@given(st.integers(0, 2**32 - 1), st.floats(0, 1), st.floats(0, 1))
def test_overlap_is_symmetric_and_between_0_and_1(seed: int, one: float, other: float) -> None:
    draws = np.random.default_rng(seed).random((2, 4, 4))
    a, b = draws[0] < one, draws[1] < other
    assert 0.0 <= dice(a, b) == dice(b, a) <= 1.0


def test_no_outline_equals_no_nodule() -> None:
    assert dice(np.zeros((2, 2), dtype=bool), np.zeros((2, 2), dtype=bool)) == 1.0


def test_lines_count_and_dots_do_not() -> None:
    lung = np.ones((2, 64, 64), dtype=bool)
    lung[:, :4] = lung[:, -4:] = lung[:, :, :4] = lung[:, :, -4:] = False
    flat = np.full((2, 64, 64), -850.0, dtype=np.float32)
    lines, dots = flat.copy(), flat.copy()
    lines[:, 10:60:12] = -400.0
    dots[:, 10:60:12, 10:60:12] = -400.0
    assert line_share(flat, lung, 0.9) == 0.0
    assert line_share(lines, lung, 0.9) > 0.05
    assert line_share(dots, lung, 0.9) < 0.1 * line_share(lines, lung, 0.9)


def test_a_slice_without_lung_has_no_lines() -> None:
    assert line_share(np.zeros((1, 16, 16), dtype=np.float32), np.zeros((1, 16, 16), dtype=bool), 1.0) == 0.0
