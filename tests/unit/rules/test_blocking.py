"""Which hits bar a report, and which only ask a reader to look."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from pipeline.checking import CheckContext
from pipeline.model import Finding, Report, Severity, Side
from pipeline.rules.checks import run
from pipeline.rules.length import estimated_tokens
from tests.unit.rules.lexicons import RULES

NODULE = Finding(1, "结节", "左肺", "上叶", "实性", 8)
SOLID = "左肺上叶见实性结节，大小约8mm。"


def severities(rule: str, report: Report, **known: Any) -> list[Severity]:
    return [hit.severity for hit in run(report, RULES, CheckContext(date(2026, 1, 15), **known)).hits if hit.rule == rule]


@pytest.mark.parametrize(
    ("rule", "report", "known"),
    [
        ("side.impression", Report(SOLID, "右肺上叶实性结节。", "随访。"), {}),
        ("side.impression", Report("左侧胸腔见积液。", "右侧胸腔积液。", "随访。"), {}),
        ("side.impression", Report("左肾见囊肿。", "右肾囊肿。", "随访。"), {}),
        ("place.impossible", Report("左肺中叶见结节。", "左肺结节。", "随访。"), {}),
        ("structure.prose", Report("右肺上叶见实性结节，大小约8mm。", "右肺上叶结节。", "随访。", (NODULE,)), {}),
        ("effusion.side", Report("左侧胸腔见积液。", "左侧胸腔积液。", "随访。"), {"effusion": (Side.RIGHT,)}),
        ("organ.sex", Report("前列腺增大。", "前列腺增大。", "随访。"), {"sex": "F"}),
        ("section.empty", Report(SOLID, "。", "随访。"), {}),
        ("text.truncated", Report(SOLID, "左肺上叶实性结节，大小约", "随访。"), {}),
        ("text.truncated", Report(SOLID, "左肺上叶实性结节。", '随访。"}'), {}),
    ],
)
def test_a_wrong_side_another_patients_organ_and_a_text_that_is_not_whole_bar_the_report(rule: str, report: Report, known: dict[str, Any]) -> None:
    found = severities(rule, report, **known)
    assert found
    assert set(found) == {Severity.BLOCK}


@pytest.mark.parametrize(
    ("rule", "report", "known"),
    [
        ("side.impression", Report(SOLID, "左肺下叶实性结节。", "随访。"), {}),
        ("side.impression", Report("双肺纹理清晰。", "右肺上叶结节。", "随访。"), {}),
        ("side.impression", Report("左侧胸腔见积液。", "双侧胸腔积液。", "随访。"), {}),
        ("structure.prose", Report("左肺下叶见实性结节，大小约8mm。", "左肺下叶结节。", "随访。", (NODULE,)), {}),
        ("structure.prose", Report("左肺上叶见实性结节，大小约18mm。", "左肺上叶结节。", "随访。", (NODULE,)), {}),
        ("effusion.side", Report("左侧胸腔见积液。", "左侧胸腔积液。", "随访。"), {"effusion": (Side.LEFT, Side.RIGHT)}),
        ("effusion.side", Report("左侧胸腔见积液。", "左侧胸腔积液。", "随访。"), {"effusion": ()}),
        ("text.truncated", Report(SOLID + "右肺下叶见条索影", "左肺上叶实性结节。", "随访。"), {}),
        ("text.repeated", Report(SOLID + SOLID, "左肺上叶实性结节。", "随访。"), {}),
        ("presence.contradiction", Report("双肺未见结节。" + SOLID, "左肺上叶结节。", "随访。"), {}),
        ("organ.unseen", Report("膀胱充盈良好。", "左肺结节。", "随访。"), {"covers": ("肺",)}),
        ("prior.missing", Report("左肺结节较前增大。", "左肺结节。", "随访。"), {}),
    ],
)
def test_everything_else_is_a_flag(rule: str, report: Report, known: dict[str, Any]) -> None:
    found = severities(rule, report, **known)
    assert found
    assert set(found) == {Severity.FLAG}


def test_what_is_dropped_keeps_its_words_and_moves_no_other_hit() -> None:
    report = Report(SOLID, "综上所述，该病灶具有恶性潜能。左肺上叶毛玻璃结节，约8mm。", "随访。")
    checked = run(report, RULES, CheckContext(date(2026, 1, 15)))
    assert checked.report.impression == "左肺上叶磨玻璃结节，约8mm。"
    dropped, replaced = (next(hit for hit in checked.hits if hit.rule == rule) for rule in ("generality.dropped", "term.standard"))
    assert (dropped.severity, dropped.original, dropped.start, dropped.end) == (Severity.REPLACED, "综上所述，该病灶具有恶性潜能。", 0, 0)
    assert checked.report.impression[replaced.start : replaced.end] == "磨玻璃结节"


def test_a_section_of_nothing_but_a_generality_is_empty_then_and_bars_the_report() -> None:
    checked = run(Report(SOLID, "综上所述，该病灶具有恶性潜能。", "随访。"), RULES, CheckContext(date(2026, 1, 15)))
    assert checked.report.impression == ""
    assert [hit.rule for hit in checked.hits if hit.severity is Severity.BLOCK] == ["section.empty"]


def test_tokens_are_estimated_as_the_module_says() -> None:
    assert estimated_tokens("左肺上叶") == pytest.approx(2.4)
    assert estimated_tokens("8mm，") == pytest.approx(3 * 0.3 + 0.6)


@pytest.mark.parametrize("known", [{}, {"covers": ()}, {"contrast": None}, {"sex": ""}, {"sex": "O"}, {"effusion": None}])
def test_what_nobody_knows_is_held_against_nobody(known: dict[str, Any]) -> None:
    report = Report("膀胱、前列腺、子宫未见异常。增强扫描后明显强化。左侧胸腔见积液。", "左侧胸腔积液。", "随访。")
    rules = {hit.rule for hit in run(report, RULES, CheckContext(date(2026, 1, 15), **known)).hits}
    assert rules.isdisjoint({"organ.unseen", "organ.sex", "contrast.missing", "effusion.side", "structure.prose"})
