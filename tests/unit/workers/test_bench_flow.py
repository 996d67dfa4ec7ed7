"""`ctreport bench flow`: which parts are measured, how the answer is told, and when it ends with 1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline.evaluation.flow_rows import Block, overhead_rows
from workers.cli import app
from workers.commands import bench_flow

ASKED: list[str] = []


@pytest.fixture
def fixed_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nothing is measured; every study costs what stands here in CPU seconds beside its images."""
    cost = [0.1]

    def overhead(*_: Any) -> dict[str, Any]:
        ASKED.append("overhead")
        blocks = [Block(images, 1, 1.0, {"listener": cost[0] + images / 200}) for images in (10, 20, 40)]
        return {"rows": overhead_rows("overhead", blocks, 5.0), "notes": []}

    def other(name: str) -> Any:
        def ask(*_: Any) -> dict[str, Any]:
            ASKED.append(name)
            return {"rows": [], "notes": [f"{name} was asked"]}

        return ask

    ASKED.clear()
    monkeypatch.setattr(bench_flow, "MEASURES", {part: other(part) for part in bench_flow.PARTS} | {"overhead": overhead})
    return cost


def run(*arguments: str, code: int = 0) -> str:
    ran = CliRunner().invoke(app, ["bench", "flow", *arguments])
    assert ran.exit_code == code, ran.output
    return ran.stdout


def test_it_answers_with_machine_date_commit_rows_and_targets(fixed_s: list[float]) -> None:
    told = json.loads(run("--json", "-"))
    assert {"machine", "date", "commit", "rows", "targets"} <= told.keys()
    assert ASKED == ["overhead", "embedded", "tables"]  # a thousand studies only when they are asked for
    assert [target["measured"] for target in told["targets"]] == [100.0, 1.0]


def test_a_study_that_costs_too_much_ends_it_with_1(fixed_s: list[float]) -> None:
    fixed_s[0] = 0.2
    run("--only", "overhead", "--json", "-", code=1)
    assert ASKED == ["overhead"]


def test_an_earlier_result_is_shown_again_and_nothing_is_measured(fixed_s: list[float], tmp_path: Path) -> None:
    kept = tmp_path / "kept.json"
    run("--only", "many", "--only", "overhead", "--json", str(kept))
    assert ASKED == ["overhead", "many"]
    shown = run("--from", str(kept), "--markdown")
    assert "many was asked" in shown
    assert "| all processes | 100.0 | 5.0 | 1.0 | 5.0 |" in shown
    assert ASKED == ["overhead", "many"]


def test_an_unknown_part_is_refused() -> None:
    run("--only", "speed", code=2)
