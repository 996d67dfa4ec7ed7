from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from pipeline.encoder.features import save_features
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.evaluation import draft_bench
from pipeline.evaluation.draft_bench import Plan
from pipeline.model import Features
from workers.cli import app
from workers.commands.bench_draft_flow import OWN_WAY, PLAIN_WAY, Passed, rows

DIM = 12


def report(identical: int = 2, failed: int = 0) -> dict[str, Any]:
    figures = {"tokens": 80, "verify_steps": 20, "median_ms": 90.0, "cpu_median_ms": 80.0, "first_token_ms": None, "acceptance": 0.8}
    beside = {"speedup_vs_plain": 2.0, "speedup_cpu": 2.0, "compared": 2, "identical": identical, "like_embedded": 2, "like_embedded_of": 2}
    name = {"part": "report", "what": "embedded mtp 2", "engine": "embedded", "way": "mtp 2", "of": "sections", "department": "oncology"}
    return name | figures | beside | {"failed": failed}


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Options of a run that loads a seeded checkpoint and a features file; nothing is measured."""

    def measured(parts: Any, engines: Any, scans: Any, plan: Plan, told: Any) -> dict[str, Any]:
        places = {"n": len(scans), "departments": list(plan.departments), "parts": list(parts)}
        return places | {"rows": [report()], "failures": [], "notes": ["a note"]}

    monkeypatch.setattr(draft_bench, "measure", measured)
    write_seeded_checkpoint(tmp_path / "model", feature_dim=DIM)
    features = tmp_path / "one.safetensors"
    save_features(features, Features(np.zeros((4, DIM), np.float32), "fake", "1", "0", ()))
    chosen = [word for part in ("sections", "decode") for word in ("--only", part)]
    return ["bench", "draft", "--weights", str(tmp_path / "model"), "--work", str(tmp_path), "--features", str(features), *chosen]


def test_it_answers_with_machine_date_commit_and_rows(options: list[str]) -> None:
    ran = CliRunner().invoke(app, [*options, "--department", "oncology", "--json", "-"])
    assert ran.exit_code == 0, ran.output
    result = json.loads(ran.stdout)
    assert {"machine", "date", "commit", "model", "rows", "n"} <= result.keys()
    assert (result["n"], result["departments"], result["parts"]) == (1, ["oncology"], ["sections", "decode"])


def test_tables_are_for_terminal_and_readme_and_an_earlier_result_is_shown_again(options: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    ran = CliRunner().invoke(app, [*options, "--json", str(kept), "--markdown"])
    assert ran.exit_code == 0, ran.output
    assert "| sections | oncology | embedded mtp 2 | 80 |" in ran.stdout
    shown = CliRunner().invoke(app, ["bench", "draft", "--from", str(kept)])
    assert "a note" in shown.stdout
    assert "embedded mtp 2" in shown.stdout


@pytest.mark.parametrize("row", [report(identical=1), report(failed=1)])
def test_a_text_that_differs_or_a_draft_that_failed_is_exit_1(row: dict[str, Any], tmp_path: Path) -> None:
    result = {"machine": "m", "date": "d", "commit": "", "model": "x", "n": 1, "departments": [], "rows": [row], "failures": [], "notes": []}
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps(result), encoding="utf-8")
    assert CliRunner().invoke(app, ["bench", "draft", "--from", str(kept)]).exit_code == 1


def test_unknown_parts_and_departments_are_refused(options: list[str]) -> None:
    assert "no part is called 'all'" in CliRunner().invoke(app, [*options, "--only", "all"]).output
    assert CliRunner().invoke(app, [*options, "--department", "surgery"]).exit_code == 1


def test_end_to_end_rows_compare_medians_from_assembly_on() -> None:
    taken = [Passed(PLAIN_WAY, 9000.0, 4000.0, 1000.0, 2400.0, 300), Passed(OWN_WAY, 7000.0, 2000.0, 1000.0, 600.0, 300)]
    plain, own = rows(taken)
    assert (plain["speedup_vs_plain"], own["speedup_vs_plain"], own["draft_speedup"]) == (1.0, 2.0, 4.0)
    assert (own["studies"], own["tokens"], own["total_ms"]) == (1, 300, 7000.0)
