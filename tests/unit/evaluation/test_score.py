from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pipeline.evaluation.figures import figures
from pipeline.evaluation.score import Score, score
from pipeline.model import Candidate, Side
from pipeline.training.phantom import Lesion, Truth

LESION = Lesion("结节", Side.RIGHT, "上叶", "实性", 12.0, (-80.0, 0.0, 60.0))
TRUTH = Truth((LESION,), frozenset(), False, 1, 120.0, 150.0, "B30f")
NEAR = Candidate(1, "结节", (-78.0, 3.0, 62.0), Side.RIGHT, "上叶", "实性", 11.0, 0.9)
FAR = replace(NEAR, index=2, center_mm=(80.0, 0.0, -40.0), side=Side.LEFT)


def finding(**values: object) -> dict[str, object]:
    return {"候选": 1, "类型": "结节", "侧别": "右肺", "肺叶": "上叶", "密度": "实性", "大小mm": 11} | values


def report(*findings: dict[str, Any], effusion: str = "无") -> str:
    return json.dumps({"检查所见": {"病灶": list(findings), "胸腔积液": effusion, "描述": "…"}, "诊断意见": "…", "建议": "…"}, ensure_ascii=False)


def test_a_right_report_has_no_fault() -> None:
    found = score(report(finding()), [NEAR, FAR], TRUTH)
    assert (found.valid, found.found, found.invented, found.missed, found.side_wrong) == (1, 1, 0, 0, 0)
    assert found.size_error_mm == 1.0
    assert found.terms_right == found.terms_said == found.terms_true == 4


def test_lesions_are_matched_by_coordinates_not_by_words() -> None:
    wrong_words = finding(侧别="左肺", 肺叶="下叶")
    assert score(report(wrong_words), [NEAR, FAR], TRUTH).side_wrong == 1
    right_words_elsewhere = finding(候选=2)
    found = score(report(right_words_elsewhere), [NEAR, FAR], TRUTH)
    assert (found.found, found.invented, found.missed) == (0, 1, 1)


def test_one_lesion_is_found_once() -> None:
    found = score(report(finding(), finding()), [NEAR], TRUTH)
    assert (found.found, found.invented) == (1, 1)


def test_a_finding_without_candidate_is_invented() -> None:
    assert score(report(finding(候选=5)), [NEAR], TRUTH).invented == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"检查所见": {}}', report(finding())[:-30]])
def test_a_broken_text_is_invalid_and_misses_everything(text: str) -> None:
    found = score(text, [NEAR], TRUTH)
    assert (found.valid, found.found, found.missed, found.terms_true) == (0, 0, 1, 4)


def test_effusion_is_compared_by_side() -> None:
    truth = replace(TRUTH, effusion=frozenset({Side.LEFT}))
    assert score(report(finding(), effusion="左侧"), [NEAR], truth).effusion_right == 1
    assert score(report(finding(), effusion="双侧"), [NEAR], truth).effusion_right == 0


def test_figures_are_ratios_of_sums_with_an_interval() -> None:
    scores = [Score(valid=1, found=1), Score(valid=1, found=1, invented=1), Score(valid=0, missed=1)] * 10
    found = figures(scores)
    assert found["lesion_f1"]["value"] == pytest.approx(2 * 20 / (30 + 30), abs=1e-3)
    assert found["hallucination"]["value"] == pytest.approx(1 / 3, abs=1e-3)
    assert found["json_valid"]["value"] == pytest.approx(2 / 3, abs=1e-3)
    low, high = found["lesion_f1"]["low"], found["lesion_f1"]["high"]
    assert low is not None
    assert high is not None
    assert low < 2 / 3 < high


def test_a_figure_without_anything_to_count_is_none() -> None:
    assert figures([Score(valid=1)])["side_error"]["value"] is None


def test_the_interval_depends_on_the_seed_alone() -> None:
    scores = [Score(valid=1, found=n % 2, missed=1 - n % 2) for n in range(20)]
    assert figures(scores) == figures(scores)
