from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from pipeline.imaging.lungs import Lungs, lungs_of
from pipeline.imaging.volume import Volume
from pipeline.model import Side
from pipeline.training.phantom import draw
from pipeline.training.render import Grid, render
from tests.chests import (
    chest,
    cropped,
    places,
    volume_of,
    with_fluid_for_a_lung,
    with_stomach_gas,
    with_table_and_arms,
    with_touching_lungs,
    with_trachea,
    with_values,
)

CENTERS = {Side.RIGHT: (-75.0, 0.0, 20.0), Side.LEFT: (75.0, 0.0, 20.0)}


def found(volume: Volume) -> Lungs:
    lungs = lungs_of(volume)
    assert lungs is not None
    return lungs


def assert_apart(lungs: Lungs, within_mm: float = 25.0) -> None:
    """Each lung holds the middle of its side, and reaches across the midline at most a little."""
    for side, own, other in ((Side.RIGHT, lungs.right, lungs.left), (Side.LEFT, lungs.left, lungs.right)):
        index = tuple(np.rint((np.array(CENTERS[side]) - lungs.low_mm)[::-1] / lungs.step_mm).astype(int))
        assert own[index]
        assert not other[index]
    x = lungs.low_mm[0] + lungs.step_mm[2] * np.arange(lungs.mask.shape[2])
    assert x[lungs.left.any(axis=(0, 1))].min() > -within_mm
    assert x[lungs.right.any(axis=(0, 1))].max() < within_mm
    assert not (lungs.left & lungs.right).any()


def overlap(one: np.ndarray, other: np.ndarray) -> float:
    """Dice."""
    return float(2 * (one & other).sum() / (one.sum() + other.sum()))


@pytest.mark.parametrize("seed", [1, 2, 3, 900_003, 900_019])
def test_phantoms_have_a_lung_on_each_side_that_holds_its_lesions(seed: int) -> None:
    volume, _ = chest(seed)
    lungs = found(volume)
    assert_apart(lungs)
    assert 800 < lungs.left_ml < 2600
    assert 800 < lungs.right_ml < 2600
    assert lungs.volume_ml == pytest.approx(lungs.left_ml + lungs.right_ml)
    assert lungs.flags == ()
    assert abs(lungs.midline_mm) < 12
    for lesion in draw(seed).truth.lesions:
        assert lungs.side_of(lesion.center_mm) is lesion.side


@pytest.mark.parametrize("edit", [with_trachea, with_touching_lungs, with_table_and_arms, with_stomach_gas], ids=lambda f: f.__name__)
def test_what_real_chests_have_changes_little(edit: Callable[[Volume, Grid], Volume]) -> None:
    volume, grid = chest()
    plain, edited = found(volume), found(edit(volume, grid))
    assert_apart(edited)
    assert overlap(plain.left, edited.left) > 0.97
    assert overlap(plain.right, edited.right) > 0.97


def test_everything_at_once_on_both_kinds_of_slices() -> None:
    for spacing_mm in ((1.25, 2.0, 2.0), (10.0, 2.0, 2.0)):
        volume, grid = chest(5, spacing_mm)
        for edit in (with_trachea, with_touching_lungs, with_table_and_arms, with_stomach_gas):
            volume = edit(volume, grid)
        assert_apart(found(volume))


def test_the_trachea_and_main_bronchi_are_no_lung() -> None:
    volume, grid = chest()
    lungs = found(with_trachea(volume, grid))
    along_the_trachea = np.array([[0.0, -5.0, z] for z in range(40, 140, 5)])
    assert lungs.contains(along_the_trachea).mean() < 0.1


def test_gas_in_the_stomach_is_no_lung() -> None:
    volume, grid = chest()
    assert not found(with_stomach_gas(volume, grid)).contains(np.array([70.0, 2.0, -130.0]))


@pytest.mark.parametrize("noise_hu", [40.0, 120.0])
def test_low_dose_noise_changes_little(noise_hu: float) -> None:
    volume, _ = chest(spacing_mm=(2.5, 1.5, 1.5))
    noisy = volume.hu + np.random.default_rng(1).normal(0, noise_hu, volume.hu.shape).astype(np.float32)
    plain, other = found(volume), found(replace(volume, hu=np.maximum(noisy, -1024).astype(np.float32)))
    assert overlap(plain.left, other.left) > 0.97
    assert overlap(plain.right, other.right) > 0.97


@pytest.mark.parametrize("spacing_mm", [(0.5, 3.0, 3.0), (1.0, 3.0, 3.0), (7.0, 1.0, 1.0), (10.0, 0.8, 0.8)])
def test_volumes_are_the_same_at_any_slice_thickness(spacing_mm: tuple[float, float, float]) -> None:
    lungs, usual = found(chest(2, spacing_mm)[0]), found(chest(2)[0])
    assert_apart(lungs)
    assert lungs.left_ml == pytest.approx(usual.left_ml, rel=0.08)
    assert lungs.right_ml == pytest.approx(usual.right_ml, rel=0.08)


def test_whole_numbers_give_the_same_lungs_as_broken_ones() -> None:
    volume, _ = chest()
    whole = found(replace(volume, hu=volume.hu.astype(np.int16)))
    np.testing.assert_array_equal(whole.left, found(volume).left)


@pytest.mark.parametrize(("sign", "kept", "opaque"), [(1, Side.RIGHT, Side.LEFT), (-1, Side.LEFT, Side.RIGHT)])
def test_one_lung_without_air_is_flagged_and_sides_stay_right(sign: int, kept: Side, opaque: Side) -> None:
    volume, grid = chest()
    lungs = found(with_fluid_for_a_lung(volume, grid, sign))
    assert f"仅{kept}侧见含气肺组织" in lungs.flags[0]
    mask, none = (lungs.left, lungs.right) if kept is Side.LEFT else (lungs.right, lungs.left)
    assert mask.sum() > 20 * none.sum()
    assert lungs.side_of(CENTERS[kept]) is kept
    assert lungs.side_of(CENTERS[opaque]) is opaque
    assert lungs.side_of((20.0 * sign, 0.0, 20.0)) is opaque  # near the midline, next to the lung that has air
    assert abs(lungs.midline_mm) < 15


@pytest.mark.parametrize("share", [0.3, 0.6, 0.8])
def test_much_fluid_on_one_side_leaves_both_lungs_where_they_are(share: float) -> None:
    volume, grid = chest()
    lungs = found(with_fluid_for_a_lung(volume, grid, 1, share))
    assert lungs.side_of((80.0, 60.0, 20.0)) is Side.LEFT
    assert lungs.side_of((-80.0, 60.0, 20.0)) is Side.RIGHT
    assert 0 < lungs.left_ml < lungs.right_ml
    assert lungs.right_ml == pytest.approx(found(volume).right_ml, rel=0.03)


def test_a_lung_that_lies_next_to_air_above_a_shoulder_across_a_gap_is_still_lung() -> None:
    volume, grid = chest()
    x, _, z = places(grid)
    gone = with_values(volume, (z > 60) & (x > 20) & (x < 150), -1000.0)  # the slices above show air where the left lung was
    lungs = found(gone)
    assert lungs.left_ml > 500
    assert lungs.contains(np.array(CENTERS[Side.LEFT]))


def test_a_small_rest_of_a_lung_that_touches_the_other_is_still_its_own() -> None:
    volume, grid = chest(700_538, (2.5, 3.0, 3.0))
    lungs = found(with_fluid_for_a_lung(with_touching_lungs(volume, grid), grid, 1, 0.7))
    assert lungs.left_ml > 50
    x = lungs.low_mm[0] + lungs.step_mm[2] * np.arange(lungs.mask.shape[2])
    assert x[lungs.right.any(axis=(0, 1))].max() < 45


def test_next_to_a_lung_that_reaches_across_the_midline_the_side_is_that_lungs() -> None:
    left, right = np.zeros((2, 10, 10, 40), dtype=bool)
    left[..., 15:], right[..., :5] = True, True  # x from −60 mm, 3 mm a voxel: the left lung begins at −15 mm
    lungs = Lungs(left, right, (-60.0, 0.0, 0.0), (3.0, 3.0, 3.0), midline_mm=0.0)
    assert [lungs.side_of((x, 15.0, 15.0)) for x in (-50.0, -21.0, -12.0, 30.0)] == [Side.RIGHT, Side.LEFT, Side.LEFT, Side.LEFT]
    assert lungs.side_of((-32.0, 15.0, 15.0)) is Side.RIGHT  # next to neither: by the midline


@pytest.mark.parametrize(("low_mm", "high_mm"), [(70.0, 150.0), (-150.0, -40.0)], ids=["apices", "bases"])
def test_the_ends_of_both_lungs_are_found(low_mm: float, high_mm: float) -> None:
    volume, _ = chest(spacing_mm=(2.5, 3.0, 3.0))
    lungs = found(cropped(volume, low_mm, high_mm))
    assert lungs.left_ml > 12
    assert lungs.right_ml > 12
    x = lungs.low_mm[0] + lungs.step_mm[2] * np.arange(lungs.mask.shape[2])
    assert (lungs.left.sum(axis=(0, 1)) @ x) / lungs.left.sum() > 40
    assert (lungs.right.sum(axis=(0, 1)) @ x) / lungs.right.sum() < -40


def test_emphysema_is_lung() -> None:
    volume, _ = chest()
    darker = replace(volume, hu=np.where((volume.hu < -700) & (volume.hu > -980), np.float32(-965), volume.hu))
    assert found(darker).volume_ml == pytest.approx(found(volume).volume_ml, rel=0.05)


def test_an_abdomen_with_gas_in_the_bowel_has_no_lungs() -> None:
    volume, grid = chest()
    x, y, z = places(grid)
    solid = with_values(volume, (volume.hu < -300) & (np.hypot(x / 160, y / 110) < 1) & np.ones_like(volume.hu, dtype=bool), 40.0)
    colon = [np.sqrt((x - sx) ** 2 + (y + 40) ** 2 + ((z - sz) / 2) ** 2) < 32 for sx, sz in ((100, 0), (-100, 10), (-90, 110))]
    assert lungs_of(with_values(solid, colon[0] | colon[1] | colon[2], -995.0)) is None


def test_legs_a_head_and_plain_air_have_no_lungs() -> None:
    volume, grid = chest()
    x, y, z = places(grid)
    air = with_values(volume, np.ones_like(volume.hu, dtype=bool), -1000.0)
    legs = with_values(air, (np.hypot(np.abs(x) - 80, y) < 60) & np.ones_like(volume.hu, dtype=bool), 40.0)
    head = with_values(with_values(air, np.hypot(np.hypot(x, y), z) < 90, 40.0), np.hypot(np.hypot(x, y + 60), z + 20) < 18, -1000.0)
    assert [lungs_of(v) for v in (air, legs, head)] == [None, None, None]


@pytest.mark.parametrize("turn_deg", [3.0, 12.0])
def test_an_oblique_volume_has_its_lungs_in_patient_coordinates(turn_deg: float) -> None:
    volume, grid = chest()
    cosine, sine = np.cos(np.radians(turn_deg)), np.sin(np.radians(turn_deg))
    axes = np.array([[0.0, 0.0, 1.0], [-sine, cosine, 0.0], [cosine, sine, 0.0]])
    origin = np.array([grid.x_mm[0], grid.y_mm[0], grid.z_mm[0]]) @ np.array([[cosine, sine, 0], [-sine, cosine, 0], [0, 0, 1]])
    lungs = found(replace(volume, axes=axes, origin_mm=(float(origin[0]), float(origin[1]), float(origin[2]))))
    assert lungs.left_ml == pytest.approx(found(volume).left_ml, rel=0.05)
    for side, center in CENTERS.items():
        turned = np.array([center[0] * cosine - center[1] * sine, center[0] * sine + center[1] * cosine, center[2]])
        assert lungs.contains(turned)
        assert lungs.side_of(turned) is side


def test_points_outside_the_volume_are_in_no_lung_and_still_have_a_side() -> None:
    lungs = found(chest()[0])
    far = np.array([[5000.0, 0.0, 0.0], [-5000.0, 0.0, 0.0], [75.0, 0.0, 20.0]])
    assert lungs.contains(far).tolist() == [False, False, True]
    assert [lungs.side_of(point) for point in far] == [Side.LEFT, Side.RIGHT, Side.LEFT]


def test_a_nodule_inside_is_part_of_the_lung() -> None:
    truth = draw(900_216).truth
    grid = Grid.centered((60, 96, 128), (5.0, 3.0, 3.0))
    lungs = found(volume_of(render(draw(900_216), grid), grid))
    assert lungs.contains(np.array(truth.lesions[0].center_mm))


def narrowed(volume: Volume, columns: slice) -> Volume:
    """The same slices with a smaller field of view."""
    start = np.array([0.0, 0.0, float(columns.start)])
    x, y, z = volume.to_patient(start)
    return replace(volume, hu=volume.hu[:, :, columns], origin_mm=(float(x), float(y), float(z)))


@pytest.mark.parametrize("seed", [1, 5])
@pytest.mark.parametrize("columns", [slice(64, 128), slice(0, 64), slice(52, 128)])
def test_a_field_of_view_of_one_lung_is_no_chest(seed: int, columns: slice) -> None:
    """Its middle is the middle of a lung: half of the left lung was called the right one, and so was what lies in it."""
    volume, _ = chest(seed, spacing_mm=(5.0, 3.0, 3.0))
    assert lungs_of(narrowed(volume, columns)) is None


@pytest.mark.parametrize("cut", [6, 15])
def test_a_field_of_view_that_cuts_only_the_chest_wall_changes_nothing(cut: int) -> None:
    volume, _ = chest(3, spacing_mm=(5.0, 3.0, 3.0))
    lungs = found(narrowed(volume, slice(cut, 128 - cut)))
    assert lungs.volume_ml == pytest.approx(found(volume).volume_ml, rel=0.01)
    assert abs(lungs.midline_mm) < 10
