"""The packaged encoder takes held-out phantoms for known and says of every real chest series that it was never validated on such images."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.encoder.compact import OUTLYING, WEIGHTS, CompactEncoder
from pipeline.encoder.prepare import preparing
from pipeline.encoder.series import SeriesEncoder
from pipeline.evaluation.cases import HELD_OUT, drawn
from pipeline.evaluation.encoding import seeing
from pipeline.evaluation.real_series import distances
from pipeline.settings import ImagingSettings

CHEST = "chest_lidc_0314"
FIRST = HELD_OUT + 5_000  # none that `ctreport eval` looks at


def passed(count: int) -> float:
    see = seeing(WEIGHTS)
    seen = [see(drawn(seed)) for seed in range(FIRST, FIRST + count)]
    assert all(one.ood is not None for one in seen)
    return sum(OUTLYING not in one.flags for one in seen) / count


def test_held_out_phantoms_are_known() -> None:
    assert passed(8) == 1.0


@pytest.mark.long
@pytest.mark.timeout(900)
def test_98_of_100_held_out_phantoms_are_known() -> None:
    assert passed(100) >= 0.98


def test_a_real_chest_is_flagged_whole_and_in_parts(test_data: Path) -> None:
    files = sorted((test_data / CHEST).glob("*.dcm"))
    reader = SeriesEncoder(CompactEncoder.load(WEIGHTS), preparing(ImagingSettings()))
    for part in (files, files[::2]):
        features = reader.encode(part)
        assert features.ood is not None
        assert OUTLYING in features.flags


def test_the_table_of_real_series_says_so(test_data: Path) -> None:
    (one,) = distances([test_data / CHEST], WEIGHTS)
    assert (one["folder"], one["flagged"], one["reason"]) == (CHEST, True, "")
