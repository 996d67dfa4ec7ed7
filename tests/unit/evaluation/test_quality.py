from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pipeline.evaluation import quality
from pipeline.evaluation.answering import Load
from pipeline.evaluation.cases import HELD_OUT
from pipeline.evaluation.figures import FIGURES
from pipeline.evaluation.quality_table import HEAD, MEANINGS, cells, markdown
from pipeline.evaluation.quality_targets import TARGETS, figure_at, missed, verdicts
from pipeline.model import Finding
from tests.unit.evaluation.fakes import faulty, heads_only, perfect
from workers.cli import app

PLACE = {"machine": "a machine", "date": "2026-01-01", "commit": "abc"}


def evaluated(load: Load, tmp_path: Path, n: int = 30, counterfactuals: int = 8) -> dict[str, Any]:
    return quality.evaluate(load, n, HELD_OUT, counterfactuals, tmp_path, 1, quality.silent)


def without_first(findings: list[Finding]) -> list[Finding]:
    return [one for one in findings if one.candidate != 1]


def test_models_without_fault_reach_every_must_and_goal(tmp_path: Path) -> None:
    result = evaluated(perfect, tmp_path)
    measured = [one for one in result["targets"] if one["figure"] != "ood.passed"]
    assert all(one["must_reached"] in (True, None) and one["goal_reached"] is True for one in measured)
    assert missed(result) == []
    assert (result["n"], result["seed"]) == (30, HELD_OUT)
    assert FIGURES.keys() <= result.keys()
    assert result["heads"]["lesion_f1"] == result["lesion_f1"]


def test_another_phantoms_report_finds_next_to_nothing(tmp_path: Path) -> None:
    assert evaluated(perfect, tmp_path)["shuffled"]["lesion_f1"]["value"] < 0.1


def test_a_drafter_that_leaves_out_what_the_encoder_saw_is_worse_than_the_heads(tmp_path: Path) -> None:
    result = evaluated(lambda: faulty(without_first), tmp_path)
    assert result["heads"]["lesion_f1"]["value"] == 1.0
    assert result["lesion_f1"]["value"] < 0.9
    assert "lesion_f1" in missed(result)


def test_where_the_misses_sit_is_told_by_density_and_size(tmp_path: Path) -> None:
    all_found, some = evaluated(perfect, tmp_path / "a")["recall_of"], evaluated(lambda: faulty(without_first), tmp_path / "b")["recall_of"]
    assert all(group["found"] == group["of"] for group in all_found.values())
    assert {name: group["of"] for name, group in some.items()} == {name: group["of"] for name, group in all_found.items()}
    assert sum(group["found"] for group in some.values()) < sum(group["of"] for group in some.values())
    assert any(name.startswith("磨玻璃 <") for name in some)


def test_heads_alone_have_figures_and_no_texts(tmp_path: Path) -> None:
    result = evaluated(heads_only, tmp_path)
    assert result["lesion_f1"]["value"] == 1.0
    assert result["agreement"]["value"] is None
    assert next(one for one in result["targets"] if one["figure"] == "agreement")["must_reached"] is None
    assert missed(result) == []


def test_figures_are_of_the_first_n_whatever_is_changed_behind_them(tmp_path: Path) -> None:
    few, many = evaluated(perfect, tmp_path, n=3, counterfactuals=6), evaluated(perfect, tmp_path, n=3, counterfactuals=0)
    assert {name: few[name] for name in FIGURES} == {name: many[name] for name in FIGURES}
    assert sum(figure["n"] for figure in few["counterfactuals"].values()) > 20
    assert {figure["value"] for figure in many["counterfactuals"].values()} == {None}


@pytest.mark.parametrize(("value", "must", "goal"), [(0.89, False, False), (0.90, True, False), (0.93, True, True)])
def test_at_least(value: float, must: bool, goal: bool, tmp_path: Path) -> None:
    result = evaluated(perfect, tmp_path, 5, 0) | {"lesion_f1": {"value": value, "low": 0.0, "high": 1.0}}
    found = next(one for one in verdicts(result) if one["figure"] == "lesion_f1")
    assert (found["must"], found["must_reached"], found["goal_reached"]) == ("≥ 0.9", must, goal)


@pytest.mark.parametrize(("value", "must", "goal"), [(0.021, False, False), (0.02, True, False), (0.01, True, True)])
def test_at_most(value: float, must: bool, goal: bool, tmp_path: Path) -> None:
    result = evaluated(perfect, tmp_path, 5, 0) | {"side_error": {"value": value, "low": 0.0, "high": 1.0}}
    found = next(one for one in verdicts(result) if one["figure"] == "side_error")
    assert (found["must"], found["must_reached"], found["goal_reached"]) == ("≤ 0.02", must, goal)


def test_the_table_has_every_figure_and_every_target(tmp_path: Path) -> None:
    result = evaluated(perfect, tmp_path)
    assert {*FIGURES} | {target.figure for target in TARGETS} == {*MEANINGS}
    lines = [*cells(result)]
    assert all(len(line) == len(HEAD) for line in lines)
    assert all(figure_at(result, path).keys() >= {"value", "low", "high"} for path in MEANINGS)


def test_the_markdown_says_where_when_and_of_what(tmp_path: Path) -> None:
    real = [
        {"folder": "chest", "ood": 41.26, "flagged": True, "reason": ""},
        {"folder": "head", "ood": None, "flagged": None, "reason": "no lungs"},
    ]
    text = markdown(evaluated(perfect, tmp_path) | PLACE | {"real": real})
    for part in (
        "2026-01-01 on a machine; commit abc",
        "30 held-out phantoms",
        "nothing about patients",
        "| lesion_f1: ",
        "| ≥ 0.9 reached |",
        "89.6 %",
    ):
        assert part in text
    assert "real series chest: distance 41.3, flagged as unlike the phantoms" in text
    assert "real series head: no lungs" in text


def test_the_command_shows_an_earlier_result_and_fails_where_a_must_is_missed(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    for path, load in ((good, perfect), (bad, lambda: faulty(without_first))):
        path.write_text(json.dumps(evaluated(load, tmp_path / path.stem) | PLACE, ensure_ascii=False), encoding="utf-8")
    shown = CliRunner().invoke(app, ["eval", "--from", str(good)])
    assert shown.exit_code == 0
    assert "lesion_f1" in shown.output
    failed = CliRunner().invoke(app, ["eval", "--from", str(bad), "--json", "-"])
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["lesion_f1"]["value"] < 0.9
    assert "not reached: " in failed.stderr


def test_answers_of_other_weights_are_kept_apart(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "model.safetensors").write_bytes(name.encode())
    digests = {quality.weights_digest(tmp_path / one, other) for one in ("a", "b") for other in (None, tmp_path / "a", tmp_path / "b")}
    assert len(digests) == 6
    assert quality.weights_digest(tmp_path / "a", None) == quality.weights_digest(tmp_path / "a", None)


def test_the_models_of_a_folder_without_weights_are_missed_in_words(tmp_path: Path) -> None:
    from pipeline.errors import ModelMissing

    with pytest.raises(ModelMissing, match="CTREPORT_ENCODER_WEIGHTS"):
        quality.evaluate(partial(quality.load_models, tmp_path, None, None), 1, HELD_OUT, 0, tmp_path / "work", 1, quality.silent)
