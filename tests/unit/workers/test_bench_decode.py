from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pipeline.encoder.features import save_features
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.evaluation import decode_bench
from pipeline.evaluation.decode_bench import Plan
from pipeline.evaluation.decode_targets import verdicts
from pipeline.evaluation.decode_texts import Case, held_out
from pipeline.evaluation.quality import silent
from pipeline.model import Features
from workers.cli import app

DIM = 12


def row(differing: int) -> dict[str, Any]:
    speed = dict.fromkeys(("median_ms", "cpu_median_ms", "tokens_per_s", "speedup_vs_plain", "speedup_vs_plain_jumps"), 1.0)
    return {"part": "single", "what": "ctreport plain", "texts": 2, "identical": 2 - differing, **speed}


def answer(cases: list[Case], plan: Plan, differing: int = 0) -> dict[str, Any]:
    rows = [row(differing)]
    figures = {"model": "seeded 0", "versions": "torch", "threads": 1, "n": len(cases), "tokens": [7] * len(cases), "plan": plan.texts}
    return figures | {"rows": rows, "targets": verdicts(rows), "notes": []}


def array(seed: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(seed).normal(size=(4, DIM)).astype(np.float32)


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options of a run that loads a seeded checkpoint and two features files; nothing is measured."""
    monkeypatch.setattr(decode_bench, "measure", lambda engine, folder, cases, plan, told: answer(cases, plan))
    write_seeded_checkpoint(tmp_path / "model", feature_dim=DIM)
    files = [tmp_path / f"{seed}.safetensors" for seed in range(2)]
    for seed, path in enumerate(files):
        save_features(path, Features(array(seed), "fake", "1", "0", ()))
    named = [word for path in files for word in ("--features", str(path))]
    return ["bench", "decode", "--weights", str(tmp_path / "model"), "--work", str(tmp_path), *named]


def test_it_answers_with_machine_date_commit_rows_and_targets(options: list[str]) -> None:
    ran = CliRunner().invoke(app, [*options, "--json", "-"])
    assert ran.exit_code == 0, ran.output
    result = json.loads(ran.stdout)
    assert {"machine", "date", "commit", "rows", "targets", "n"} <= result.keys()
    assert result["n"] == 2


def test_tables_are_for_terminal_and_readme(options: list[str]) -> None:
    ran = CliRunner().invoke(app, options)
    assert ran.exit_code == 0, ran.output
    assert "ctreport plain" in ran.stdout
    assert "2 / 2" in ran.stdout
    assert "| ctreport plain | 1.00 |" in CliRunner().invoke(app, [*options, "--markdown"]).stdout


def test_n_limits_the_files(options: list[str]) -> None:
    assert json.loads(CliRunner().invoke(app, [*options, "--n", "1", "--json", "-"]).stdout)["n"] == 1


def test_an_earlier_result_with_a_differing_text_ends_with_1(options: list[str], tmp_path: Path) -> None:
    case = Case.of("x", array(0))
    path = tmp_path / "earlier.json"
    path.write_text(json.dumps({"machine": "m", "date": "d", "commit": ""} | answer([case], Plan.short(), differing=1)), encoding="utf-8")
    ran = CliRunner().invoke(app, ["bench", "decode", "--from", str(path)])
    assert ran.exit_code == 1
    assert "1 texts differ" in ran.output
    assert "NOT reached" in ran.output


def test_phantoms_are_encoded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def see(seed: int) -> Features:
        asked.append(seed)
        return Features(array(seed), "fake", "1", "0", ())

    monkeypatch.setattr("pipeline.evaluation.decode_texts.seeing", lambda folder: see)
    monkeypatch.setattr("pipeline.evaluation.decode_texts.drawn", lambda seed: seed)
    first = held_out(tmp_path, 2, tmp_path / "work", silent)
    again = held_out(tmp_path, 3, tmp_path / "work", silent)
    assert asked == [900_000, 900_001, 900_002]
    assert [case.name for case in again] == [f"phantom-{seed}" for seed in asked]
    assert [case.features.tobytes() for case in again[:2]] == [case.features.tobytes() for case in first]
