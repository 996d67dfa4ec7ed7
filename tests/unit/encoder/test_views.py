from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from pipeline.encoder.views import ROI_MIN_MM, Box, View, fitted, pictures, region_views, sampled, scaled, view_pictures, whole_slices
from pipeline.imaging.windows import BONE, LUNG, MEDIASTINUM
from pipeline.model import Side
from tests.unit.encoder.studies import LEFT_BALL, RIGHT_BALL, SHAPE, SPACING_MM, prepared

EDGE = st.floats(-6, 14)


def slowly(plane: NDArray[np.float64], box: Box, shape: tuple[int, int], beyond: str) -> NDArray[np.float64]:
    """The value at each cell's centre, one at a time: linear between the four voxels around it."""
    height, width = plane.shape
    made = np.zeros(shape)
    for row in range(shape[0]):
        for column in range(shape[1]):
            y = box.top + (row + 0.5) * (box.bottom - box.top) / shape[0]
            x = box.left + (column + 0.5) * (box.right - box.left) / shape[1]
            if beyond == "border":
                y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
            for j in (math.floor(y), math.floor(y) + 1):
                for i in (math.floor(x), math.floor(x) + 1):
                    if 0 <= j < height and 0 <= i < width:
                        made[row, column] += plane[j, i] * (1 - abs(y - j)) * (1 - abs(x - i))
    return made


@given(EDGE, EDGE, st.floats(0.5, 12), st.floats(0.5, 12), st.sampled_from(["border", "zeros"]))
def test_cells_are_sampled_where_a_slow_loop_says(top: float, left: float, tall: float, wide: float, beyond: str) -> None:
    plane = np.random.default_rng(0).normal(size=(9, 7))
    box = Box(top, left, top + tall, left + wide)
    made = sampled(torch.from_numpy(plane)[None, None], [box], (5, 4), "border" if beyond == "border" else "zeros")
    np.testing.assert_allclose(made[0, 0].numpy(), slowly(plane, box, (5, 4), beyond), atol=1e-9)


def test_a_box_over_the_whole_grid_in_as_many_cells_is_the_grid() -> None:
    grid = torch.rand(1, 3, 6, 8, dtype=torch.float64)
    assert torch.allclose(sampled(grid, [Box(-0.5, -0.5, 5.5, 7.5)], (6, 8)), grid)


def test_each_map_has_its_own_box() -> None:
    maps = torch.rand(2, 1, 6, 8)
    boxes = [Box(0, 0, 3, 3), Box(2, 4, 5, 7)]
    made = sampled(maps, boxes, (3, 3))
    for row in range(2):
        assert torch.equal(made[row], sampled(maps[row : row + 1], [boxes[row]], (3, 3))[0])


def test_a_box_keeps_its_share_of_another_grid() -> None:
    assert scaled(Box(-0.5, -0.5, 9.5, 19.5), (10, 20), (5, 5)) == Box(-0.5, -0.5, 4.5, 4.5)
    assert scaled(Box(4.5, 9.5, 9.5, 19.5), (10, 20), (20, 10)) == Box(9.5, 4.5, 19.5, 9.5)


@pytest.mark.parametrize(
    ("height", "width", "spacing", "shape"),
    [(512, 512, (0.7, 0.7), (224, 224)), (512, 256, (0.7, 0.7), (224, 112)), (512, 256, (0.5, 1.0), (224, 224)), (3, 900, (1.0, 1.0), (1, 224))],
)
def test_a_slice_keeps_its_shape_in_mm(height: int, width: int, spacing: tuple[float, float], shape: tuple[int, int]) -> None:
    assert fitted(height, width, spacing, 224) == shape


def test_three_windows_are_the_three_colours() -> None:
    volume = prepared().volume
    made = pictures(volume, [6], "windows")
    assert made.shape == (1, 3, *SHAPE[1:])
    for colour, window in enumerate((LUNG, MEDIASTINUM, BONE)):
        np.testing.assert_array_equal(made[0, colour].numpy(), window.apply(volume.hu[6]))


@pytest.mark.parametrize(("z", "shown"), [(6, (5, 6, 7)), (0, (0, 0, 1)), (11, (10, 11, 11))])
def test_three_neighbours_are_the_three_colours(z: int, shown: tuple[int, int, int]) -> None:
    volume = prepared().volume
    made = pictures(volume, [z], "neighbours")
    for colour, slice_z in enumerate(shown):
        np.testing.assert_array_equal(made[0, colour].numpy(), LUNG.apply(volume.hu[slice_z]))


def test_whole_numbers_of_hu_give_the_same_picture() -> None:
    volume = prepared().volume
    whole = volume.hu.astype(np.int16)
    assert torch.equal(*(pictures(replace(volume, hu=hu), [6], "windows") for hu in (whole, whole.astype(np.float32))))


def test_key_slices_are_shown_whole() -> None:
    views = whole_slices(prepared(key_slices=(3, 6)))
    assert views == tuple(View(z, Box(-0.5, -0.5, 39.5, 55.5), None) for z in (3, 6))


def test_a_region_is_shown_on_its_slice_with_what_is_around_it() -> None:
    study = prepared()
    left, right = region_views(study, 2)
    assert (left.z, left.side) == (6, Side.LEFT)
    assert (right.z, right.side) == (8, Side.RIGHT)
    for view, region in ((left, LEFT_BALL), (right, RIGHT_BALL)):
        box = view.box
        middle = study.volume.to_patient(np.array([view.z, (box.top + box.bottom) / 2, (box.left + box.right) / 2]))
        np.testing.assert_allclose(middle[:2], region.center_mm[:2], atol=1e-9)
        side_mm = max(2 * max(region.size_mm[:2]), ROI_MIN_MM)
        assert (box.bottom - box.top) * SPACING_MM[1] == pytest.approx(side_mm)
        assert (box.right - box.left) * SPACING_MM[2] == pytest.approx(side_mm)


def test_there_are_always_as_many_views_as_asked_for() -> None:
    for regions in ((), (LEFT_BALL,), (LEFT_BALL, RIGHT_BALL)):
        for count in (1, 2, 4, 8):
            views = region_views(prepared(regions), count)
            assert len(views) == count
            assert [view.side is None for view in views] == [place >= len(regions) for place in range(count)]


def test_without_a_region_the_lungs_of_the_middle_key_slice_are_shown() -> None:
    [view] = region_views(prepared(()), 1)
    assert view.z == 6
    # lungs reach from row 8 to 31 and column 8 to 47, with 10 mm around them
    np.testing.assert_allclose([view.box.top, view.box.left, view.box.bottom, view.box.right], [6.25, 6.25, 32.75, 48.75])


def test_a_slice_beyond_the_lungs_shows_where_they_are_elsewhere() -> None:
    beyond, within = (region_views(prepared((), key_slices=(z,)), 1)[0] for z in (0, 6))
    assert (beyond.z, beyond.box) == (0, within.box)


def test_crops_show_the_box_and_black_beyond_the_slice() -> None:
    study = prepared()
    [view] = region_views(study, 1)
    [crop] = view_pictures(study.volume, [view], "windows", 20, cropped=True)
    assert crop.shape == (3, 20, 20)
    plane = LUNG.apply(study.volume.hu[view.z]).astype(np.float64)
    np.testing.assert_allclose(crop[0].numpy(), slowly(plane, view.box, (20, 20), "zeros"), atol=1e-5)
    outside = View(6, Box(-60, -60, -40, -40), None)
    assert not view_pictures(study.volume, [outside], "windows", 20, cropped=True).any()
