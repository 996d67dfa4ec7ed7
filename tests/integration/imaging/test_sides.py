"""The right side, however the pixels are stored: flipped, turned, prone, feet first, files and numbers in any order."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from pydicom import dcmread

from pipeline.encoder.compact import WEIGHTS, CompactEncoder
from pipeline.encoder.prepare import Prepared, Preparing, prepare
from pipeline.model import Features, Side
from pipeline.training.phantom import Truth, draw
from pipeline.training.phantom_dicom import write_study
from tests.rewritten import TURNS, Turn, as_enhanced, mirrored_pixels, rewritten, rewritten_enhanced

SEEDS = (900_413, 900_153, 900_425)  # nodule right and fluid left; nodule left; nodule left and fluid right
OTHER = {Side.LEFT: Side.RIGHT, Side.RIGHT: Side.LEFT}
SURE = 0.5  # score of a candidate that any way of storing must give
IN_CI = (4, 8)  # of the turns, where the full table would take too long: turned by 90; feet first and prone, shuffled
CI_OR_LONG = pytest.mark.parametrize(
    "turn", [pytest.param(turn, id=turn.name, marks=() if k in IN_CI else pytest.mark.long) for k, turn in enumerate(TURNS)]
)


@dataclass(frozen=True)
class Seen:
    """What was made of a series."""

    study: Prepared
    features: Features


@pytest.fixture(scope="module")
def encoder() -> CompactEncoder:
    torch.set_num_threads(1)
    return CompactEncoder.load(WEIGHTS)


def seen(paths: list[Path], encoder: CompactEncoder) -> Seen:
    study = prepare(paths, Preparing(key_slices=8))
    return Seen(study, encoder.encode_prepared([study])[0])


@dataclass(frozen=True)
class Stored:
    """A series in files, what it shows, and what is true of it where that is known."""

    paths: list[Path]
    straight: Seen
    truth: Truth


def phantom(seed: int, folder: Path, encoder: CompactEncoder) -> Stored:
    write_study(folder, seed, localizer=False)
    paths = sorted(folder.glob("*.dcm"))
    return Stored(paths, seen(paths, encoder), draw(seed).truth)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory, encoder: CompactEncoder) -> Stored:
    return phantom(SEEDS[0], tmp_path_factory.mktemp("phantom"), encoder)


@pytest.fixture(scope="module", params=SEEDS[1:])
def another(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, encoder: CompactEncoder) -> Stored:
    return phantom(request.param, tmp_path_factory.mktemp("phantom"), encoder)


@pytest.fixture(scope="module")
def chest(test_data: Path, encoder: CompactEncoder) -> tuple[list[Path], Seen]:
    paths = sorted((test_data / "chest_lidc_0314").glob("*.dcm"))
    return paths, seen(paths, encoder)


@pytest.fixture(scope="module")
def published(test_data: Path, encoder: CompactEncoder) -> tuple[Path, Seen]:
    """Legacy Converted Enhanced CT of the same patient: 12 frames with holes of up to 61 mm."""
    path = test_data / "enhanced_ct" / "lidc_idri_0314_legacy_converted_enhanced_ct_12f.dcm"
    return path, seen([path], encoder)


@pytest.fixture(scope="module")
def enhanced(chest: tuple[list[Path], Seen], published: tuple[Path, Seen], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All images of the classic series as one such image."""
    return as_enhanced(chest[0], published[0], tmp_path_factory.mktemp("enhanced") / "all.dcm")


def assert_the_same(found: Seen, straight: Seen) -> None:
    """Lungs, regions, key slices and candidates: the same places, the same sides, the same images."""
    assert found.study.lungs.left_ml == pytest.approx(straight.study.lungs.left_ml, rel=0.01)
    assert found.study.lungs.right_ml == pytest.approx(straight.study.lungs.right_ml, rel=0.01)
    assert found.study.lungs.midline_mm == pytest.approx(straight.study.lungs.midline_mm, abs=0.5)
    assert [_side(found, r.center_mm) for r in found.study.regions] == [_side(straight, r.center_mm) for r in straight.study.regions]
    for one, other in zip(found.study.regions, straight.study.regions, strict=True):
        assert math.dist(one.center_mm, other.center_mm) < 1.0
    assert [uid for uid, _ in found.study.key_names] == [uid for uid, _ in straight.study.key_names]
    assert _heights(found) == pytest.approx(_heights(straight), abs=1e-3)
    assert found.study.covers == straight.study.covers
    sure = [c for c in straight.features.candidates if c.score >= SURE]
    for candidate in sure:
        nearest = min(found.features.candidates, key=lambda c: math.dist(c.center_mm, candidate.center_mm))
        assert math.dist(nearest.center_mm, candidate.center_mm) < 1.0
        assert (nearest.side, nearest.slice_sop_uid) == (candidate.side, candidate.slice_sop_uid)
    assert found.features.effusion == straight.features.effusion


def _heights(one: Seen) -> list[float]:
    """LPS z of the key slices."""
    index = np.array([[float(z), 0.0, 0.0] for z in one.study.key_slices])
    return [float(z) for z in one.study.volume.to_patient(index)[:, 2]]


def _side(one: Seen, point: tuple[float, float, float]) -> Side:
    return one.study.lungs.side_of(point)


def assert_true(found: Seen, truth: Truth, paths: list[Path]) -> None:
    """What is known of the phantom: the side of each lesion and of fluid, and the image that shows it best."""
    places = {str(ds.SOPInstanceUID): float(ds.ImagePositionPatient[2]) for ds in (dcmread(p, stop_before_pixels=True) for p in paths)}
    for lesion in truth.lesions:
        assert _side(found, lesion.center_mm) is lesion.side
        region = min(found.study.regions, key=lambda r: math.dist(r.center_mm, lesion.center_mm))
        assert math.dist(region.center_mm, lesion.center_mm) < 5
        assert _side(found, region.center_mm) is lesion.side
        candidate = min(found.features.candidates, key=lambda c: math.dist(c.center_mm, lesion.center_mm))
        assert math.dist(candidate.center_mm, lesion.center_mm) < 8
        assert candidate.side is lesion.side
        best = min(abs(z - candidate.center_mm[2]) for z in places.values())
        assert abs(places[str(candidate.slice_sop_uid)] - candidate.center_mm[2]) == pytest.approx(best, abs=1e-3)
    assert set(found.features.effusion or ()) == set(truth.effusion)


def assert_frames(found: Seen, path: Path) -> None:
    """Candidates and key slices name the frame of the object that shows them (PS3.3 C.7.6.16: frames are numbered from 1)."""
    groups = dcmread(path, stop_before_pixels=True).PerFrameFunctionalGroupsSequence
    heights = [float(group.PlanePositionSequence[0].ImagePositionPatient[2]) for group in groups]
    assert [heights[frame - 1] for _, frame in found.study.key_names] == pytest.approx(_heights(found), abs=1e-3)
    for candidate in found.features.candidates:
        best = min(abs(height - candidate.center_mm[2]) for height in heights)
        assert abs(heights[candidate.slice_frame - 1] - candidate.center_mm[2]) == pytest.approx(best, abs=1e-3)


@pytest.mark.parametrize("turn", TURNS, ids=lambda turn: turn.name)
def test_a_phantom_says_the_same_and_the_truth_however_it_is_stored(turn: Turn, first: Stored, encoder: CompactEncoder, tmp_path: Path) -> None:
    copies = rewritten(first.paths, tmp_path, turn)
    found = seen(copies, encoder)
    assert_the_same(found, first.straight)
    assert_true(found, first.truth, copies)


@CI_OR_LONG
def test_other_phantoms_say_the_same_and_the_truth_too(turn: Turn, another: Stored, encoder: CompactEncoder, tmp_path: Path) -> None:
    copies = rewritten(another.paths, tmp_path, turn)
    found = seen(copies, encoder)
    assert_the_same(found, another.straight)
    assert_true(found, another.truth, copies)


@CI_OR_LONG
def test_the_real_chest_says_the_same_however_it_is_stored(
    turn: Turn, chest: tuple[list[Path], Seen], encoder: CompactEncoder, tmp_path: Path
) -> None:
    paths, straight = chest
    assert_the_same(seen(rewritten(paths, tmp_path, turn), encoder), straight)


@CI_OR_LONG
def test_the_published_enhanced_image_says_the_same_however_it_is_stored(
    turn: Turn, published: tuple[Path, Seen], encoder: CompactEncoder, tmp_path: Path
) -> None:
    path, straight = published
    assert straight.study.lungs.left_ml > 1.5 * straight.study.lungs.right_ml  # as on the classic images
    assert straight.study.lungs.flags == ()
    copy = rewritten_enhanced(path, tmp_path, turn)
    found = seen(copy, encoder)
    assert_the_same(found, straight)
    assert_frames(found, copy[0])


@pytest.mark.parametrize("turn", TURNS[4:5], ids=lambda turn: turn.name)
def test_the_real_chest_in_one_enhanced_image_says_the_same(
    turn: Turn, enhanced: Path, chest: tuple[list[Path], Seen], encoder: CompactEncoder, tmp_path: Path
) -> None:
    found, straight = seen(rewritten_enhanced(enhanced, tmp_path, turn), encoder), chest[1]
    for one, other in zip(found.study.regions, straight.study.regions, strict=True):
        assert math.dist(one.center_mm, other.center_mm) < 1.0
        assert _side(found, one.center_mm) is _side(straight, other.center_mm)
    assert found.study.lungs.left_ml == pytest.approx(straight.study.lungs.left_ml, rel=0.01)
    assert {c.side for c in found.features.candidates if c.score >= SURE} == {c.side for c in straight.features.candidates if c.score >= SURE}


def test_the_raised_diaphragm_of_the_real_chest_is_on_the_right(chest: tuple[list[Path], Seen]) -> None:
    """Seen on the images: the right dome stands far higher than the left, so that the left lung is much the larger."""
    lungs = chest[1].study.lungs
    assert lungs.left_ml > 1.5 * lungs.right_ml
    lowest = {side: np.flatnonzero(mask.any(axis=(1, 2)))[0] for side, mask in ((Side.LEFT, lungs.left), (Side.RIGHT, lungs.right))}
    assert lowest[Side.LEFT] < lowest[Side.RIGHT]


def test_geometry_believes_the_header_where_only_the_pixels_are_mirrored(first: Stored, encoder: CompactEncoder, tmp_path: Path) -> None:
    """The side is then wrong, and nothing but what is in the picture can tell: that is what the classifier of sides is for."""
    found, [lesion] = seen(mirrored_pixels(first.paths, tmp_path), encoder), first.truth.lesions
    mirrored = (-lesion.center_mm[0], *lesion.center_mm[1:])
    places = [region.center_mm for region in found.study.regions] + [candidate.center_mm for candidate in found.features.candidates]
    for place in (place for place in places if math.dist(place, mirrored) < 8):
        assert found.study.lungs.side_of(place) is OTHER[lesion.side]
    assert min(math.dist(region.center_mm, mirrored) for region in found.study.regions) < 5
    assert found.study.lungs.left_ml == pytest.approx(first.straight.study.lungs.right_ml, rel=0.03)
