"""What a series holds: phases, breath holds, step-and-shoot, bolus images, localizers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.flow.places import along, places
from pipeline.flow.stacks import ENHANCED, stacks
from pipeline.model import Instance, Series
from tests.unit.flow.test_choose import CORONAL, series


def images(
    alongs: Sequence[float], first: int = 1, *, acquisition: int | None = None, temporal: int | None = None, kind: str = "AXIAL"
) -> list[Instance]:
    """Axial images at these places, numbered from `first`."""
    found = series("s", len(alongs), kinds=("ORIGINAL", "PRIMARY", kind)).instances
    return [
        replace(one, sop_uid=f"1.{first + n}", instance_number=first + n, position_mm=(0.0, 0.0, z), acquisition=acquisition, temporal=temporal)
        for n, (one, z) in enumerate(zip(found, alongs, strict=True))
    ]


def of(*groups: Sequence[Instance]) -> Series:
    return replace(series("s", 1), instances=tuple(image for group in groups for image in group))


def steps(count: int, step_mm: float = 5.0, start_mm: float = 0.0) -> list[float]:
    return [start_mm + step_mm * n for n in range(count)]


def told(made: Series) -> list[tuple[str, int, int]]:
    """Label, images and images left out of each stack."""
    return [(stack.label, len(stack.images), stack.left_out) for stack in stacks(made)]


def test_an_ordinary_series_is_one_stack_without_its_localizer() -> None:
    assert told(of(images(steps(30)), images([0.0], 31, kind="LOCALIZER"))) == [("", 30, 0)]


def test_the_phases_of_a_4d_series_are_stacks_of_their_own() -> None:
    made = of(*(images(steps(20), 1 + 20 * phase, temporal=phase + 1) for phase in range(3)))
    assert told(made) == [("时相 1", 20, 0), ("时相 2", 20, 0), ("时相 3", 20, 0)]


def test_acquisitions_of_the_same_body_are_stacks_of_their_own() -> None:
    assert told(of(images(steps(30), acquisition=2), images(steps(28), 31, acquisition=3))) == [("采集 2", 30, 0), ("采集 3", 28, 0)]


def test_two_breath_holds_that_share_some_slices_are_one_stack_that_shows_each_place_once() -> None:
    made = of(images(steps(30), acquisition=1), images(steps(30, start_mm=140.0), 31, acquisition=2))
    assert told(made) == [("", 58, 2)]
    assert places(stacks(made)[0].images) == 58


def test_a_second_breath_hold_on_another_grid_brings_only_what_is_beyond_the_first() -> None:
    (stack,) = stacks(of(images(steps(30), acquisition=1), images(steps(30, start_mm=139.7), 31, acquisition=2)))
    alongs = [along(image) for image in stack.images]
    assert min(b - a for a, b in pairwise(alongs)) > 2.5


def test_step_and_shoot_with_an_acquisition_per_slice_stays_whole() -> None:
    assert told(of(*(images([z], n, acquisition=n) for n, z in enumerate(steps(40), start=1)))) == [("", 40, 0)]
    odd_and_even = of(images(steps(20, 10.0), acquisition=1), images(steps(20, 10.0, 5.0), 21, acquisition=2))
    assert told(odd_and_even) == [("", 40, 0)]


def test_bolus_images_do_not_take_the_place_of_the_slice_at_their_place() -> None:
    made = of(images([50.0] * 12, acquisition=1), images(steps(30), 13, acquisition=2))
    largest = stacks(made)[0]
    assert (len(largest.images), {image.acquisition for image in largest.images}) == (30, {2})
    assert [places(stack.images) for stack in stacks(made)] == [30, 1]


def test_without_acquisition_numbers_the_order_of_the_images_tells_two_passes_apart() -> None:
    assert told(of(images(steps(20)), images(steps(20), 21))) == [("第 1 组", 20, 0), ("第 2 组", 20, 0)]


def test_images_sent_again_under_other_uids_leave_one_image_a_place() -> None:
    made = of(images(steps(20)), images(steps(20)[4:7], 50))
    assert [len(stack.images) for stack in stacks(made)] == [20, 3]


def test_blocks_of_different_acquisitions_far_apart_are_different_scans() -> None:
    made = of(images(steps(30), acquisition=1), images(steps(12, start_mm=400.0), 31, acquisition=2))
    assert [count for _, count, _ in told(made)] == [30, 12]


def test_orientations_and_matrices_are_kept_apart() -> None:
    coronal = [replace(image, orientation=CORONAL, position_mm=(0.0, y, 0.0)) for image, y in zip(images(steps(10), 40), steps(10), strict=True)]
    small = [replace(image, rows=256, columns=256) for image in images(steps(9), 60)]
    assert sorted(count for _, count, _ in told(of(images(steps(30)), coronal, small))) == [9, 10, 30]


def test_a_multi_frame_object_is_a_stack_whose_frames_count() -> None:
    enhanced = replace(series("s", 1).instances[0], sop_class=ENHANCED, frames=120, position_mm=None, orientation=None)
    (stack,) = stacks(of([enhanced]))
    assert stack.images == (enhanced,)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_no_image_is_lost_or_doubled_and_the_order_counts_for_nothing(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 25))
    traits = st.tuples(st.integers(0, 8), st.sampled_from([None, 1, 2]), st.sampled_from([None, 1, 2]))
    made = of(*(images([5.0 * place], n, acquisition=a, temporal=t) for n, (place, a, t) in enumerate([data.draw(traits) for _ in range(count)])))
    found = stacks(made)
    uids = [image.sop_uid for stack in found for image in stack.images]
    assert len(set(uids)) == len(uids)
    assert len(uids) + sum(stack.left_out for stack in found) == count
    assert len({stack.label for stack in found}) == len(found)
    for stack in found:
        alongs = [along(image) for image in stack.images]
        first = stack.images[0]
        phase = [image for image in made.instances if image.temporal == first.temporal]
        wholes = [{image.sop_uid for image in some} for some in (phase, [image for image in phase if image.acquisition == first.acquisition])]
        one_a_place = alongs == sorted(set(alongs)) or len(set(alongs)) == 1
        assert one_a_place or {image.sop_uid for image in stack.images} in wholes  # nothing here told them apart: left whole for the pixels' reader
    shuffled = list(made.instances)
    random.Random(data.draw(st.integers(0, 99))).shuffle(shuffled)
    assert stacks(replace(made, instances=tuple(shuffled))) == found


def test_numbers_that_follow_no_place_tell_no_phases_apart() -> None:
    """Two images a place and numbers at random: whoever ranked them would mix two phases."""
    twice = images(steps(12)) + images(steps(12), 13)
    numbers = list(range(1, 25))
    random.Random(7).shuffle(numbers)
    made = of([replace(image, instance_number=number) for image, number in zip(twice, numbers, strict=True)])
    assert [(len(stack.images), places(stack.images)) for stack in stacks(made)] == [(24, 12)]


def test_an_acquisition_for_every_exposure_tells_no_pass_from_another() -> None:
    made = of(*(images([z], n, acquisition=n) for n, z in enumerate([*steps(20), *steps(20)], start=1)))
    assert told(made) == [("采集 1 等", 20, 0), ("采集 21 等", 20, 0)]
