"""The packaged models look at the image: lesions found by coordinates, fewer with another patient's features, and single changes are followed.

Phantom figures say nothing about patients.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.evaluation.cases import HELD_OUT
from pipeline.evaluation.quality import evaluate_packaged
from pipeline.evaluation.quality_targets import missed


def test_ten_phantoms_are_read_from_the_image(tmp_path: Path) -> None:
    found = evaluate_packaged(10, HELD_OUT, counterfactuals=2, work=tmp_path)
    assert found["json_valid"]["value"] == 1.0
    assert found["lesion_f1"]["value"] >= 0.7
    assert found["unflagged_side_error"]["value"] == 0.0
    assert found["shuffled"]["lesion_f1"]["value"] <= found["lesion_f1"]["value"] - 0.2
    followed = [figure["value"] * figure["n"] for figure in found["counterfactuals"].values() if figure["n"]]
    assert sum(followed) >= 0.7 * sum(figure["n"] for figure in found["counterfactuals"].values())


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_500_phantoms_and_100_changed_ones_reach_every_must(tmp_path: Path) -> None:
    assert missed(evaluate_packaged(500, HELD_OUT, counterfactuals=100, work=tmp_path, workers=2)) == []
