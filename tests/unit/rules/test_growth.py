"""Growth between two examinations: matched by place in the lungs, grown beyond 2 mm and beyond what two measurements can tell, or not comparable."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.checking import CheckContext, Prior, RuleSet, Spot
from pipeline.model import Candidate, Finding, Frame, Report, Side
from pipeline.rules.analysis import analysed
from pipeline.rules.growth import Compared, Outcome, compared, distance_mm, growth, missed_mm, uncertainty_mm
from pipeline.rules.seed import seed_growth

RULE = seed_growth()
TODAY, BEFORE, LONG_AGO = date(2026, 1, 15), date(2025, 1, 3), date(2023, 1, 3)
FRAME = Frame((-150.0, -100.0, 0.0, 150.0, 100.0, 250.0), 0.0, 1.0, 1.0)
PLACE = (60.0, 10.0, 180.0)
SPOT = Spot(1, "结节", PLACE, Side.LEFT, "上叶", 8.0)


def prior(*spots: Spot, when: date = BEFORE, frame: Frame | None = FRAME, signed: bool = False, covers: tuple[str, ...] = ("肺",)) -> Prior:
    return Prior(when, signed, spots, frame, covers)


def spot(size_mm: float, place: tuple[float, float, float] = PLACE, **changes: object) -> Spot:
    return replace(SPOT, size_mm=size_mm, center_mm=place, **changes)  # type: ignore[arg-type]  # fields of the dataclass


def now(*sizes: float, place: tuple[float, float, float] = PLACE, lobe: str = "上叶") -> tuple[Report, tuple[Candidate, ...]]:
    """Nodules of the left lung, 40 mm apart from each other."""
    x, y, z = place
    seen = tuple(Candidate(n, "结节", (x, y, z - 40.0 * (n - 1)), Side.LEFT, lobe, "实性", size, 0.9) for n, size in enumerate(sizes, start=1))
    findings = tuple(Finding(one.index, "结节", "左肺", lobe or "上叶", "实性", round(one.size_mm)) for one in seen)
    return Report(f"左肺{lobe or '上叶'}见实性结节。", "结节。", "随访。", findings), seen


def beside(*priors: Prior, size_mm: float = 8.0, frame: Frame | None = FRAME, **changes: object) -> tuple[Compared, ...]:
    report, seen = now(size_mm, **changes)  # type: ignore[arg-type]  # keywords of `now`
    return compared(report, CheckContext(TODAY, candidates=seen, frame=frame, priors=priors), RULE)


def only(*priors: Prior, **changes: object) -> Compared:
    (one,) = beside(*priors, **changes)  # type: ignore[arg-type]  # keywords of `beside`
    return one


def said(*priors: Prior, size_mm: float = 8.0) -> list[str]:
    report, seen = now(size_mm)
    rules = RuleSet(1, {}, growth=RULE)
    hits = growth(analysed(report, rules, CheckContext(TODAY, candidates=seen, frame=FRAME, priors=priors)))
    assert all(report.findings_text[hit.start : hit.end] == "左肺上叶" for hit in hits)
    return [hit.message for hit in hits]


def test_a_grown_nodule_is_told_with_both_sizes_and_dates() -> None:
    (message,) = said(prior(spot(8.0), signed=True), size_mm=11.2)
    assert message.startswith("【较前增大】左肺上叶结节：2025-01-03 8.0 mm → 2026-01-15 11.2 mm，增大 3.2 mm")
    assert "超过测量不确定度 1.7 mm（对照已签发报告）" in message


@pytest.mark.parametrize("size_mm", [8.0, 9.9, 10.0, 6.0, 3.0])
def test_two_millimetres_or_less_and_a_smaller_one_are_silent(size_mm: float) -> None:
    assert said(prior(spot(8.0)), size_mm=size_mm) == []


def test_more_than_two_millimetres_within_the_uncertainty_of_thick_slices_is_silent() -> None:
    thick = replace(FRAME, step_mm=5.0, thickness_mm=5.0)
    one = only(prior(spot(8.0), frame=thick), size_mm=10.5, frame=thick)
    assert one.outcome is Outcome.SAME
    assert one.sure_mm == pytest.approx(math.sqrt(1.73**2 + (8 - math.sqrt(39)) ** 2 + (10.5 - math.sqrt(10.5**2 - 25)) ** 2))
    assert one.sure_mm > 2.5
    assert only(prior(spot(8.0), frame=thick), size_mm=11.5, frame=thick).outcome is Outcome.GROWN


def test_a_new_nodule_is_told_where_the_earlier_examination_covered_its_place() -> None:
    (message,) = said(prior())
    assert "左肺上叶新增结节（8.0 mm）" in message
    assert "2025-01-03" in message


def test_a_region_that_the_earlier_report_did_not_speak_of_still_counts() -> None:
    assert only(prior(spot(8.0, stated_mm=None))).outcome is Outcome.SAME


def test_the_table_may_lie_elsewhere_and_the_breath_be_another() -> None:
    moved = replace(FRAME, lungs_mm=(-130.0, -400.0, 1000.0, 170.0, -190.0, 1270.0), midline_mm=20.0)
    there = (20.0 + 60.0, -400.0 + 210 * 0.55, 1000.0 + 270 * 180 / 250)
    assert distance_mm(SPOT, spot(8.0, there), FRAME, moved) == pytest.approx(0.0, abs=1e-9)
    assert only(prior(spot(8.0, there), frame=moved)).outcome is Outcome.SAME


@pytest.mark.parametrize(
    ("earlier", "reason"),
    [
        (prior(SPOT, frame=None), "没有保存病灶位置"),
        (prior(SPOT, frame=replace(FRAME, thickness_mm=5.0)), "层厚不同（5 mm 与 1 mm）"),
        (prior(SPOT, covers=("肝",)), "未包括肺"),
        (prior(SPOT, frame=replace(FRAME, lungs_mm=(-150.0, -100.0, 150.0, 150.0, 100.0, 250.0))), "肺野范围不同"),
        (prior(SPOT, spot(8.0, (61.0, 11.0, 181.0), index=2)), "对应关系不唯一"),
        (prior(spot(8.0, (60.0, 10.0, 150.0))), "另有结节"),
        (prior(spot(20.0, kind="实变")), "既往该处为实变"),
    ],
)
def test_what_cannot_be_decided_is_not_comparable_with_its_reason(earlier: Prior, reason: str) -> None:
    one = only(earlier)
    assert (one.outcome, reason in one.reason) == (Outcome.UNCLEAR, True), one
    (message,) = said(earlier)
    assert message.startswith("【与既往不可比】左肺上叶结节：2025-01-03（未审核草稿）：")


def test_without_a_position_in_this_examination_nothing_is_compared() -> None:
    assert only(prior(SPOT), frame=None).reason == "本次检查没有保存病灶位置"
    report, _ = now(8.0)
    (one,) = compared(report, CheckContext(TODAY, frame=FRAME, priors=(prior(SPOT),)), RULE)
    assert (one.outcome, one.reason) == (Outcome.UNCLEAR, "病灶没有对应的图像位置")


def test_two_nodules_of_now_beside_one_of_before_are_ambiguous() -> None:
    report, seen = now(8.0, 8.0)
    close = (seen[0], replace(seen[1], center_mm=(61.0, 11.0, 181.0)))
    found = compared(report, CheckContext(TODAY, candidates=close, frame=FRAME, priors=(prior(spot(5.0, (60.5, 10.5, 180.5))),)), RULE)
    assert [one.outcome for one in found] == [Outcome.UNCLEAR, Outcome.UNCLEAR]


def test_side_and_lobe_must_agree_as_far_as_they_are_known() -> None:
    assert only(prior(spot(5.0, side=Side.RIGHT))).outcome is Outcome.NEW
    assert only(prior(spot(5.0, lobe="下叶"))).outcome is Outcome.NEW
    assert only(prior(spot(5.0, lobe=""))).outcome is Outcome.GROWN


def test_a_signed_report_comes_before_a_newer_draft() -> None:
    one = only(prior(spot(8.0)), prior(spot(5.0), when=LONG_AGO, signed=True))
    assert (one.outcome, one.when, one.signed) == (Outcome.GROWN, LONG_AGO, True)


def test_a_nodule_that_a_newer_draft_shows_is_not_new_against_an_older_report() -> None:
    one = only(prior(spot(8.0)), prior(when=LONG_AGO, signed=True))
    assert (one.outcome, one.when) == (Outcome.SAME, BEFORE)


def test_examinations_of_the_same_day_or_later_are_no_priors() -> None:
    assert beside(prior(SPOT, when=TODAY), prior(SPOT, when=date(2027, 1, 1))) == ()
    assert beside() == ()


def test_without_a_rule_nothing_is_compared() -> None:
    report, seen = now(20.0)
    assert compared(report, CheckContext(TODAY, candidates=seen, frame=FRAME, priors=(prior(SPOT),)), None) == ()


def test_a_size_that_the_report_corrects_stands_before_the_measured_one() -> None:
    assert only(prior(spot(8.0, stated_mm=12)), size_mm=11.0).outcome is Outcome.SAME
    assert only(prior(spot(8.4, stated_mm=8)), size_mm=10.5).before_mm == 8.4  # 8 is its rounding


sizes = st.floats(2.0, 40.0)
steps = st.floats(0.5, 5.0)


@given(sizes, sizes, steps, steps)
def test_no_flag_without_growth_beyond_two_millimetres_and_the_uncertainty(before: float, after: float, step: float, other: float) -> None:
    frame, earlier = replace(FRAME, step_mm=step), replace(FRAME, step_mm=other)
    outcome = only(prior(spot(before), frame=earlier), size_mm=after, frame=frame).outcome
    # the report states whole millimetres, of which the measured size is at most half a one away
    sure = uncertainty_mm(RULE, before, other, after, step)
    assert sure >= RULE.repeatability_mm
    assert (outcome is Outcome.GROWN) == (after - before > max(2.0, sure))


@given(sizes, steps)
def test_thinner_slices_never_make_a_measurement_less_certain(size: float, step: float) -> None:
    assert 0.0 <= missed_mm(size, step / 2) <= missed_mm(size, step) <= size


@given(st.lists(st.tuples(sizes, st.integers(0, 2000), st.booleans(), st.floats(-30, 30)), min_size=1, max_size=5), st.randoms())
def test_the_order_of_the_priors_changes_nothing(drawn: list[tuple[float, int, bool, float]], chance: random.Random) -> None:
    x, y, z = PLACE
    priors = [
        prior(spot(size, (x, y, z + off)), when=date.fromordinal(BEFORE.toordinal() - days), signed=signed) for size, days, signed, off in drawn
    ]
    shuffled = list(priors)
    chance.shuffle(shuffled)
    assert beside(*priors) == beside(*shuffled)


def test_a_node_or_a_liver_lesion_beside_a_nodule_is_no_earlier_nodule_and_makes_nothing_unclear() -> None:
    near = (PLACE[0] + 2.0, PLACE[1], PLACE[2])
    others = (spot(14.0, near, index=2, kind="淋巴结", lobe=""), spot(20.0, near, index=3, kind="囊肿", lobe=""))
    assert only(prior(spot(4.0), *others)).outcome is Outcome.GROWN
    assert only(prior(*others)).outcome is Outcome.NEW
