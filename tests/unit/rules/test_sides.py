"""Sides in findings and impression."""

from __future__ import annotations

from datetime import date

import pytest

from pipeline.checking import CheckContext
from pipeline.model import Report
from pipeline.rules.analysis import analysed
from pipeline.rules.sides import agree
from tests.unit.rules.lexicons import RULES

NORMAL = "胸廓对称，气管居中，双肺纹理清晰。"


def flagged(findings: str, impression: str) -> list[str]:
    report = Report(findings, impression, "建议随访。")
    hits = agree(analysed(report, RULES, CheckContext(date(2026, 1, 15))))
    return [report.impression[hit.start : hit.end] for hit in hits]


@pytest.mark.parametrize(
    ("findings", "impression"),
    [
        ("左肺上叶见实性结节。", "左肺上叶实性结节。"),
        ("左上肺见实性结节。", "左肺上叶实性结节。"),
        ("左肺见实性结节。", "左肺上叶实性结节。"),
        ("左侧胸腔见弧形液体密度影。", "左侧胸腔积液。"),
        ("双侧胸腔见弧形液体密度影。", "左侧胸腔积液。"),
        ("双侧胸腔未见积液。", "胸部CT平扫未见明显异常。"),
        ("右肺上叶见结节。", "左肺未见异常。"),
    ],
)
def test_agreeing_sides_are_silent(findings: str, impression: str) -> None:
    assert flagged(NORMAL + findings, impression) == []


@pytest.mark.parametrize(
    ("findings", "impression", "span"),
    [
        ("右肺上叶见实性结节。", "左肺上叶实性结节。", "左肺上叶"),
        ("左肺上叶见实性结节。", "左肺下叶实性结节。", "左肺下叶"),
        ("右侧胸腔见弧形液体密度影。", "左侧胸腔积液。", "左侧胸腔"),
        ("双侧胸腔未见积液。", "左侧胸腔积液。", "左侧胸腔"),
        ("左肺上叶见结节。右侧胸腔见弧形液体密度影。", "右肺上叶结节。", "右肺上叶"),
    ],
)
def test_another_side_in_the_impression_is_flagged_where_it_stands(findings: str, impression: str, span: str) -> None:
    assert flagged(NORMAL + findings, impression) == [span]


def test_a_mismatch_on_both_sides_gives_one_hit_for_each() -> None:
    assert flagged(NORMAL, "双侧胸腔积液。") == ["双侧胸腔", "双侧胸腔"]
