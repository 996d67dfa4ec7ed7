from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pipeline.evaluation.denoise as evaluation_denoise
import pipeline.evaluation.laterality as evaluation_laterality
import pipeline.training.denoise as training_denoise
import pipeline.training.laterality as training_laterality
from pipeline.imaging.packaged import PACKAGED
from workers.cli import app
from workers.commands.bench_learned import FULL, SHORT

FIGURE = {"value": 0.5, "low": 0.25, "high": 0.75}


def denoise_result(n: int, seed: int, told: Any) -> dict[str, Any]:
    names = ("noise_hu", "dice", "dice_ground_glass", "dice_gain", "false_thickening", "found_thickening")
    return {
        "n": n,
        "seed": seed,
        "rows": [{"what": "ours", "dose": "low"} | dict.fromkeys(names, FIGURE)],
        "seconds": [{"what": "ours", "cpu_s_per_275_slices": 15.2}],
    }


def sides_result(n: int, seed: int, told: Any) -> dict[str, Any]:
    names = ("slice_accuracy", "sure", "sure_accuracy", "right", "unsure", "wrong")
    return {"n": n, "seed": seed, "rows": [{"what": "mirrored", "volumes": n, "slices": 9 * n} | dict.fromkeys(names, FIGURE)]}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation_denoise, "evaluate_denoise", denoise_result)
    monkeypatch.setattr(evaluation_laterality, "evaluate_laterality", sides_result)


@pytest.mark.parametrize("command", ["denoise", "sides"])
def test_the_bench_says_where_and_when_it_ran(command: str) -> None:
    ran = CliRunner().invoke(app, ["bench", command, "--short", "--seed", "2", "--json", "-"])
    assert ran.exit_code == 0, ran.output
    result = json.loads(ran.stdout)
    assert {"machine", "date", "commit", "rows"} <= result.keys()
    assert (result["n"], result["seed"]) == (SHORT, 2)


def test_without_json_the_table_of_the_readme_is_printed() -> None:
    ran = CliRunner().invoke(app, ["bench", "denoise"])
    assert "| low | ours, always | 0.5 (0.2 to 0.8) | 0.500 (0.250 to 0.750) |" in ran.stdout
    assert "ours 15 s." in ran.stdout
    assert f"| mirrored | {FULL} |" in CliRunner().invoke(app, ["bench", "sides"]).stdout


def test_train_makes_the_part_that_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made: list[tuple[str, Path, Path, int, float]] = []
    monkeypatch.setattr(
        training_denoise, "train_denoiser", lambda work, out, *, seed, budget_minutes: made.append(("d", work, out, seed, budget_minutes))
    )
    monkeypatch.setattr(
        training_laterality, "train_laterality", lambda work, out, *, seed, budget_minutes: made.append(("l", work, out, seed, budget_minutes))
    )
    asked = ["--work", str(tmp_path), "--seed", "3"]
    assert CliRunner().invoke(app, ["train", "--part", "denoiser", *asked]).exit_code == 0
    assert CliRunner().invoke(app, ["train", "--part", "laterality", *asked, "--budget-minutes", "1", "--imaging-out", str(tmp_path)]).exit_code == 0
    assert made == [("d", tmp_path, PACKAGED, 3, 12.0), ("l", tmp_path, tmp_path, 3, 1.0)]
    assert CliRunner().invoke(app, ["train", "--part", "nothing", *asked]).exit_code == 2
