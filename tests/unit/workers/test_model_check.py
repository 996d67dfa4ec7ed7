"""`ctreport model check PATH` needs no stack: every problem in one line, the memory of a set-up, and the exit status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.engine.seeded import write_seeded_checkpoint
from tests.unit.engine.damage import drop, edit_json, edit_weights
from workers.cli import app

RUNNER = CliRunner()


@pytest.fixture
def model(tmp_path: Path) -> Path:
    write_seeded_checkpoint(tmp_path / "model", feature_dim=12)
    return tmp_path / "model"


def test_a_whole_model_is_exit_0_with_its_memory(model: Path) -> None:
    ran = RUNNER.invoke(app, ["model", "check", str(model), "--gpu-memory", "1GiB", "--context", "100", "--batch", "2"])
    assert ran.exit_code == 0
    lines = ran.stdout.splitlines()
    assert lines[0] == "✓ no problem found"
    assert lines[1].startswith("weights ")
    assert "for 2 texts of 100 tokens" in lines[2]
    assert lines[-1].startswith("✓ fits: of 1.0 GiB a server may fill 901.1 MiB")


def test_every_problem_is_one_line_and_exit_1(model: Path) -> None:
    edit_json(model / "config.json", rope_theta=None)
    edit_weights(model, drop("model.layers.2."))
    (model / "card.json").unlink()
    ran = RUNNER.invoke(app, ["model", "check", str(model), "--gpus", "3"])
    assert ran.exit_code == 1
    wrong = [line for line in ran.stdout.splitlines() if line.startswith("✗ ")]
    assert [any(word in line for line in wrong) for word in ("rope_theta", "MTP layer", "card.json", "3 GPUs")] == [True] * 4
    assert len(wrong) == 4


def test_json_holds_the_same(model: Path) -> None:
    edit_json(model / "card.json", use="clinical")
    ran = RUNNER.invoke(app, ["model", "check", str(model), "--gpu-memory", "24GB", "--dtype", "fp32", "--json", "-"])
    value = json.loads(ran.stdout)
    assert ran.exit_code == 1
    assert value.keys() == {"problems", "use", "setup", "memory"}
    assert len(value["problems"]) == 1
    assert value["setup"] == {"gpus": 1, "gpu_memory_bytes": 24 * 10**9, "context": 2048, "batch": 8, "weights": "fp32", "cache": "bf16"}
    assert value["memory"]["fits"] is True


def test_damaged_values_are_found_unless_only_headers_are_read(model: Path) -> None:
    edit_weights(model, lambda tensors: tensors["model.norm.weight"].fill_(float("inf")))
    assert "'model.norm.weight' holds NaN or infinite values" in RUNNER.invoke(app, ["model", "check", str(model)]).stdout
    assert RUNNER.invoke(app, ["model", "check", str(model), "--headers-only"]).exit_code == 0


def test_a_set_up_that_is_too_small_is_exit_1(model: Path) -> None:
    ran = RUNNER.invoke(app, ["model", "check", str(model), "--gpu-memory", "200000", "--context", "50", "--batch", "1"])
    assert ran.exit_code == 1
    assert "✗ does not fit" in ran.stdout
    assert "such GPUs would do" in ran.stdout


@pytest.mark.parametrize("wrong", [["nowhere"], [".", "--gpu-memory", "80 parsecs"], [".", "--gpus", "0"], [".", "--dtype", "int4"]])
def test_wrong_use_is_exit_2(wrong: list[str]) -> None:
    assert RUNNER.invoke(app, ["model", "check", *wrong]).exit_code == 2
