from __future__ import annotations

import json
import math

import numpy as np
import pytest

from pipeline.drafting.schema import DENSITIES, KINDS, LOBES
from pipeline.model import Side
from pipeline.training.phantom import Truth, draw
from pipeline.training.render import Grid, render

SEEDS = range(2_000)
GRID = Grid.centered((48, 72, 96), (6.25, 3.75, 3.75))


@pytest.fixture(scope="module")
def truths() -> list[Truth]:
    return [draw(seed).truth for seed in SEEDS]


def test_a_seed_is_one_patient() -> None:
    assert draw(11).truth == draw(11).truth
    np.testing.assert_array_equal(render(draw(11), GRID), render(draw(11), GRID))
    assert draw(11).truth != draw(12).truth


def test_truth_survives_json(truths: list[Truth]) -> None:
    for truth in truths[:200]:
        assert Truth.from_json(json.loads(truth.dumps())) == truth


def test_terms_are_the_schema_s(truths: list[Truth]) -> None:
    lesions = [lesion for truth in truths for lesion in truth.lesions]
    assert {lesion.kind for lesion in lesions} == set(KINDS)
    assert {lesion.lobe for lesion in lesions} == set(LOBES)
    assert {lesion.density for lesion in lesions} == set(DENSITIES)


def test_sides_follow_patient_coordinates(truths: list[Truth]) -> None:
    for truth in truths:
        for lesion in truth.lesions:
            assert lesion.side is (Side.LEFT if lesion.center_mm[0] > 0 else Side.RIGHT)
            assert lesion.side is Side.RIGHT or lesion.lobe != "中叶"


def test_normals_low_dose_and_every_effusion_occur(truths: list[Truth]) -> None:
    assert 0.1 < np.mean([not truth.lesions for truth in truths]) < 0.4
    assert 0.3 < np.mean([truth.low_dose for truth in truths]) < 0.4
    assert len({truth.effusion for truth in truths}) == 4
    assert max(len(truth.lesions) for truth in truths) == 4


def test_lesions_lie_apart(truths: list[Truth]) -> None:
    for truth in truths:
        for number, one in enumerate(truth.lesions):
            for other in truth.lesions[number + 1 :]:
                assert math.dist(one.center_mm, other.center_mm) > (one.size_mm + other.size_mm) / 2


@pytest.mark.parametrize("seed", [seed for seed in range(40) if draw(seed).truth.lesions][:6])
def test_a_lesion_is_denser_than_lung_at_its_centre(seed: int) -> None:
    hu = render(draw(seed), GRID)
    for lesion in draw(seed).truth.lesions:
        x, y, z = (int(np.abs(axis - c).argmin()) for axis, c in zip((GRID.x_mm, GRID.y_mm, GRID.z_mm), lesion.center_mm, strict=True))
        assert hu[z, y, x] > -720


def test_low_dose_is_noisier() -> None:
    phantoms = [draw(seed) for seed in range(300)]
    noise = {low: np.mean([p.noise_hu for p in phantoms if p.truth.low_dose is low]) for low in (False, True)}
    assert noise[True] > 1.8 * noise[False]
