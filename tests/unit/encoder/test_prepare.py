"""What every encoder gets: nothing that a reader must be told is lost on the way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pipeline.encoder.compact import WEIGHTS, CompactEncoder
from pipeline.encoder.prepare import Preparing, prepare_volume
from pipeline.encoder.series import SeriesEncoder
from pipeline.errors import Unsupported
from pipeline.imaging.denoise import Denoiser
from tests.chests import chest, with_fluid_for_a_lung

PLAIN = Preparing()


def test_what_reader_and_lungs_say_stands_on_the_features() -> None:
    volume, grid = chest()
    white = replace(with_fluid_for_a_lung(volume, grid, sign=1), flags=("第 4 层后间距 10.0 mm，疑缺 1 层",))
    features = SeriesEncoder(CompactEncoder.load(WEIGHTS), PLAIN).encode_volume(white)
    told = features.flags[:2]  # a white lung may be flagged as unlike the phantoms, too
    assert told == ("第 4 层后间距 10.0 mm，疑缺 1 层", "仅右侧见含气肺组织，对侧肺无气或缺如，左右按体中线判断")


def test_a_volume_without_noise_is_not_called_denoised() -> None:
    volume, _ = chest()
    flat = replace(volume, hu=np.where(volume.hu > -300, np.float32(40), np.float32(-850)) - np.where(volume.hu < -990, 150, 0).astype(np.float32))
    prepared = prepare_volume(flat, replace(PLAIN, denoise="always", denoiser=Denoiser.load()))
    assert (prepared.noise_hu, prepared.denoised, prepared.flags) == (0.0, False, ())


@pytest.mark.parametrize("lean_deg", [-30.0, -27.0, 27.0, 30.0])
def test_whatever_leans_no_more_than_the_reader_takes_is_prepared(lean_deg: float) -> None:
    volume, _ = chest(spacing_mm=(6.0, 4.0, 4.0))
    turn = np.radians(lean_deg)
    axes = np.array([[0.0, -np.sin(turn), np.cos(turn)], [0.0, np.cos(turn), np.sin(turn)], [1.0, 0.0, 0.0]])
    assert prepare_volume(replace(volume, axes=axes), PLAIN).lungs.volume_ml > 1000


def test_coronal_slices_are_refused() -> None:
    volume, _ = chest(spacing_mm=(6.0, 4.0, 4.0))
    with pytest.raises(Unsupported, match="不是轴位"):
        prepare_volume(replace(volume, axes=volume.axes[[1, 0, 2]]), PLAIN)
