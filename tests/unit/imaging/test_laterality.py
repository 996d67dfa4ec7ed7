from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.evaluation.cases import mirrored, phantom_volume
from pipeline.imaging.laterality import AGREES_ABOVE, DISAGREES_BELOW, PIXELS, STEP_MM, SideCheck, decided, slices
from pipeline.imaging.lungs import Lungs, lungs_of
from pipeline.imaging.upright import upright
from pipeline.imaging.volume import Volume, read_volume

SEED = 70_000_000  # no training saw these


@pytest.fixture(scope="module")
def check() -> SideCheck:
    return SideCheck.load()


@pytest.fixture(scope="module")
def volume() -> Volume:
    return phantom_volume(SEED)[0]


@pytest.fixture(scope="module")
def lungs(volume: Volume) -> Lungs:
    found = lungs_of(volume)
    assert found is not None
    return found


def answers(check: SideCheck, seeds: range) -> tuple[list[bool | None], list[bool | None]]:
    """What the check says of phantoms, and of the same ones with mirrored pixels."""
    plain: list[bool | None] = []
    turned: list[bool | None] = []
    for seed in seeds:
        volume, truth = phantom_volume(seed)
        for kept, one in ((plain, volume), (turned, mirrored(volume, truth)[0])):
            seen = lungs_of(one)
            assert seen is not None
            kept.append(check.check(one, seen).agrees)
    return plain, turned


def test_phantoms_agree_and_mirrored_ones_are_flagged(check: SideCheck) -> None:
    plain, turned = answers(check, range(SEED, SEED + 6))
    assert False not in plain
    assert True not in turned
    assert plain.count(True) >= 5
    assert turned.count(False) >= 5


@pytest.mark.long
@pytest.mark.timeout(900)
def test_hardly_any_phantom_of_sixty_is_flagged_wrongly_or_missed(check: SideCheck) -> None:
    plain, turned = answers(check, range(SEED + 100, SEED + 160))
    assert plain.count(False) == 0
    assert turned.count(True) == 0
    assert plain.count(True) >= 54
    assert turned.count(False) >= 54


def test_a_real_chest_is_never_flagged_and_its_mirror_image_never_confirmed(check: SideCheck, test_data: Path) -> None:
    """The classifier has seen no patient; a doubt is allowed, a wrong answer is not."""
    real = upright(read_volume(sorted((test_data / "chest_lidc_0314").glob("*.dcm"))))
    turned = replace(real, hu=real.hu[:, :, ::-1].copy())
    seen, seen_turned = lungs_of(real), lungs_of(turned)
    assert seen is not None
    assert seen_turned is not None
    assert check.check(real, seen).agrees is not False
    assert check.check(turned, seen_turned).agrees is not True


def test_the_same_volume_gives_the_same_answer(check: SideCheck, volume: Volume, lungs: Lungs) -> None:
    assert check.check(volume, lungs) == SideCheck.load().check(volume, lungs)


def test_whole_numbers_are_read_as_well_as_fractions(check: SideCheck, volume: Volume, lungs: Lungs) -> None:
    whole = replace(volume, hu=volume.hu.astype(np.int16))
    assert check.check(whole, lungs).probability == pytest.approx(check.check(volume, lungs).probability, abs=0.02)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_how_the_pixels_are_stored_changes_nothing(check: SideCheck, volume: Volume, lungs: Lungs, axis: int) -> None:
    last = np.zeros(3)
    last[axis] = volume.hu.shape[axis] - 1
    origin = volume.to_patient(last)
    axes = volume.axes.copy()
    axes[axis] *= -1
    other = replace(volume, hu=np.flip(volume.hu, axis).copy(), origin_mm=(float(origin[0]), float(origin[1]), float(origin[2])), axes=axes)
    assert check.check(other, lungs).probability == pytest.approx(check.check(volume, lungs).probability, abs=0.02)


def test_slices_are_upright_and_each_shows_both_lungs(volume: Volume, lungs: Lungs) -> None:
    images, right, left = slices(volume, lungs)
    assert images.shape == right.shape == left.shape == (len(images), PIXELS, PIXELS)
    assert 5 <= len(images) <= 12
    for image, one, other in zip(images, right, left, strict=True):
        assert np.median(image[one]) < -700
        assert np.median(image[other]) < -700
        assert np.flatnonzero(one.any(axis=0)).mean() < PIXELS / 2 < np.flatnonzero(other.any(axis=0)).mean()
        assert min(one.sum(), other.sum()) * STEP_MM**2 > 1000


def test_without_a_slice_that_shows_both_lungs_nothing_is_said(check: SideCheck, volume: Volume, lungs: Lungs) -> None:
    one_lung = Lungs(lungs.left, lungs.right & False, lungs.low_mm, lungs.step_mm, lungs.midline_mm)
    answer = check.check(volume, one_lung)
    assert answer.agrees is None
    assert "未能核对" in answer.reason


@pytest.mark.parametrize(
    ("margins", "agrees"),
    [
        ([5.0, 5.0, 0.0, 0.0], True),
        ([0.9], True),
        ([0.8], None),
        ([0.0, 0.0], None),
        ([4.0, -4.0], None),
        ([-1.0], None),
        ([-1.2], False),
        ([-5.0, -5.0, 0.0], False),
    ],
)
def test_doubt_lies_between_the_thresholds(margins: list[float], agrees: bool | None) -> None:
    answer = decided(np.array(margins))
    assert answer.agrees is agrees
    assert (answer.probability >= AGREES_ABOVE, answer.probability <= DISAGREES_BELOW) == (agrees is True, agrees is False)
    assert (answer.reason == "") == (agrees is True)


def test_a_disagreement_says_what_to_check() -> None:
    reason = decided(np.array([-1.75])).reason
    assert "左右不一致" in reason
    assert "3%" in reason
    assert "人工确认" in reason
