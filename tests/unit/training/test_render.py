from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy import ndimage

from pipeline.model import Side
from pipeline.training.lesions import retraction_of, shape_of
from pipeline.training.phantom import Lesion, Phantom, Truth, draw
from pipeline.training.render import Grid, grid_of, render

COARSE = Grid.centered((48, 72, 96), (6.25, 3.75, 3.75))
BONE_FROM_HU = 110.0
BALL = ((np.indices((9, 9, 9)) - 4) ** 2).sum(axis=0) <= 16  # wider than a spicule where voxels measure 0.5 mm


@cache
def first(which: Callable[[Truth], object]) -> Phantom:
    """The first phantom with a trait."""
    return next(phantom for phantom in map(draw, range(2_000)) if which(phantom.truth))


def at(center: tuple[float, float, float], size: int = 9, step_mm: float = 1.0) -> Grid:
    """A cube of voxels around a point."""
    base = Grid.centered((size, size, size), (step_mm, step_mm, step_mm))
    return Grid(*((axis + np.float32(c)).astype(np.float32) for axis, c in zip((base.x_mm, base.y_mm, base.z_mm), center, strict=True)))


def hu_at(phantom: Phantom, center: tuple[float, float, float]) -> float:
    """HU without noise at a point."""
    return float(render(phantom, at(center, 3), noise=False)[1, 1, 1])


def without(phantom: Phantom, **changed: object) -> Phantom:
    return replace(phantom, truth=replace(phantom.truth, **changed))  # type: ignore[arg-type]  # fields of Truth


def test_the_same_phantom_and_grid_give_the_same_bytes() -> None:
    assert render(draw(11), COARSE).tobytes() == render(draw(11), COARSE).tobytes()


@pytest.mark.parametrize("seed", [1, 2, 3, 5, 6])
def test_a_part_of_a_grid_is_a_part_of_the_picture(seed: int) -> None:
    """Without noise: whatever a small grid skips is not in it."""
    phantom = draw(seed)
    grid = grid_of(phantom.scan)
    whole = render(phantom, grid, noise=False)
    rng = np.random.default_rng(seed)
    for lesion in [*phantom.truth.lesions, *phantom.truth.nodes, *phantom.truth.liver, None, None, None]:
        middle = np.array(lesion.center_mm[::-1]) if lesion else np.array([rng.uniform(-140, 140), rng.uniform(-100, 100), rng.uniform(-140, 140)])
        index = np.rint((middle - np.array([grid.z_mm[0], grid.y_mm[0], grid.x_mm[0]])) / np.array(grid.step_mm)).astype(int)
        low = np.clip(index - [5, 20, 20], 0, np.array(grid.shape) - [10, 40, 40])
        box = tuple(slice(int(a), int(a) + n) for a, n in zip(low, (10, 40, 40), strict=True))
        part = Grid(grid.x_mm[box[2]], grid.y_mm[box[1]], grid.z_mm[box[0]])
        np.testing.assert_allclose(render(phantom, part, noise=False), whole[box], atol=0.2)


def test_noise_has_the_strength_of_the_acquisition_and_nothing_else_changes() -> None:
    phantom = first(lambda truth: truth.low_dose)
    noise = render(phantom, COARSE) - render(phantom, COARSE, noise=False)
    assert noise.std() == pytest.approx(phantom.noise_hu, rel=0.01)
    assert abs(noise.mean()) < 0.05 * phantom.noise_hu
    moved = Grid(COARSE.x_mm, COARSE.y_mm, COARSE.z_mm + np.float32(1))
    assert not np.allclose(noise, render(phantom, moved) - render(phantom, moved, noise=False), atol=1.0)


def test_lesions_are_as_dense_at_their_centres_as_they_are_told() -> None:
    """Vessels may cross ground glass, calcium lies in solid nodules."""
    expected = {"实性": (20, 60), "部分实性": (20, 60), "磨玻璃": (-600, -500)}
    seen = []
    for phantom in map(draw, range(60)):
        alone = replace(phantom, vessels=phantom.vessels[:0])
        for lesion in phantom.truth.lesions:
            low, high = (255, 405) if lesion.calcified else expected[lesion.density]
            assert low <= hu_at(alone, lesion.center_mm) <= high, (phantom.truth.seed, lesion)
            assert hu_at(without(alone, lesions=()), lesion.center_mm) < -700, phantom.truth.seed
            seen.append(lesion.density)
    assert set(seen) == set(expected)


def test_what_the_truth_does_not_tell_is_not_there() -> None:
    """Each finding changes the picture, and only around itself."""
    phantom = first(lambda truth: len(truth.lesions) == 2 and truth.nodes and not truth.low_dose)
    whole = render(phantom, COARSE, noise=False)
    kept, gone = phantom.truth.lesions
    changed = np.abs(render(without(phantom, lesions=(kept,)), COARSE, noise=False) - whole) > 1
    z, y, x = np.nonzero(changed)
    away = np.linalg.norm(np.stack([COARSE.x_mm[x], COARSE.y_mm[y], COARSE.z_mm[z]], axis=1) - np.array(gone.center_mm), axis=1)
    assert len(away) > 0
    assert away.max() < gone.size_mm / 2 + 12 + 26 * gone.retraction + 2 * 6.25


def test_nodes_and_liver_lesions_differ_from_what_is_around_them() -> None:
    for phantom in map(draw, range(150)):
        for node in phantom.truth.nodes:
            assert hu_at(phantom, node.center_mm) == pytest.approx(45, abs=1)
            assert hu_at(without(phantom, nodes=()), node.center_mm) == pytest.approx(-90, abs=8)
        for one in phantom.truth.liver:
            healthy = hu_at(without(phantom, liver=()), one.center_mm)
            assert healthy == pytest.approx(phantom.liver_hu, abs=1)
            assert hu_at(phantom, one.center_mm) < healthy - 10
            assert (hu_at(phantom, one.center_mm) < 12) is (one.kind == "囊肿")


def test_contrast_medium_lights_up_the_rim_of_a_haemangioma() -> None:
    phantom = first(lambda truth: truth.contrast and any(one.kind == "血管瘤" for one in truth.liver))
    one = next(one for one in phantom.truth.liver if one.kind == "血管瘤")
    cube = render(phantom, at(one.center_mm, round(one.size_mm) | 1), noise=False)
    assert cube.max() > phantom.liver_hu + 25
    plain = render(without(phantom, contrast=False), at(one.center_mm, round(one.size_mm) | 1), noise=False)
    assert plain.max() <= phantom.liver_hu + 1


@pytest.mark.parametrize("name", ["emphysema", "fibrosis", "effusion"])
def test_what_spreads_is_on_its_side_and_nowhere_else(name: str) -> None:
    phantom = first(lambda truth: getattr(truth, name) == {Side.RIGHT} and not truth.lesions)
    assert first(lambda truth: getattr(truth, name) == {Side.LEFT}).truth.seed != phantom.truth.seed
    bare = without(replace(phantom, effusion_mm={}), emphysema=frozenset(), fibrosis=frozenset())
    shown = replace(bare, effusion_mm=phantom.effusion_mm) if name == "effusion" else without(bare, **{name: getattr(phantom.truth, name)})
    difference = render(shown, COARSE, noise=False) - render(bare, COARSE, noise=False)
    right, left = difference[:, :, COARSE.x_mm < -5], difference[:, :, COARSE.x_mm > 5]
    assert np.abs(left).max() < 1e-3
    assert (right < -25).mean() > 0.05 if name == "emphysema" else (right > 60).mean() > 0.005


def test_emphysema_is_holes_high_up_and_fibrosis_a_band_at_the_base() -> None:
    phantom = first(lambda truth: truth.emphysema == {Side.RIGHT} and not truth.effusion)
    grid = grid_of(phantom.scan)
    holes = render(phantom, grid, noise=False) < -960
    holes[:, :, grid.x_mm > -40] = False
    outer = np.hypot(grid.x_mm[None] / phantom.anatomy.body_mm[0], grid.y_mm[:, None] / phantom.anatomy.body_mm[1]) > 0.85
    holes[:, outer] = False
    assert holes[grid.z_mm > 20].sum() > 2 * holes[grid.z_mm < 0].sum() > 0
    phantom = first(lambda truth: truth.fibrosis == {Side.LEFT} and not truth.emphysema)
    denser = render(phantom, COARSE, noise=False) - render(without(phantom, fibrosis=frozenset()), COARSE, noise=False)
    assert np.abs(denser[COARSE.z_mm > 8]).max() < 1e-3
    assert denser[COARSE.z_mm < -10].max() > 150


def isolated(margin: str, size_mm: float, **more: object) -> tuple[Phantom, Lesion]:
    """A solid nodule in the middle of an otherwise empty left upper lobe."""
    phantom = replace(first(lambda truth: truth.is_normal), effusion_mm={})
    lesion = Lesion("结节", Side.LEFT, "上叶", "实性", size_mm, (78.0, -5.0, 50.0), margin, **more)  # type: ignore[arg-type]  # traits of a lesion
    return replace(without(phantom, lesions=(lesion,)), vessels=phantom.vessels[:0]), lesion


@pytest.mark.parametrize("size_mm", [10.0, 16.0, 24.0])
def test_margins_differ_at_the_resolution_of_a_scan(size_mm: float) -> None:
    """Roundness (4π·area/perimeter², by pixel counts) falls for lobes; lines outside of the body are spicules."""
    planes = {}
    for margin in ("光滑", "分叶", "毛刺"):
        phantom, lesion = isolated(margin, size_mm)
        base = Grid.centered((3, 41, 41), (5.0, 1.5, 1.5))
        x, y, z = (axis + np.float32(c) for axis, c in zip((base.x_mm, base.y_mm, base.z_mm), lesion.center_mm, strict=True))
        planes[margin] = (
            np.hypot((x - lesion.center_mm[0])[None], (y - lesion.center_mm[1])[:, None]),
            render(phantom, Grid(x, y, z), noise=False)[1],
        )
    edge, beyond = {}, {}
    for margin, (radius, plane) in planes.items():
        edge[margin] = float(np.std(radius[(plane > -700) & (plane < -100) & (radius < size_mm / 2 + 1.5)]))
        beyond[margin] = int((plane[(radius > size_mm / 2 + 2) & (radius < size_mm / 2 + 9)] > -790).sum())
    assert edge["分叶"] > 1.3 * edge["光滑"]
    assert beyond["毛刺"] >= 8
    assert beyond["光滑"] == beyond["分叶"] == 0


@pytest.mark.parametrize("margin", ["光滑", "分叶", "毛刺"])
@pytest.mark.parametrize("size_mm", [7.0, 15.0, 30.0])
def test_the_largest_diameter_of_the_body_is_the_size(margin: str, size_mm: float) -> None:
    phantom, lesion = isolated(margin, size_mm)
    hu = render(phantom, at(lesion.center_mm, 2 * round(size_mm) + 31, 0.5), noise=False)
    body = ndimage.binary_opening(hu > -430, BALL) if margin == "毛刺" else hu > -430
    points = np.argwhere(body ^ ndimage.binary_erosion(body)) * 0.5
    reach = [np.ptp(points @ way) for way in np.random.default_rng(0).normal(size=(400, 3)) for way in [way / np.linalg.norm(way)]]
    assert max(reach) + 0.5 == pytest.approx(size_mm, abs=1.2)


def test_a_retracted_pleura_is_tied_to_the_nodule_by_a_strand() -> None:
    plain, lesion = isolated("光滑", 14.0)
    lesion = replace(lesion, center_mm=(100.0, 0.0, 30.0), retraction=True)
    phantom = without(plain, lesions=(lesion,))
    strand = retraction_of(phantom.anatomy, phantom.anatomy.lung(Side.LEFT), lesion)[0]
    x, y, z = ((strand[:3] + strand[3:6]) / 2).tolist()
    assert hu_at(phantom, (x, y, z)) > -300
    assert hu_at(without(plain, lesions=(replace(lesion, retraction=False),)), (x, y, z)) < -750


def test_a_shape_is_decided_by_seed_and_place_alone() -> None:
    _, lesion = isolated("分叶", 20.0)
    same = replace(lesion, size_mm=28.0, density="磨玻璃")
    np.testing.assert_array_equal(shape_of(1, lesion).lobes, shape_of(1, same).lobes)
    assert not np.array_equal(shape_of(1, lesion).lobes, shape_of(2, lesion).lobes)
    x, y, z = lesion.center_mm
    mirror = shape_of(1, replace(lesion, side=Side.RIGHT, center_mm=(-x, y, z)))
    np.testing.assert_allclose(mirror.lobes * np.array([-1, 1, 1]), shape_of(1, lesion).lobes)


def test_air_fat_bone_and_blood_lie_where_anatomy_puts_them() -> None:
    phantom = first(lambda truth: truth.is_normal and not truth.contrast)
    assert hu_at(phantom, (1.0, 17.5, 90.0)) == pytest.approx(-1000, abs=1)  # windpipe
    assert hu_at(phantom, phantom.anatomy.heart.center_mm) == pytest.approx(42, abs=2)
    assert hu_at(phantom, (-60.0, -10.0, -115.0)) == pytest.approx(phantom.liver_hu, abs=1)
    assert hu_at(phantom, phantom.anatomy.spleen.center_mm) == pytest.approx(phantom.spleen_hu, abs=1)
    assert hu_at(phantom, (0.0, -60.0, 20.0)) == pytest.approx(-90, abs=5)
    assert hu_at(phantom, (0.0, 0.66 * phantom.anatomy.body_mm[1], 0.0)) > 80
    assert (render(phantom, COARSE, noise=False)[:, :, :4] == -1000).all()  # beside the patient
    assert (render(phantom, COARSE, noise=False) > BONE_FROM_HU).any()
