from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import ndimage

from pipeline.errors import Unsupported
from pipeline.evaluation.cases import phantom_volume
from pipeline.imaging.canonical import SHAPE, SOFTEN, SPACING_MM, Canonical, canonical
from pipeline.imaging.lungs import lungs_of
from pipeline.imaging.volume import Volume, read_volume
from pipeline.training.phantom import draw
from tests.chests import chest, with_fluid_for_a_lung

SEED = 900_216  # one nodule in the right upper lobe
CENTER_MM = (1.325, 0.55, 29.0)
MIDLINE_MM = 1.325


@pytest.fixture(scope="module")
def volume() -> Volume:
    return phantom_volume(SEED)[0]


def flipped(volume: Volume, axis: int) -> Volume:
    """The same patient, stored with one axis the other way round."""
    last = np.zeros(3)
    last[axis] = volume.hu.shape[axis] - 1
    origin = volume.to_patient(last)
    axes = volume.axes.copy()
    axes[axis] *= -1
    return replace(
        volume,
        hu=np.ascontiguousarray(np.flip(volume.hu.astype(np.float32), axis)),
        origin_mm=(float(origin[0]), float(origin[1]), float(origin[2])),
        axes=axes,
        sop_uids=volume.sop_uids[::-1] if axis == 0 else volume.sop_uids,
    )


def transposed(volume: Volume) -> Volume:
    """Rows and columns exchanged: the image turned by 90° and mirrored in storage, the patient unmoved."""
    z, y, x = volume.spacing_mm
    return replace(
        volume, hu=np.ascontiguousarray(volume.hu.astype(np.float32).transpose(0, 2, 1)), spacing_mm=(z, x, y), axes=volume.axes[[0, 2, 1]]
    )


def test_the_grid_is_centred_on_the_lungs(volume: Volume) -> None:
    seen = canonical(volume)
    assert seen.hu.shape == SHAPE
    assert np.abs(seen.center_mm[:2]).max() < 12
    assert abs(seen.midline_mm) < 12


@pytest.mark.parametrize("how", [lambda v: flipped(v, 0), lambda v: flipped(v, 1), lambda v: flipped(v, 2), transposed], ids="zyxt")
def test_how_the_pixels_are_stored_changes_nothing(volume: Volume, how: object) -> None:
    straight, other = canonical(volume), canonical(how(volume))  # type: ignore[operator]  # a function of the table above
    np.testing.assert_allclose(other.center_mm, straight.center_mm, atol=0.01)
    np.testing.assert_allclose(other.hu, straight.hu, atol=2.0)


def test_a_lesion_is_dense_where_the_truth_says(volume: Volume) -> None:
    seen, (lesion,) = canonical(volume), draw(SEED).truth.lesions
    z, y, x = _index(seen, lesion.center_mm)
    assert seen.hu[z, y, x] > -300
    assert seen.hu[z, y, SHAPE[2] - 1 - x] < -500  # the other lung holds air at the mirrored place


def _index(seen: Canonical, point_mm: tuple[float, float, float]) -> tuple[int, int, int]:
    grid = np.stack(np.meshgrid(*(np.arange(n, dtype=float) for n in SHAPE), indexing="ij"), axis=-1)
    distance = np.linalg.norm(seen.to_patient(grid) - np.array(point_mm), axis=-1)
    z, y, x = np.unravel_index(int(distance.argmin()), SHAPE)
    return int(z), int(y), int(x)


def test_the_real_chest_has_lungs(test_data: Path) -> None:
    seen = canonical(read_volume(sorted((test_data / "chest_lidc_0314").glob("*.dcm"))))
    assert seen.hu.shape == SHAPE
    assert (seen.hu < -700).mean() > 0.1


def test_a_volume_without_lungs_is_refused(volume: Volume) -> None:
    solid = replace(volume, hu=np.where(volume.hu < -300, np.float32(40), volume.hu))
    with pytest.raises(Unsupported, match="未找到双肺"):
        canonical(solid)


def test_whole_numbers_give_what_broken_ones_give(volume: Volume) -> None:
    np.testing.assert_array_equal(canonical(replace(volume, hu=volume.hu.astype(np.int16))).hu, canonical(volume).hu)


@pytest.mark.parametrize("turn_deg", [0.0, 4.0])
def test_slice_by_slice_gives_what_softening_the_whole_volume_gave(volume: Volume, turn_deg: float) -> None:
    """The way in which the grid was made when the committed weights were trained: the same to 0.001 HU."""
    cosine, sine = np.cos(np.radians(turn_deg)), np.sin(np.radians(turn_deg))
    volume = replace(volume, axes=volume.axes @ np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]]))
    seen = canonical(volume)
    factors = [max(0.0, target / own - 1.0) for target, own in zip(SPACING_MM, volume.spacing_mm, strict=True)]
    soft = ndimage.gaussian_filter(volume.hu, [SOFTEN * f for f in factors], mode="nearest")
    grid = np.stack(np.meshgrid(*(np.arange(n, dtype=float) for n in SHAPE), indexing="ij"), axis=-1)
    index = np.moveaxis(volume.to_index(seen.to_patient(grid)), -1, 0)
    np.testing.assert_allclose(seen.hu, ndimage.map_coordinates(soft, index, order=1, mode="nearest"), atol=1e-3)


def test_the_committed_weights_still_meet_the_centre_and_midline_that_they_were_trained_on(volume: Volume) -> None:
    """Written down from the version that made the training set."""
    seen = canonical(volume)
    np.testing.assert_allclose(seen.center_mm, CENTER_MM, atol=1e-4)
    assert seen.midline_mm == pytest.approx(MIDLINE_MM, abs=1e-4)


def test_no_array_of_the_volumes_size_is_made_beside_it() -> None:
    volume = chest(spacing_mm=(2.5, 1.0, 1.0))[0]
    volume = replace(volume, hu=volume.hu.astype(np.int16))
    lungs = lungs_of(volume)
    tracemalloc.start()
    canonical(volume, lungs)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * volume.hu.nbytes


def test_one_lung_is_centred_in_depth_and_height_on_itself_and_across_on_the_midline() -> None:
    volume, grid = chest()
    one = with_fluid_for_a_lung(volume, grid, 1)
    lungs = lungs_of(one)
    assert lungs is not None
    for seen in (canonical(one, lungs), canonical(one)):
        assert seen.midline_mm == lungs.midline_mm
        assert seen.center_mm[0] == lungs.midline_mm
        assert np.abs(np.subtract(seen.center_mm, canonical(volume).center_mm)).max() < 15


def test_a_coronal_series_is_refused(volume: Volume) -> None:
    with pytest.raises(Unsupported, match="轴位"):
        canonical(replace(volume, axes=volume.axes[[1, 0, 2]]))
