"""Where slices are missing, and where that cannot be told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom import dcmread

from pipeline.flow.places import gaps, places
from pipeline.model import Instance, Series
from tests.unit.flow.test_choose import series


def numbered(count: int = 30, *, stride: int = 1, step_mm: float = 5.0) -> Series:
    """A series whose InstanceNumber follows its slices."""
    made = series("1", count, step_mm=step_mm)
    return replace(made, instances=tuple(replace(image, instance_number=1 + stride * n) for n, image in enumerate(made.instances)))


def without(whole: Series, *indexes: int) -> Series:
    return replace(whole, instances=tuple(image for n, image in enumerate(whole.instances) if n not in indexes))


def real(folder: Path) -> Series:
    """A series of the test data as the listener would file it."""
    images = []
    for path in sorted(folder.glob("*.dcm")):
        ds = dcmread(path, stop_before_pixels=True)
        x, y, z = map(float, ds.ImagePositionPatient)
        image = Instance(ds.SOPInstanceUID, ds.SOPClassUID, "", "", "", "CT", "", 1, "", int(ds.InstanceNumber), position_mm=(x, y, z))
        images.append(replace(image, orientation=tuple(map(float, ds.ImageOrientationPatient))))
    return Series("1", "CT", "", "", "", None, tuple(images))


@given(st.integers(10, 60), st.sampled_from([1, -1, 2]), st.floats(0.5, 10), st.data())
def test_slices_taken_out_of_a_whole_series_are_found_with_their_place(count: int, stride: int, step_mm: float, data: st.DataObject) -> None:
    first = data.draw(st.integers(1, count - 4))
    missing = data.draw(st.integers(1, min(3, count - 2 - first)))
    (gap,) = gaps(without(numbered(count, stride=stride, step_mm=step_mm), *range(first, first + missing)))
    assert (gap.after, gap.missing, gap.numbered) == (first, missing, True)
    assert gap.after_mm == pytest.approx(step_mm * (first - 1), abs=0.1)


@given(st.integers(3, 60), st.sampled_from([1, -1, 3]), st.floats(0.5, 10))
def test_a_whole_series_has_no_gap(count: int, stride: int, step_mm: float) -> None:
    assert gaps(numbered(count, stride=stride, step_mm=step_mm)) == ()


def test_numbers_that_run_across_series_or_are_absent_are_no_gap() -> None:
    assert gaps(numbered(stride=7)) == ()
    assert gaps(series("1", 30)) == ()


def test_phases_at_the_same_places_are_not_judged() -> None:
    whole = numbered(20)
    twice = replace(whole, instances=(*whole.instances, *without(whole, 3, 4).instances))
    assert places(twice.instances) == 20
    assert gaps(twice) == ()


def test_a_hole_without_a_jump_in_the_numbers_counts_unless_it_parts_two_blocks() -> None:
    unnumbered = series("1", 30)
    (gap,) = gaps(without(unnumbered, 10))
    assert (gap.after, gap.missing, gap.numbered) == (10, 1, False)
    assert gaps(without(unnumbered, *range(6, 27))) == ()


def test_a_wide_hole_counts_when_the_numbers_jump_with_it() -> None:
    (gap,) = gaps(without(numbered(60), *range(10, 50)))
    assert (gap.missing, gap.numbered) == (40, True)


def test_the_real_subsampled_chest_is_uneven_by_nature_and_has_no_gap(test_data: Path) -> None:
    chest = real(test_data / "chest_lidc_0314")
    assert len(chest.instances) == 28
    assert gaps(chest) == ()


def test_the_real_ge_series_lacks_one_slice_though_its_numbers_run_on(test_data: Path) -> None:
    (gap,) = gaps(real(test_data / "bad_geometry" / "gap"))
    assert (gap.after, gap.missing, gap.numbered) == (3, 1, False)


@pytest.mark.parametrize("folder", ["tilt", "not_a_volume"])
def test_tilt_and_images_at_one_place_are_no_gap(test_data: Path, folder: str) -> None:
    assert gaps(real(test_data / "bad_geometry" / folder)) == ()
