"""Findings against the candidates that they name."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from pipeline.checking import CheckContext, RuleSet
from pipeline.model import Candidate, Finding, Report, Severity, Side
from pipeline.rules.grounding import grounded

FINDING = Finding(1, "结节", "右肺", "上叶", "实性", 8)
MEASURED = Candidate(1, "结节", (-60.0, 0.0, 0.0), Side.RIGHT, "上叶", "实性", 8.4, 0.9)


def messages(*findings: Finding, candidates: tuple[Candidate, ...] = (MEASURED,)) -> list[str]:
    report = Report("右肺上叶见实性结节，大小约8mm。", "右肺上叶结节。", "建议随访。", findings)
    done = grounded(report, RuleSet(1, {}), CheckContext(date(2026, 1, 15), candidates=candidates))
    assert done.report is report
    assert {hit.severity for hit in done.hits} <= {Severity.FLAG}
    return [hit.message for hit in done.hits]


def test_a_finding_that_says_what_was_measured_is_silent() -> None:
    assert messages(FINDING) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"side": "左肺"}, "图像测得在右侧"),
        ({"lobe": "下叶"}, "图像测得在上叶"),
        ({"size_mm": 11}, "图像测得 8.4 mm"),
        ({"candidate": 4}, "候选区 4 不存在"),
        ({"candidate": None}, "没有指明候选区"),
    ],
)
def test_a_difference_is_flagged(change: dict[str, str | int | None], told: str) -> None:
    (message,) = messages(replace(FINDING, **change))  # type: ignore[arg-type]  # the keys are fields of Finding
    assert told in message


def test_size_within_the_tolerance_is_silent() -> None:
    assert messages(replace(FINDING, size_mm=10)) == []
    assert messages(replace(FINDING, size_mm=58), candidates=(replace(MEASURED, size_mm=50.0),)) == []


def test_a_lobe_that_was_not_measured_contradicts_nothing() -> None:
    assert messages(FINDING, candidates=(replace(MEASURED, lobe=None, density=None),)) == []


def test_one_candidate_for_two_findings_is_flagged() -> None:
    (message,) = messages(FINDING, FINDING)
    assert "第 2 个病灶与前一病灶指向同一候选区" in message


def test_the_left_lung_has_no_middle_lobe() -> None:
    left = replace(MEASURED, side=Side.LEFT, lobe="中叶")
    assert any("左肺没有中叶" in message for message in messages(replace(FINDING, side="左肺", lobe="中叶"), candidates=(left,)))


@pytest.mark.parametrize("kind", ["胸腔积液", "肺气肿", "纤维化"])
def test_what_spreads_needs_no_candidate(kind: str) -> None:
    assert messages(Finding(None, kind, "左侧", None, None, None)) == []


NODE = Finding(1, "淋巴结", "纵隔", None, None, 14)
CYST = Finding(1, "肝囊肿", "肝脏", None, None, 20)
ELSEWHERE = {
    "淋巴结": Candidate(1, "淋巴结", (20.0, 0.0, 0.0), Side.LEFT, None, None, 14.2, 0.9),
    "囊肿": Candidate(1, "囊肿", (-80.0, 0.0, -120.0), Side.RIGHT, None, None, 20.4, 0.9),
    "低密度灶": Candidate(1, "低密度灶", (-80.0, 0.0, -120.0), Side.RIGHT, None, None, 20.4, 0.9),
}


def test_nodes_and_liver_lesions_name_their_place_instead_of_a_side() -> None:
    assert messages(NODE, candidates=(ELSEWHERE["淋巴结"],)) == []
    assert messages(CYST, candidates=(ELSEWHERE["囊肿"],)) == []


@pytest.mark.parametrize(
    ("finding", "seen", "told"),
    [
        (CYST, "低密度灶", "写作肝囊肿，图像测得为低密度灶"),
        (replace(NODE, size_mm=20), "囊肿", "写作淋巴结，图像测得为囊肿"),
        (replace(NODE, size_mm=22), "淋巴结", "写作 22 mm，图像测得 14.2 mm"),
        (replace(CYST, size_mm=9), "囊肿", "写作 9 mm，图像测得 20.4 mm"),
        (replace(NODE, side="左侧"), "淋巴结", "写作左侧"),
        (replace(CYST, candidate=3), "囊肿", "候选区 3 不存在"),
    ],
)
def test_a_node_or_liver_lesion_that_was_measured_otherwise_is_flagged(finding: Finding, seen: str, told: str) -> None:
    (message,) = messages(finding, candidates=(ELSEWHERE[seen],))
    assert told in message


def test_a_nodule_that_points_at_a_consolidation_is_flagged() -> None:
    (message,) = messages(FINDING, candidates=(replace(MEASURED, kind="实变"),))
    assert "写作结节，图像测得为实变" in message


def test_the_span_is_the_place_in_the_text() -> None:
    report = Report("见右肺上叶结节。", "结节。", "随访。", (replace(FINDING, size_mm=30),))
    (hit,) = grounded(report, RuleSet(1, {}), CheckContext(date(2026, 1, 15), candidates=(MEASURED,))).hits
    assert report.findings_text[hit.start : hit.end] == "右肺上叶"
