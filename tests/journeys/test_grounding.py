"""The packaged models look at the image: lesions found by coordinates, fewer with another patient's features, the other side when mirrored.

Phantom figures say nothing about patients.
"""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.evaluation.cases import HELD_OUT
from pipeline.evaluation.quality import evaluate_packaged


def check(found: dict[str, Any]) -> None:
    assert found["json_valid"]["value"] == 1.0
    assert found["lesion_f1"]["value"] >= 0.6
    assert found["shuffled"]["lesion_f1"]["value"] <= found["lesion_f1"]["value"] - 0.2
    assert found["mirrored"]["share"] >= 0.8


def test_ten_phantoms_are_read_from_the_image() -> None:
    check(evaluate_packaged(10, HELD_OUT, k=4))


@pytest.mark.long
@pytest.mark.timeout(600)
def test_fifty_phantoms_are_read_from_the_image() -> None:
    check(evaluate_packaged(50, HELD_OUT, k=4))
