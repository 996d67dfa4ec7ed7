"""The dose warning: window, sum, trigger, negation."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model import CheckContext, DoseEvent, DoseRule, Report, RuleSet, Severity
from pipeline.rules.dose import asks_for_ct, cumulated, months_before, warn
from pipeline.rules.seed import seed_dose_rules

(RULE,) = seed_dose_rules()
RULES = RuleSet(3, {}, (RULE,))
DAY = date(2026, 1, 15)


def event(uid: str, msv: float, when: date = date(2025, 6, 1)) -> DoseEvent:
    return DoseEvent(uid, when, "chest", 100.0, msv)


def context(*doses: DoseEvent, missing: int = 0) -> CheckContext:
    return CheckContext(DAY, doses, missing)


def report(advice: str, impression: str = "右肺上叶结节。") -> Report:
    return Report("见结节。", impression, advice)


HIGH = (event("a", 30.0), event("b", 25.0, date(2025, 9, 1)))


def test_the_warning_stands_at_the_beginning_of_the_advice_and_names_sum_and_studies() -> None:
    done = warn(report("建议增强扫描。"), RULES, context(*HIGH))
    (hit,) = done.hits
    assert done.report.advice.startswith(RULE.message)
    assert done.report.advice.endswith("建议增强扫描。")
    assert "55.0 mSv" in done.report.advice
    assert "2 个检查日" in done.report.advice
    assert "缺剂量记录" not in done.report.advice
    assert (hit.severity, hit.section, hit.rule, hit.version) == (Severity.FLAG, "建议", RULE.id, RULE.version)
    assert "2025-06-01、2025-09-01" in hit.message
    assert done.report.advice[hit.start : hit.end] + "建议增强扫描。" == done.report.advice


def test_studies_without_dose_are_named() -> None:
    assert "另有 2 次检查缺剂量记录" in warn(report("建议增强扫描。"), RULES, context(*HIGH, missing=2)).report.advice


def test_a_dose_that_is_no_number_counts_as_missing() -> None:
    done = warn(report("建议增强扫描。"), RULES, context(*HIGH, event("c", float("nan"))))
    assert "55.0 mSv" in done.report.advice
    assert "另有 1 次" in done.report.advice


@pytest.mark.parametrize(("msv", "fires"), [(50.0, False), (50.01, True)])
def test_the_threshold_must_be_exceeded(msv: float, fires: bool) -> None:
    assert bool(warn(report("建议增强扫描。"), RULES, context(event("a", msv))).hits) is fires


def test_the_same_event_counts_once() -> None:
    assert not warn(report("建议增强扫描。"), RULES, context(event("a", 30.0), event("a", 30.0))).hits


@pytest.mark.parametrize(
    ("when", "counts"),
    [
        (date(2025, 1, 15), False),  # exactly twelve months ago is outside
        (date(2025, 1, 16), True),
        (date(2026, 1, 15), True),  # the examination itself
        (date(2026, 1, 16), False),  # the future
    ],
)
def test_the_window_goes_by_examination_date(when: date, counts: bool) -> None:
    assert cumulated(context(event("a", 60.0, when)), 12).events == int(counts)


def test_months_are_calendar_months() -> None:
    assert months_before(date(2026, 3, 31), 1) == date(2026, 2, 28)
    assert months_before(date(2024, 3, 31), 1) == date(2024, 2, 29)
    assert months_before(date(2026, 1, 15), 12) == date(2025, 1, 15)
    assert months_before(date(2026, 1, 15), 13) == date(2024, 12, 15)


@pytest.mark.parametrize(
    "advice",
    [
        "建议增强扫描。",
        "建议3个月后复查胸部CT，必要时增强CT或穿刺活检。",
        "建议12个月后复查胸部低剂量CT。",
        "建议６个月后胸部ｃｔ复查。",
        "不建议穿刺活检，建议增强扫描。",
        "无需穿刺活检而应行增强扫描。",
        "随访，胸部CT平扫3个月后复查。",
        "避免漏诊建议增强扫描。",
        "建议CT或MRI增强扫描。",
        "复查CT不考虑手术。",
        "建议PET-CT检查。",
    ],
)
def test_advice_that_asks_for_ct(advice: str) -> None:
    assert asks_for_ct(report(advice), RULE.triggers)


@pytest.mark.parametrize(
    "advice",
    [
        "不建议增强扫描。",
        "无需CT复查，建议年度体检随访。",
        "目前不需要复查胸部CT。",
        "暂不考虑增强CT。",
        "增强扫描暂不需要。",
        "CT复查目前无需进行。",
        "建议MRI增强扫描。",
        "建议超声造影增强检查。",
        "建议年度体检随访。",
        "请与已行CT对照。",
        "不建议穿刺、增强扫描。",
        "",
    ],
)
def test_advice_that_does_not_ask_for_ct(advice: str) -> None:
    assert not asks_for_ct(report(advice), RULE.triggers)


def test_the_impression_asks_only_with_a_word_of_recommendation() -> None:
    assert asks_for_ct(report("随诊。", "右肺结节，建议增强扫描。"), RULE.triggers)
    assert not asks_for_ct(report("随诊。", "胸部CT复查：结节未见变化。"), RULE.triggers)


@given(st.sampled_from(["建议增强扫描。", "建议CT复查。", "不建议增强扫描。"]), st.integers(0, 3), st.integers(0, 120))
def test_a_second_run_changes_nothing(advice: str, missing: int, msv: int) -> None:
    seen = context(event("a", float(msv)), missing=missing)
    once = warn(report(advice), RULES, seen)
    twice = warn(once.report, RULES, seen)
    assert (twice.report, twice.hits, twice.advice_shift) == (once.report, once.hits, 0)


def test_a_late_dose_report_renews_the_warning_in_place() -> None:
    first = warn(report("建议增强扫描。"), RULES, context(*HIGH)).report
    second = warn(first, RULES, context(*HIGH, event("late", 10.0))).report
    assert second.advice.count(RULE.message) == 1
    assert "65.0 mSv" in second.advice


def test_two_rules_warn_side_by_side_in_the_order_of_their_ids() -> None:
    rules = RuleSet(1, {}, (DoseRule("z", 1, 1, 0.0, ("增强扫描",), "乙"), DoseRule("a", 1, 12, 50.0, ("增强扫描",), "甲")))
    seen = context(*HIGH, event("c", 1.0, date(2026, 1, 1)))
    once = warn(report("建议增强扫描。"), rules, seen)
    assert [hit.rule for hit in once.hits] == ["a", "z"]
    assert [once.report.advice[hit.start] for hit in once.hits] == ["甲", "乙"]
    assert warn(once.report, rules, seen).report == once.report
