from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline.encoder.compact import CompactEncoder
from pipeline.encoder.net import CompactNet
from pipeline.encoder.prepare import preparing
from pipeline.encoder.series import SeriesEncoder
from pipeline.evaluation.cases import HELD_OUT, drawn, volume_of
from pipeline.evaluation.encoding import lean
from pipeline.settings import ImagingSettings


@pytest.mark.parametrize("denoised", [False, True])
def test_the_lean_way_gives_what_the_whole_way_gives(denoised: bool) -> None:
    """Array, candidates, sides and distance: everything that figures are made of."""
    torch.manual_seed(0)
    encoder, how = CompactEncoder(CompactNet(), {}, "seeded", 0.5), preparing(ImagingSettings())
    seed = next(number for number in range(HELD_OUT, HELD_OUT + 50) if (drawn(number).noise_hu > 35) is denoised)
    volume = volume_of(drawn(seed))
    short = encoder.encode_prepared([lean(volume, how)])[0]
    whole = SeriesEncoder(encoder, how).encode_volume(volume)
    assert whole.denoised is denoised
    assert np.array_equal(short.array, whole.array)
    assert short.candidates == whole.candidates
    assert (short.effusion, short.emphysema, short.fibrosis, short.ood) == (whole.effusion, whole.emphysema, whole.fibrosis, whole.ood)
