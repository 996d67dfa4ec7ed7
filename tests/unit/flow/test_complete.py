"""Evidence in, verdict out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evidence import Evidence, Gap, Patience, RequiredSeries, StepEvidence, Verdict, VerdictKind
from pipeline.flow.complete import judge, missing_series, with_series
from tests.unit.flow.test_choose import series, study

PATIENCE = Patience(quiet_s=30.0, settle_s=3.0, patience_s=300.0, force_after_s=3600.0)
GAP = Gap("Thorax", 9, 45.0, 2, numbered=True)
DONE = StepEvidence(in_progress=False, discontinued=False, expected=30, missing=0)
COMPLETE, PARTIAL, WAIT = VerdictKind.COMPLETE, VerdictKind.PARTIAL, VerdictKind.WAIT


def after(quiet_s: float, age_s: float = 400.0, **facts: Any) -> Verdict:
    """The verdict on a study of 30 images with these facts."""
    return judge(replace(Evidence(quiet_s, max(age_s, quiet_s), images=30), **facts), PATIENCE)


def test_without_trouble_the_quiet_time_decides() -> None:
    assert (after(29.0).kind, after(29.0).wait_s) == (WAIT, 1.0)
    assert after(30.0) == Verdict(COMPLETE, Evidence(30.0, 400.0, images=30))


def test_a_pause_longer_than_the_quiet_time_inside_an_open_association_freezes_nothing() -> None:
    verdict = after(3000.0, associations_open=1)
    assert (verdict.kind, verdict.reasons) == (WAIT, ("仍有 1 个发送连接未关闭",))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"associations_aborted": 1}, "有 1 个发送连接被中断或有图像未能收下，之后没有补传"),
        ({"associations_lost": 2}, "有 2 个发送连接断线（或接收服务曾重启），之后没有补传"),
        ({"steps": (replace(DONE, in_progress=True),)}, "检查步骤（MPPS）尚未结束"),
        ({"steps": (replace(DONE, missing=3),)}, "检查步骤（MPPS）列出 30 幅图像，还缺 3 幅"),
        ({"gaps": (GAP,)}, "序列「Thorax」第 9 层后缺 2 层（45.0 mm 处）"),
        ({"gaps": (replace(GAP, shown=(21, 18)),)}, "序列「Thorax」图像 21 与 18 之间缺 2 层（45.0 mm 处）"),
        ({"missing_series": ("肺窗薄层",)}, "缺少必需序列：肺窗薄层"),
    ],
)
def test_what_is_missing_is_waited_for_and_then_named(facts: dict[str, Any], said: str) -> None:
    waiting = after(299.0, **facts)
    assert (waiting.kind, waiting.reasons, waiting.wait_s) == (WAIT, (said,), 1.0)
    final = after(300.0, **facts)
    assert (final.kind, final.reason, final.forced) == (PARTIAL, said, False)


def test_mpps_that_names_every_image_needs_only_to_settle() -> None:
    assert after(2.0, steps=(DONE,)).kind is WAIT
    assert after(3.0, steps=(DONE,)).kind is COMPLETE
    assert after(3.0, steps=(DONE,), gaps=(GAP,), associations_aborted=1).kind is COMPLETE


def test_mpps_that_names_nothing_confirms_nothing() -> None:
    assert after(3.0, steps=(replace(DONE, expected=0),)).kind is WAIT
    assert after(30.0, steps=(replace(DONE, expected=0),)).kind is COMPLETE


def test_a_discontinued_step_is_partial_without_further_waiting() -> None:
    verdict = after(30.0, steps=(replace(DONE, discontinued=True),))
    assert (verdict.kind, verdict.reason) == (PARTIAL, "检查步骤（MPPS）被中止")


@pytest.mark.parametrize(
    ("facts", "also"), [({"associations_open": 2}, "仍有 2 个发送连接未关闭"), ({}, "仍在收图"), ({"associations_lost": 1}, "接收服务曾重启")]
)
def test_a_study_that_never_gets_whole_is_forced_and_says_so(facts: dict[str, Any], also: str) -> None:
    verdict = after(1.0, 3600.0, **facts)
    assert (verdict.kind, verdict.forced) == (PARTIAL, True)
    assert verdict.reason.startswith("等待超过上限（3600 秒），按现有图像继续；")
    assert also in verdict.reason


def test_many_gaps_are_summed_up() -> None:
    assert after(300.0, gaps=(GAP,) * 5).reasons[-1] == "另有 2 处缺层"


steps = st.builds(
    lambda state, expected, missing: StepEvidence(state == 1, state == 2, expected, min(missing, expected)),
    st.integers(0, 2),
    st.integers(0, 50),
    st.integers(0, 50),
)
few = st.integers(0, 2)
seconds = st.floats(0, 10_000)
evidences = st.builds(
    lambda quiet_s, age_s, facts: Evidence(quiet_s, quiet_s + age_s, **facts),
    seconds,
    seconds,
    st.fixed_dictionaries(
        {
            "associations_open": few,
            "associations_aborted": few,
            "associations_lost": few,
            "steps": st.lists(steps, max_size=3).map(tuple),
            "gaps": st.sampled_from([(), (GAP,)]),
            "missing_series": st.sampled_from([(), ("a",)]),
        }
    ),
)
patiences = st.builds(Patience, *[st.floats(0, 1000)] * 3, st.floats(1, 5000))


@given(evidences, patiences)
def test_never_complete_while_an_association_is_open_and_always_final_past_the_limit(evidence: Evidence, patience: Patience) -> None:
    verdict = judge(evidence, patience)
    if evidence.associations_open:
        assert verdict.kind is not COMPLETE
    if evidence.age_s >= patience.force_after_s:
        assert verdict.kind is not WAIT
    assert verdict.forced <= (evidence.age_s >= patience.force_after_s)
    assert (verdict.kind is COMPLETE) == (not verdict.reasons)


@given(evidences, patiences)
def test_a_wait_is_short_enough_to_end_and_looking_then_brings_it_forward(evidence: Evidence, patience: Patience) -> None:
    verdict = judge(evidence, patience)
    if verdict.kind is WAIT:
        assert 0 < verdict.wait_s <= max(patience.force_after_s - evidence.age_s, 1e-9)
        later = replace(evidence, quiet_s=evidence.quiet_s + verdict.wait_s + 1e-6, age_s=evidence.age_s + verdict.wait_s + 1e-6)
        assert evidence.associations_open or judge(later, patience).kind is not WAIT


@given(evidences, patiences, seconds)
def test_more_quiet_time_never_takes_a_verdict_back(evidence: Evidence, patience: Patience, more_s: float) -> None:
    later = judge(replace(evidence, quiet_s=evidence.quiet_s + more_s, age_s=evidence.age_s + more_s), patience)
    if judge(evidence, patience).kind is not WAIT:
        assert later.kind is not WAIT


@given(evidences, patiences)
def test_more_trouble_never_makes_a_study_complete(evidence: Evidence, patience: Patience) -> None:
    for worse in (
        replace(evidence, associations_open=evidence.associations_open + 1),
        replace(evidence, associations_lost=evidence.associations_lost + 1),
        replace(evidence, missing_series=("a",)),
        replace(evidence, steps=(*evidence.steps, StepEvidence(in_progress=True, discontinued=False, expected=1, missing=1))),
    ):
        if judge(evidence, patience).kind is not COMPLETE:
            assert judge(worse, patience).kind is not COMPLETE


def test_a_required_series_is_asked_of_the_studies_that_the_rule_fits() -> None:
    thin = RequiredSeries("薄层", "thin|1\\.0", station="^ct1$", study="chest", images=20)
    whole = replace(study(series("1", 30, description="Lung 1.0"), description="Chest"), station="CT1")
    assert missing_series(whole, (thin,)) == ()
    assert missing_series(replace(whole, series=(series("1", 5, description="Lung 1.0"),)), (thin,)) == ("薄层",)
    assert missing_series(replace(whole, series=(series("1", 30, description="Lung 5.0"),)), (thin,)) == ("薄层",)
    assert missing_series(replace(whole, series=(), station="CT2"), (thin,)) == ()
    assert with_series(Evidence(1.0, 1.0), whole, (thin,), 8) == Evidence(1.0, 1.0)
