"""What the bench shows must hold on a few phantoms in every run; all sixty are measured by `ctreport bench denoise`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pipeline.evaluation.denoise import CONTENDERS, MAS, evaluate_denoise
from pipeline.evaluation.learned_table import denoise_markdown


@pytest.fixture(scope="module")
def result() -> dict[str, Any]:
    return evaluate_denoise(4, seed=1)


def row(result: dict[str, Any], what: str, dose: str) -> dict[str, Any]:
    return next(one for one in result["rows"] if one["what"] == what and one["dose"] == dose)


def test_there_is_a_row_for_each_contender_and_dose(result: dict[str, Any]) -> None:
    assert [(one["what"], one["dose"]) for one in result["rows"]] == [(what, dose) for dose in MAS for what in CONTENDERS]
    json.dumps(result)


def test_low_dose_is_noisier_and_ours_quietens_it_most(result: dict[str, Any]) -> None:
    noise = {what: row(result, what, "low")["noise_hu"]["value"] for what in CONTENDERS}
    assert noise["none"] > 1.5 * row(result, "none", "full")["noise_hu"]["value"]
    assert noise["ours"] < noise["article"] < noise["none"]


def test_nodules_keep_their_outline(result: dict[str, Any]) -> None:
    for dose in MAS:
        assert row(result, "ours", dose)["dice_gain"]["value"] > -0.02


def test_denoising_never_reads_more_thickening_into_noise(result: dict[str, Any]) -> None:
    assert row(result, "ours", "low")["false_thickening"]["value"] <= row(result, "none", "low")["false_thickening"]["value"]


def test_full_dose_is_left_alone_as_shipped(result: dict[str, Any]) -> None:
    assert row(result, "ours, auto", "full")["denoised"]["value"] == 0.0
    assert row(result, "ours, auto", "low")["denoised"]["value"] > 0.5


def test_the_table_names_every_row_and_the_time(result: dict[str, Any]) -> None:
    text = denoise_markdown(result)
    assert text.count("\n| low |") == text.count("\n| full |") == len(CONTENDERS)
    assert "275 slices of 512², processor time of one thread" in text
