"""A text against its frozen findings: whatever it says beyond them is found, whatever it leaves out is not, and right texts say nothing beyond."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.checking import CheckContext
from pipeline.drafting.departments import NAMES
from pipeline.model import Finding, Report
from pipeline.rules.against import differences
from tests.unit.rules.reports import DAY, RULES, case_of, drawn

NODULE = Finding(1, "结节", "左肺", "上叶", "实性", 8, "光滑", "均匀", "无")
FLUID = Finding(None, "胸腔积液", "左侧", None, None, None)
CONTEXT = CheckContext(DAY)
RIGHT = "左肺上叶见实性结节，大小约8mm，边缘光滑。"


def told(text: str, *listed: Finding, impression: str = "请结合临床。", advice: str = "请结合临床。") -> set[str]:
    return {hit.rule for hit in differences(Report(text, impression, advice, listed or (NODULE,)), RULES, CONTEXT)}


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from(tuple(NAMES)))
def test_the_right_text_of_every_department_says_nothing_beyond_its_findings(seed: int, department: str) -> None:
    case = case_of(drawn(seed), department)
    assert differences(case.report, RULES, case.context) == ()


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("左肺上叶见实性结节，大小约18mm，边缘光滑。", "structure.prose"),
        ("右肺上叶见实性结节，大小约8mm，边缘光滑。", "structure.prose"),
        ("左肺下叶见实性结节，大小约8mm，边缘光滑。", "structure.prose"),
        ("左肺上叶见磨玻璃结节，大小约8mm，边缘光滑。", "structure.prose"),
        ("左肺上叶见实性结节，大小约8mm，边缘可见毛刺。", "structure.look"),
        (f"{RIGHT}右肺下叶见实性结节，大小约5mm。", "structure.prose"),
        (f"{RIGHT}左侧胸腔见积液。", "effusion.side"),
        (f"{RIGHT}双肺见肺气肿。", "emphysema.side"),
    ],
)
def test_what_is_not_listed_is_found(text: str, rule: str) -> None:
    assert rule in told(text)


@pytest.mark.parametrize(
    ("impression", "advice", "rule"),
    [("1.右肺上叶实性结节。", "请结合临床。", "structure.impression"), ("请结合临床。", "建议复查右肺下叶结节。", "structure.advice")],
)
def test_impression_and_advice_are_held_against_the_list_too(impression: str, advice: str, rule: str) -> None:
    assert rule in told(RIGHT, impression=impression, advice=advice)


@pytest.mark.parametrize("text", [RIGHT, "双肺未见明确实变。", "纵隔居中。"])
def test_what_is_right_or_left_out_is_no_difference(text: str) -> None:
    assert told(text, NODULE, FLUID) == set()


def test_images_say_nothing_here_the_list_stands_for_them() -> None:
    case = case_of(drawn(3))
    blind = replace(case.context, effusion=(), emphysema=(), fibrosis=(), candidates=())
    assert differences(case.report, RULES, blind) == ()
