from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.errors import Unsupported
from pipeline.evaluation.cases import phantom_volume
from pipeline.imaging.canonical import SHAPE, Canonical, canonical
from pipeline.imaging.volume import Volume, read_volume
from pipeline.training.phantom import draw

SEED = 900_002  # one nodule in the right upper lobe


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
        hu=np.ascontiguousarray(np.flip(volume.hu, axis)),
        origin_mm=(float(origin[0]), float(origin[1]), float(origin[2])),
        axes=axes,
        sop_uids=volume.sop_uids[::-1] if axis == 0 else volume.sop_uids,
    )


def transposed(volume: Volume) -> Volume:
    """Rows and columns exchanged: the image turned by 90° and mirrored in storage, the patient unmoved."""
    z, y, x = volume.spacing_mm
    return replace(volume, hu=np.ascontiguousarray(volume.hu.transpose(0, 2, 1)), spacing_mm=(z, x, y), axes=volume.axes[[0, 2, 1]])


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


def test_a_coronal_series_is_refused(volume: Volume) -> None:
    with pytest.raises(Unsupported, match="轴位"):
        canonical(replace(volume, axes=volume.axes[[1, 0, 2]]))
