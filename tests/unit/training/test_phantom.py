from __future__ import annotations

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from pipeline.drafting.schema import DENSITIES, KINDS, LIVER_KINDS, LOBES, MARGINS
from pipeline.model import Side
from pipeline.training.phantom import HELD_OUT, TRAINED, Lesion, LiverLesion, Node, Phantom, Truth, draw
from pipeline.training.scanners import MAX_VOXELS, Scanners

SEEDS = range(400)


@pytest.fixture(scope="module")
def phantoms() -> list[Phantom]:
    return [draw(seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def truths(phantoms: list[Phantom]) -> list[Truth]:
    return [phantom.truth for phantom in phantoms]


@pytest.fixture(scope="module")
def nodules(truths: list[Truth]) -> list[Lesion]:
    return [lesion for truth in truths for lesion in truth.lesions if lesion.kind == "结节"]


def test_a_seed_is_one_patient() -> None:
    assert draw(11).truth == draw(11).truth
    np.testing.assert_array_equal(draw(11).vessels, draw(11).vessels)
    assert draw(11).truth != draw(12).truth


def test_the_same_patient_goes_to_any_scanner(phantoms: list[Phantom]) -> None:
    for phantom in phantoms[:40]:
        other = draw(phantom.truth.seed, HELD_OUT)
        for name in ("lesions", "nodes", "liver", "effusion", "emphysema", "fibrosis"):
            assert getattr(other.truth, name) == getattr(phantom.truth, name)
        assert other.truth.kernel != phantom.truth.kernel
        assert other.lung_hu == phantom.lung_hu


def test_truth_survives_json(truths: list[Truth]) -> None:
    for truth in truths[:200]:
        assert Truth.from_json(json.loads(truth.dumps())) == truth


def test_truth_of_an_older_version_is_read() -> None:
    lesion = {"kind": "结节", "side": "左", "lobe": "上叶", "density": "实性", "size_mm": 9.0, "center_mm": [1.0, 2.0, 3.0]}
    old = {"lesions": [lesion], "effusion": ["右"], "low_dose": False, "seed": 3, "kvp": 120.0, "mas": 99.0, "kernel": "B30f"}
    truth = Truth.from_json(old)
    assert truth.lesions == (Lesion("结节", Side.LEFT, "上叶", "实性", 9.0, (1.0, 2.0, 3.0)),)
    assert (truth.effusion, truth.nodes, truth.liver, truth.fibrosis) == (frozenset({Side.RIGHT}), (), (), frozenset())


def test_terms_are_the_schema_s(truths: list[Truth]) -> None:
    lesions = [lesion for truth in truths for lesion in truth.lesions]
    assert {lesion.kind for lesion in lesions} == set(KINDS)
    assert {lesion.lobe for lesion in lesions} == set(LOBES)
    assert {lesion.density for lesion in lesions} == set(DENSITIES)
    assert {lesion.margin for lesion in lesions} == set(MARGINS)
    assert {one.kind for truth in truths for one in truth.liver} == set(LIVER_KINDS)


def test_every_finding_occurs_about_as_often_as_meant(truths: list[Truth]) -> None:
    share = {
        name: float(np.mean([bool(getattr(truth, name)) for truth in truths])) for name in ("effusion", "emphysema", "fibrosis", "nodes", "liver")
    }
    for name, meant in {"effusion": 0.25, "emphysema": 0.15, "fibrosis": 0.12, "nodes": 0.15, "liver": 0.2}.items():
        assert share[name] == pytest.approx(meant, abs=0.06), name
    assert 0.13 < np.mean([truth.is_normal for truth in truths]) < 0.22
    assert 0.3 < np.mean([truth.low_dose for truth in truths]) < 0.41
    assert 0.19 < np.mean([truth.contrast for truth in truths]) < 0.32
    assert 0.1 < np.mean([any(one.kind == "实变" for one in truth.lesions) for truth in truths]) < 0.22
    assert len({truth.effusion for truth in truths}) == 4
    assert max(len(truth.lesions) for truth in truths) == 4


def test_each_trait_of_a_nodule_goes_with_each_other(nodules: list[Lesion]) -> None:
    assert len({(one.density, one.margin) for one in nodules}) == 9
    assert min(np.mean([one.margin == margin for one in nodules]) for margin in ("光滑", "分叶", "毛刺")) > 0.2
    assert 0.08 < np.mean([one.retraction for one in nodules]) < 0.25
    assert 0.04 < np.mean([one.calcified for one in nodules]) < 0.2
    assert all(one.density == "实性" for one in nodules if one.calcified)


def test_spiculated_nodules_are_larger_on_average(nodules: list[Lesion]) -> None:
    size = {margin: np.mean([one.size_mm for one in nodules if one.margin == margin]) for margin in ("光滑", "毛刺")}
    assert size["毛刺"] > size["光滑"]


def test_sizes_are_whole_millimetres_in_their_ranges(truths: list[Truth]) -> None:
    ranges = {"结节": (6, 30), "实变": (32, 55)}
    found = [(one.size_mm, *ranges[one.kind]) for truth in truths for one in truth.lesions]
    found += [(one.size_mm, 11, 25) for truth in truths for one in truth.nodes]
    found += [(one.size_mm, 12, 35) for truth in truths for one in truth.liver]
    for size, low, high in found:
        assert size == round(size)
        assert low <= size <= high


def test_sides_follow_patient_coordinates(truths: list[Truth]) -> None:
    for truth in truths:
        for lesion in truth.lesions:
            assert lesion.side is (Side.LEFT if lesion.center_mm[0] > 0 else Side.RIGHT)
            assert lesion.side is Side.RIGHT or lesion.lobe != "中叶"


def test_findings_lie_apart(truths: list[Truth]) -> None:
    for truth in truths:
        places: list[Lesion | Node | LiverLesion] = [*truth.lesions, *truth.nodes, *truth.liver]
        for number, one in enumerate(places):
            for other in places[number + 1 :]:
                assert math.dist(one.center_mm, other.center_mm) > (one.size_mm + other.size_mm) / 2


def test_low_dose_is_noisier(phantoms: list[Phantom]) -> None:
    noise = {low: np.mean([p.noise_hu for p in phantoms if p.truth.low_dose is low]) for low in (False, True)}
    assert noise[True] > 1.8 * noise[False]
    assert max(p.noise_hu for p in phantoms) <= 52


def test_contrast_medium_brightens_blood_liver_and_spleen(phantoms: list[Phantom]) -> None:
    for phantom in phantoms:
        bright = (phantom.blood_hu > 130, phantom.liver_hu > 100, phantom.spleen_hu > 110)
        assert bright == (phantom.truth.contrast,) * 3


@pytest.mark.parametrize("scanners", [TRAINED, HELD_OUT], ids=["trained", "held out"])
def test_a_scan_shows_both_lungs_in_at_most_three_million_voxels(scanners: Scanners) -> None:
    for seed in range(150):
        scan = draw(seed, scanners).scan
        assert math.prod(scan.shape) <= MAX_VOXELS
        assert all(n * step >= least for n, step, least in zip(scan.shape, scan.spacing_mm, (280.0, 240.0, 320.0), strict=True))
        assert draw(seed, scanners).truth.thickness_mm == scan.spacing_mm[0]


def test_held_out_scanners_differ_from_those_of_training_in_every_column() -> None:
    trained, held_out = asdict(TRAINED), asdict(HELD_OUT)
    assert not set(TRAINED.kvp) & set(HELD_OUT.kvp)
    assert not set(TRAINED.spacing_mm) & set(HELD_OUT.spacing_mm)
    assert not {kernel.name for kernel in TRAINED.kernels} & {kernel.name for kernel in HELD_OUT.kernels}
    assert not {kernel.sharpness for kernel in TRAINED.kernels} & {kernel.sharpness for kernel in HELD_OUT.kernels}
    assert all(trained[name] != held_out[name] for name in trained)
