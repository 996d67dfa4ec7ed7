from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.imaging.denoise import MOST_SIGMAS, Denoiser
from pipeline.imaging.lungs import Lungs
from pipeline.imaging.noise import noise_hu
from pipeline.imaging.volume import Acquisition, Volume
from pipeline.training.lowdose import ct_noise
from pipeline.training.phantom import draw
from pipeline.training.render import Grid, render

SHAPE, SPACING_MM = (9, 161, 223), (2.5, 1.5, 1.5)  # odd on purpose
NOISE_HU = 45.0


@pytest.fixture(scope="module")
def denoiser() -> Denoiser:
    return Denoiser.load()


@pytest.fixture(scope="module")
def clean() -> Volume:
    hu = render(replace(draw(21), noise_hu=0.0), Grid.centered(SHAPE, SPACING_MM))
    return Volume(
        hu=hu,
        spacing_mm=SPACING_MM,
        along_mm=SPACING_MM[0] * np.arange(SHAPE[0], dtype=np.float64),
        origin_mm=(-166.5, -120.0, -10.0),
        axes=np.eye(3)[::-1].copy(),
        sop_uids=tuple(str(number) for number in range(SHAPE[0])),
        acquisition=Acquisition(120.0, 25.0, "B45f", 2.5),
        flags=("一",),
    )


@pytest.fixture(scope="module")
def noisy(clean: Volume) -> Volume:
    return replace(clean, hu=clean.hu + ct_noise(np.random.default_rng(0), clean.hu.shape, NOISE_HU, "B45f"))


def error(volume: Volume, clean: Volume) -> float:
    return float(np.sqrt(((volume.hu.astype(np.float64) - clean.hu) ** 2).mean()))


def test_most_of_the_noise_goes_and_the_image_comes_nearer_to_the_truth(denoiser: Denoiser, noisy: Volume, clean: Volume) -> None:
    quiet = denoiser.apply(noisy)
    assert noise_hu(quiet) < 0.4 * noise_hu(noisy)
    assert error(quiet, clean) < 0.5 * error(noisy, clean)


def test_it_is_better_than_the_articles_autoencoder(denoiser: Denoiser, noisy: Volume, clean: Volume) -> None:
    assert error(denoiser.apply(noisy), clean) < error(Denoiser.load(name="denoiser_article").apply(noisy), clean) < error(noisy, clean)


def test_geometry_stays_and_the_volume_that_came_is_not_touched(denoiser: Denoiser, noisy: Volume) -> None:
    before = noisy.hu.copy()
    quiet = denoiser.apply(noisy)
    np.testing.assert_array_equal(noisy.hu, before)
    assert quiet.hu.shape == noisy.hu.shape
    for name in ("spacing_mm", "along_mm", "origin_mm", "axes", "sop_uids", "acquisition"):
        assert getattr(quiet, name) is getattr(noisy, name)


def test_the_reader_is_told_with_both_figures(denoiser: Denoiser, noisy: Volume) -> None:
    quiet = denoiser.apply(noisy)
    assert quiet.flags[0] == "一"
    assert f"图像噪声 {noise_hu(noisy):.0f} HU" in quiet.flags[1]
    assert f"降至 {noise_hu(quiet):.0f} HU" in quiet.flags[1]
    assert "已降噪" in quiet.flags[1]


@pytest.mark.parametrize("kind", [np.int16, np.float32])
def test_the_kind_of_numbers_stays(denoiser: Denoiser, noisy: Volume, kind: type[np.generic]) -> None:
    hu = np.rint(noisy.hu).astype(kind)
    assert denoiser.apply(replace(noisy, hu=hu)).hu.dtype == kind


def test_the_same_volume_gives_the_same_values_however_many_slices_go_at_once(denoiser: Denoiser, noisy: Volume) -> None:
    again = Denoiser.load()
    np.testing.assert_array_equal(denoiser.apply(noisy).hu, again.apply(noisy).hu)
    alone = denoiser.denoised(noisy.hu[3:6], NOISE_HU)[1]
    np.testing.assert_allclose(denoiser.denoised(noisy.hu, NOISE_HU)[4], alone, atol=0.05)


def test_only_slices_with_lung_are_denoised_when_lungs_are_given(denoiser: Denoiser, noisy: Volume) -> None:
    mask = np.zeros((7, 6, 6), dtype=bool)
    mask[3, 2:4, 2:4] = True  # z = 3 · 5 − 10 − 2.5 = 2.5 mm, between slices 5 and 6; 10 mm either way are denoised too
    lungs = Lungs(mask, ~mask & False, (-60.0, -60.0, -12.5), (5.0, 20.0, 20.0), 0.0)
    changed = np.abs(denoiser.apply(noisy, lungs).hu - noisy.hu).max(axis=(1, 2)) > 0
    assert changed.tolist() == [False] + [True] * 8
    turned = replace(noisy, hu=noisy.hu[::-1].copy(), origin_mm=(-166.5, -120.0, 10.0), axes=np.array([[0.0, 0, -1], [0, 1, 0], [1, 0, 0]]))
    assert (np.abs(denoiser.apply(turned, lungs).hu - turned.hu).max(axis=(1, 2)) > 0).tolist() == [True] * 8 + [False]


def test_padding_stays_padding(denoiser: Denoiser, noisy: Volume) -> None:
    hu = noisy.hu.copy()
    hu[:, :20] = -1024
    assert (denoiser.apply(replace(noisy, hu=hu)).hu[:, :20] == -1024).all()


def test_a_lowest_voxel_among_others_is_noise_and_not_padding(denoiser: Denoiser, noisy: Volume, clean: Volume) -> None:
    hu = np.maximum(noisy.hu, -1024)
    lung = (clean.hu < -800) & (clean.hu > -950) & (hu <= -1024)
    assert lung.sum() > 0
    quiet = denoiser.apply(replace(noisy, hu=hu)).hu[lung]
    assert quiet.min() > -1024
    assert abs(float(quiet.mean() - clean.hu[lung].mean())) < 100 < float(clean.hu[lung].mean() + 1024)


def test_no_voxel_moves_further_than_noise_could_have_moved_it(denoiser: Denoiser, noisy: Volume) -> None:
    hu = noisy.hu.copy()
    hu[4, 60:64, 60:64] = 3000  # metal
    quiet = denoiser.apply(replace(noisy, hu=hu))
    assert np.abs(quiet.hu - hu).max() <= MOST_SIGMAS * noise_hu(noisy) * 1.1
    assert quiet.hu[4, 61, 61] > 2700


def test_a_volume_without_noise_comes_back_as_it_is(denoiser: Denoiser, clean: Volume) -> None:
    still = replace(clean, hu=np.zeros(SHAPE, dtype=np.int16))
    assert denoiser.apply(still) is still


@pytest.mark.parametrize(
    ("noise", "mas", "wanted"),
    [(24.0, 20.0, False), (26.0, 20.0, True), (26.0, None, True), (26.0, 150.0, False), (41.0, 150.0, True), (0.0, None, False)],
)
def test_noise_asks_for_denoising_unless_full_dose_explains_it(denoiser: Denoiser, noise: float, mas: float | None, wanted: bool) -> None:
    assert denoiser.needed(noise, Acquisition(120.0, mas, "B60f", 1.0)) is wanted


def test_a_site_sets_its_own_threshold() -> None:
    assert Denoiser.load(above_hu=10.0).needed(11.0, Acquisition(120.0, 20.0, "", 1.0))
