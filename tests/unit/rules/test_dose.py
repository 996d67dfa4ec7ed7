"""The dose warning: window, sum, trigger, negation."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.checking import CheckContext, Hit, RuleSet
from pipeline.irradiation import DoseEvent, DoseRule
from pipeline.model import Report, Severity
from pipeline.rules.dose import DOUBT_ID, HOLDS_NO_LONGER, asks_for_ct, cumulated, months_before, warn, warn_again
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
    assert "2025-06-01 胸部 30.0、2025-09-01 胸部 25.0" in done.report.advice
    assert done.report.advice.rstrip("建议增强扫描。") in hit.message
    assert done.report.advice[hit.start : hit.end] + "建议增强扫描。" == done.report.advice


def test_studies_without_dose_are_named() -> None:
    assert "另有 2 次检查缺剂量记录" in warn(report("建议增强扫描。"), RULES, context(*HIGH, missing=2)).report.advice


def test_a_dose_that_is_no_number_counts_as_missing() -> None:
    done = warn(report("建议增强扫描。"), RULES, context(*HIGH, event("c", float("nan"))))
    assert "55.0 mSv" in done.report.advice
    assert "另有 1 次照射无可用剂量，未计入" in done.report.advice


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
    assert cumulated(context(event("a", 60.0, when)), RULE).events == int(counts)


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
        "建议胸部CT检查。",
        "建议CT检查，除外肺栓塞。",
        "建议完善胸部CT。",
        "必要时CTPA检查。",
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
        "建议与外院CT对照。",
        "建议结合既往CT。",
        "不建议胸部CT检查。",
        "无需CTPA。",
        "不建议穿刺、增强扫描。",
        "",
    ],
)
def test_advice_that_does_not_ask_for_ct(advice: str) -> None:
    assert not asks_for_ct(report(advice), RULE.triggers)


@pytest.mark.parametrize(
    "advice",
    ["暂不需要增强扫描", "没有必要行增强扫描", "没必要复查CT", "无复查CT必要", "无增强扫描指征", "非必要不行CT复查", "不能行增强扫描", "禁行增强扫描",
     "取消增强扫描",     "增强扫描不作为首选", "未建议增强扫描", "建议以MRI代替增强CT", "建议与前次CT增强扫描对比",
     "请结合既往CT增强检查", "建议参考外院增强CT"],
)  # fmt: skip
def test_ct_that_is_denied_replaced_or_past_is_not_asked_for(advice: str) -> None:
    assert not asks_for_ct(Report("", "", f"{advice}。"), RULE.triggers)


@pytest.mark.parametrize(
    "advice",
    [
        "避免受凉并复查CT",
        "不考虑手术而建议增强扫描",
        "建议与既往CT对比后行增强扫描",
        "不能除外恶性建议增强扫描",
        "建议年度LDCT筛查",
        "建议CT随诊",
        "建议强化CT检查",
        "必要时复查CT",
    ],
)
def test_what_is_denied_before_a_recommendation_does_not_silence_it(advice: str) -> None:
    assert asks_for_ct(Report("", "", f"{advice}。"), seed_dose_rules()[0].triggers)


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


EVENTS = st.lists(
    st.builds(
        DoseEvent,
        st.sampled_from([f"uid {n}" for n in range(12)]),
        st.integers(-400, 30).map(lambda days: DAY + timedelta(days=days)),
        st.sampled_from(["chest", "head", ""]),
        st.just(100.0),
        st.floats(0, 40, allow_nan=False) | st.just(float("nan")),
        st.sampled_from([0.0145, 0.0153, None]),
        st.sampled_from(["", "", "", "姓名与登记的不同"]),
    ),
    max_size=12,
)


@given(EVENTS, st.integers(0, 1000))
def test_the_order_of_the_events_changes_nothing(events: list[DoseEvent], seed: int) -> None:
    shuffled = list(events)
    Random(seed).shuffle(shuffled)
    assert warn(report("建议增强扫描。"), RULES, context(*events)) == warn(report("建议增强扫描。"), RULES, context(*shuffled))


@given(EVENTS)
def test_events_told_twice_count_once(events: list[DoseEvent]) -> None:
    assert warn(report("建议增强扫描。"), RULES, context(*events)) == warn(report("建议增强扫描。"), RULES, context(*events, *events))


@given(EVENTS, st.floats(0, 100), st.booleans())
def test_more_dose_never_silences_the_warning(events: list[DoseEvent], more: float, doubled: bool) -> None:
    extra = event(events[0].event_uid if doubled and events else "new", more)
    before, after = (cumulated(context(*some), RULE) for some in (events, [*events, extra]))
    assert after.msv >= before.msv - 1e-9
    assert bool(warn(report("建议增强扫描。"), RULES, context(*events)).hits) <= bool(
        warn(report("建议增强扫描。"), RULES, context(*events, extra)).hits
    )


@given(EVENTS)
def test_later_and_older_examinations_change_nothing(events: list[DoseEvent]) -> None:
    inside = [one for one in events if date(2025, 1, 15) < one.when <= DAY]
    outside = [replace(one, event_uid=f"out {n}") for n, one in enumerate(events) if one not in inside]
    assert cumulated(context(*inside, *outside), RULE) == cumulated(context(*inside), RULE)


def test_the_factors_and_the_regions_are_named() -> None:
    doses = (replace(HIGH[0], k=0.0145), replace(HIGH[1], k=0.0153, region="abdomen"))
    text = warn(report("建议增强扫描。"), RULES, context(*doses)).report.advice
    assert "2025-06-01 胸部 30.0、2025-09-01 腹部 25.0" in text
    assert "k=0.0145、0.0153 mSv/(mGy·cm)" in text


def test_of_many_days_the_newest_are_listed() -> None:
    doses = [event(str(n), 6.0, date(2025, 2, 1) + timedelta(days=30 * n)) for n in range(10)]
    text = warn(report("建议增强扫描。"), RULES, context(*doses)).report.advice
    assert "10 个检查日、10 次照射" in text
    assert text.count("胸部") == 6
    assert "等 10 日" in text


def test_studies_without_dose_are_dated_in_the_flag() -> None:
    seen = replace(context(*HIGH, missing=2), missing_dates=(date(2025, 3, 1), date(2025, 4, 1)))
    (hit,) = warn(report("建议增强扫描。"), RULES, seen).hits
    assert "缺剂量的检查：2025-03-01、2025-04-01。" in hit.message


def test_what_may_be_another_patients_is_left_out_and_told_where_it_would_matter() -> None:
    doubted = replace(HIGH[1], doubt="姓名与登记的不同")
    done = warn(report("建议增强扫描。"), RULES, context(HIGH[0], doubted))
    assert done.report.advice == "建议增强扫描。"
    assert [(hit.rule, hit.start, hit.end) for hit in done.hits] == [(DOUBT_ID, 0, 0)]
    assert "25.0 mSv" in done.hits[0].message
    assert not warn(report("建议增强扫描。"), RULES, context(event("a", 10.0), replace(doubted, msv=5.0))).hits
    assert not warn(report("建议随访。"), RULES, context(HIGH[0], doubted)).hits
    both = warn(report("建议增强扫描。"), RULES, context(*HIGH, replace(doubted, event_uid="c")))
    assert "另有 1 次照射身份存疑，未计入" in both.report.advice
    assert [hit.rule for hit in both.hits] == [RULE.id, DOUBT_ID]


def test_of_a_doubted_and_an_undoubted_record_of_one_event_only_the_excess_is_in_doubt() -> None:
    records = (event("a", 40.0), replace(event("a", 55.0), doubt="姓名与登记的不同"))
    total = cumulated(context(*records), RULE)
    assert (total.msv, total.doubtful, total.doubtful_msv) == (40.0, 1, 15.0)
    assert [hit.rule for hit in warn(report("建议增强扫描。"), RULES, context(*records)).hits] == [DOUBT_ID]


def test_a_rule_for_one_region_counts_only_that() -> None:
    rules = RuleSet(1, {}, (replace(RULE, region="head", threshold_msv=20.0),))
    assert not warn(report("建议增强扫描。"), rules, context(*HIGH)).hits
    assert warn(report("建议增强扫描。"), rules, context(*HIGH, replace(event("h", 21.0), region="head"))).hits


@pytest.mark.parametrize(("age", "fires"), [(None, True), (17.9, True), (18.0, False), (0.5, False), (1.0, True)])
def test_a_rule_for_an_age(age: float | None, fires: bool) -> None:
    rules = RuleSet(1, {}, (replace(RULE, min_age_years=1.0, max_age_years=18.0),))
    assert bool(warn(report("建议增强扫描。"), rules, replace(context(*HIGH), age_years=age)).hits) is fires


def test_a_warning_that_holds_no_longer_is_taken_out() -> None:
    first = warn(report("建议增强扫描。"), RULES, context(*HIGH))
    again = warn(first.report, RULES, context(HIGH[0]))
    assert (again.report.advice, again.hits) == ("建议增强扫描。", ())
    assert again.advice_shift == len("建议增强扫描。") - len(first.report.advice)


OTHER = Hit("term.standard", 1, Severity.REPLACED, "建议", 2, 4, "增强", "强化")


def test_checked_again_the_other_hits_keep_their_words() -> None:
    new, hits = warn_again(report("建议增强扫描。"), (OTHER,), RULES, context(*HIGH), untouched=True)
    (moved,) = [hit for hit in hits if hit.rule == "term.standard"]
    assert new.advice[moved.start : moved.end] == "增强"
    back, hits = warn_again(new, hits, RULES, context(HIGH[0]), untouched=True)
    assert (back.advice, hits) == ("建议增强扫描。", (OTHER,))


def test_a_warning_in_the_words_of_an_older_rule_is_replaced() -> None:
    old = RuleSet(1, {}, (replace(RULE, message="旧的预警"),))
    first, hits = warn_again(report("建议增强扫描。"), (OTHER,), old, context(*HIGH), untouched=True)
    second, hits = warn_again(first, hits, RULES, context(*HIGH), untouched=True)
    assert second == warn(report("建议增强扫描。"), RULES, context(*HIGH)).report
    assert [hit.rule for hit in hits] == [RULE.id, "term.standard"]


def test_touched_text_is_never_changed() -> None:
    touched = report("建议增强扫描。")
    new, hits = warn_again(touched, (OTHER,), RULES, context(*HIGH), untouched=False)
    assert new is touched
    assert [(hit.rule, hit.start, hit.end) for hit in hits] == [(RULE.id, 0, 0), ("term.standard", 2, 4)]


def test_a_touched_warning_is_renewed_where_it_stands_and_says_when_it_holds_no_longer() -> None:
    first, hits = warn_again(report("建议增强扫描。"), (), RULES, context(*HIGH), untouched=True)
    same, more = warn_again(first, hits, RULES, context(*HIGH, event("late", 10.0)), untouched=False)
    assert (same, more[0].start, more[0].end) == (first, hits[0].start, hits[0].end)
    assert "65.0 mSv" in more[0].message
    same, less = warn_again(first, more, RULES, context(HIGH[0]), untouched=False)
    assert (same, [hit.message for hit in less]) == (first, [HOLDS_NO_LONGER])
    assert warn_again(first, less, RULES, context(HIGH[0]), untouched=False) == (first, less)


@given(EVENTS, EVENTS, st.booleans())
def test_checking_again_is_stable_and_points_at_its_words(events: list[DoseEvent], later: list[DoseEvent], untouched: bool) -> None:
    start, hits = warn_again(report("建议增强扫描。"), (OTHER,), RULES, context(*events), untouched=True)
    once = warn_again(start, hits, RULES, context(*events, *later), untouched=untouched)
    assert warn_again(*once, RULES, context(*events, *later), untouched=untouched) == once
    (other,) = [hit for hit in once[1] if hit.rule == "term.standard"]
    assert once[0].advice[other.start : other.end] == "增强"
