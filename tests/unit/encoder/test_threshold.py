"""How sure a lesion must be to be told: chosen by what is invented, kept beside the weights."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.encoder import threshold
from pipeline.encoder.compact import WEIGHTS, CompactEncoder
from pipeline.errors import ModelMissing


@given(st.lists(st.floats(0, 0.985), min_size=1, max_size=300))
def test_no_more_volumes_have_an_invented_lesion_than_are_put_up_with(invented: list[float]) -> None:
    told_at = threshold.chosen(np.array(invented))
    assert threshold.LOWEST <= told_at <= threshold.HIGHEST
    assert sum(one >= told_at for one in invented) <= threshold.INVENTED_SHARE * len(invented)


def test_it_is_no_higher_than_it_must_be() -> None:
    invented = np.linspace(0, 0.98, 1000)
    told_at = threshold.chosen(invented)
    assert (invented >= told_at - 0.005).mean() > threshold.INVENTED_SHARE


def test_what_is_saved_is_read_and_without_the_file_the_usual_holds(tmp_path: Path) -> None:
    assert threshold.load(tmp_path) == threshold.USUAL
    threshold.save(tmp_path, 0.77, 10)
    assert threshold.load(tmp_path) == 0.77


def test_another_threshold_is_another_version_and_a_broken_file_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "weights"
    shutil.copytree(WEIGHTS, folder)
    threshold.save(folder, 0.6, 10)
    one = CompactEncoder.load(folder)
    threshold.save(folder, 0.7, 10)
    assert CompactEncoder.load(folder).version != one.version
    (folder / threshold.FILE).write_text("{}")
    with pytest.raises(ModelMissing, match="cannot be loaded"):
        CompactEncoder.load(folder)
