from __future__ import annotations

import numpy as np
import pytest

from pipeline.model import Side
from pipeline.training.anatomy import Anatomy, directions, segment_distance_mm
from pipeline.training.phantom import Phantom, draw
from pipeline.training.placing import LIVER_LOW_MM, PLEURA_NEAR_MM, in_fat, in_liver, nearest_pleura, pleura_gap_mm

SEEDS = range(400)


@pytest.fixture(scope="module")
def phantoms() -> list[Phantom]:
    return [draw(seed) for seed in SEEDS]


def around(center: tuple[float, float, float], radius_mm: float) -> np.ndarray:
    """Points on a sphere, (24, 3)."""
    return np.asarray(np.array(center) + radius_mm * directions(24))


def in_lung(anatomy: Anatomy, side: Side, point: np.ndarray) -> bool:
    """By the equations themselves: inside the ellipsoid and the chest wall, above the dome, beside mediastinum and heart."""
    lung, (x, y, z) = anatomy.lung(side), point
    a, b = anatomy.body_mm
    inside = (((point - np.array(lung.center_mm)) / np.array(lung.axes_mm)) ** 2).sum() < 1 and (x / (0.88 * a)) ** 2 + (y / (0.88 * b)) ** 2 < 1
    beside = (x / anatomy.mediastinum_mm) ** 2 + (y / 76.0) ** 2 > 1 and anatomy.heart.level(point) > 1
    return bool(inside and beside and z > lung.floor_mm(x, y) and segment_distance_mm(anatomy.blood, point).min() > 0)


def test_a_lesion_lies_whole_in_the_lung_of_its_side(phantoms: list[Phantom]) -> None:
    for phantom in phantoms[:200]:
        for lesion in phantom.truth.lesions:
            points = around(lesion.center_mm, lesion.size_mm / 2)
            assert all(in_lung(phantom.anatomy, lesion.side, point) for point in points), phantom.truth.seed


def test_a_lesion_s_lobe_is_told_by_the_fissures(phantoms: list[Phantom]) -> None:
    for phantom in phantoms:
        for lesion in phantom.truth.lesions:
            lung, (_, y, z) = phantom.anatomy.lung(lesion.side), lesion.center_mm
            below_oblique = z < lung.oblique[0] + lung.oblique[1] * y
            below_horizontal = lung.horizontal_mm is not None and z < lung.horizontal_mm
            assert lesion.lobe == ("下叶" if below_oblique else "中叶" if below_horizontal else "上叶")
            assert abs(z - lung.oblique[0] - lung.oblique[1] * y) >= 8


def test_every_lobe_of_either_side_has_its_share(phantoms: list[Phantom]) -> None:
    lobes = [(lesion.side, lesion.lobe) for phantom in phantoms for lesion in phantom.truth.lesions]
    assert len(set(lobes)) == 5
    assert min(lobes.count(lobe) for lobe in set(lobes)) > 0.08 * len(lobes)


def test_fluid_hides_no_lesion(phantoms: list[Phantom]) -> None:
    for phantom in phantoms:
        for lesion in phantom.truth.lesions:
            if (reach := phantom.effusion_mm.get(lesion.side)) is not None:
                lung = phantom.anatomy.lung(lesion.side)
                assert lesion.center_mm[1] + lesion.size_mm / 2 < lung.center_mm[1] + lung.axes_mm[1] - reach


def test_fibrosis_and_fluid_are_not_in_one_lung(phantoms: list[Phantom]) -> None:
    assert not any(phantom.truth.fibrosis & phantom.truth.effusion for phantom in phantoms)


def test_a_nodule_with_retraction_is_near_the_pleura(phantoms: list[Phantom]) -> None:
    found = [(p, lesion) for p in phantoms for lesion in p.truth.lesions if lesion.retraction]
    assert len(found) > 20
    for phantom, lesion in found:
        gap = pleura_gap_mm(phantom.anatomy, phantom.anatomy.lung(lesion.side), lesion.center_mm) - lesion.size_mm / 2
        assert 0 < gap <= PLEURA_NEAR_MM


def test_the_nearest_pleura_lies_on_the_lung_s_border() -> None:
    anatomy = draw(3).anatomy
    for lung in anatomy.lungs:
        point = nearest_pleura(anatomy, lung, lung.center_mm)
        a, b = anatomy.body_mm
        on_ellipsoid = (((point - np.array(lung.center_mm)) / np.array(lung.axes_mm)) ** 2).sum()
        on_wall = (point[0] / (0.88 * a)) ** 2 + (point[1] / (0.88 * b)) ** 2
        assert max(on_ellipsoid, on_wall) == pytest.approx(1, abs=1e-6)


def test_nodes_lie_in_the_fat_of_the_mediastinum(phantoms: list[Phantom]) -> None:
    nodes = [(p, node) for p in phantoms for node in p.truth.nodes]
    assert len(nodes) > 40
    for phantom, node in nodes:
        assert in_fat(phantom.anatomy, np.array(node.center_mm), node.size_mm / 2)
        assert all(phantom.anatomy.heart.level(point) > 1 for point in around(node.center_mm, node.size_mm / 2))
        assert segment_distance_mm(phantom.anatomy.blood, node.center_mm).min() > node.size_mm / 2
        assert segment_distance_mm(phantom.anatomy.airways, node.center_mm).min() > node.size_mm / 2


def test_liver_lesions_lie_in_the_liver_where_chest_scans_show_it(phantoms: list[Phantom]) -> None:
    found = [(p, one) for p in phantoms for one in p.truth.liver]
    assert len(found) > 50
    for phantom, one in found:
        assert in_liver(phantom.anatomy, np.array(one.center_mm), one.size_mm / 2)
        assert one.center_mm[2] >= LIVER_LOW_MM
        for point in around(one.center_mm, one.size_mm / 2):
            assert phantom.anatomy.liver.level(point) < 1
            assert point[2] < phantom.anatomy.diaphragm_mm(point[0], point[1])
