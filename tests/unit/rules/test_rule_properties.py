"""What holds for all rules over any text: offsets, purity, idempotence, and what no rule may change."""

from __future__ import annotations

import random
import re
from collections import Counter
from dataclasses import replace
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.checking import CheckContext, Hit
from pipeline.model import Candidate, Finding, Report, Severity, Side
from pipeline.rules.checks import run
from tests.unit.rules.lexicons import RULES

DAY = date(2026, 1, 15)
PIECES = ["左肺上叶", "右肺中叶", "左肺", "双侧胸腔", "左侧", "左肺中叶", "前列腺", "子宫", "膀胱", "肝囊肿", "见", "未见", "余肺未见"]
PIECES += ["结节", "实性结节", "磨玻璃结节", "毛玻璃", "积液", "胸水", "实变影", "肺癌", "肺炎", "，大小约8mm", "约12mm×8mm", "两枚", "多发", "三枚"]
PIECES += ["较前", "增强扫描后", "明显强化", "边界模糊", "术后", "可能", "综上所述，", "具有恶性潜能", "应引起重视", "建议增强扫描"]
PIECES += ["，", "。", "。", "；", "\n", "1.", "2.", "（", "“", "”", '{"', "６ｍｍ", " "]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=24).map("".join), st.text(max_size=30))
SIDES, LOBES = st.sampled_from(["左肺", "右肺"]), st.sampled_from(["上叶", "中叶", "下叶"])
KINDS, DENSITIES = st.sampled_from(["结节", "实变"]), st.sampled_from(["实性", "磨玻璃"])
FINDINGS = st.lists(st.builds(Finding, st.integers(1, 3), KINDS, SIDES, LOBES, DENSITIES, st.integers(3, 30)), max_size=4)
REPORTS = st.builds(Report, TEXTS, TEXTS, TEXTS, FINDINGS.map(tuple))
CONTEXTS = st.builds(
    CheckContext,
    study_date=st.just(DAY),
    candidates=st.just((Candidate(1, "结节", (60.0, 0.0, 0.0), Side.LEFT, "上叶", "实性", 8.0, 0.9),)),
    covers=st.sampled_from([(), ("肺",), ("肺", "纵隔", "心脏", "肝")]),
    contrast=st.sampled_from([None, False, True]),
    sex=st.sampled_from(["", "M", "F"]),
    has_prior=st.booleans(),
    effusion=st.sampled_from([None, (), (Side.LEFT,)]),
    structured=st.booleans(),
    department=st.sampled_from(["radiology", "oncology", "pulmonology", "other"]),
)
FACT = re.compile(r"[左右双]|[0-9０-９]+(?:\.[0-9]+)?(?=\s*(?:mm|ｍｍ|cm|×))|[两三]枚")


def facts(report: Report) -> Counter[str]:
    """Sides, sizes and counts of a text."""
    return Counter(fact for text in report.sections().values() for fact in FACT.findall(text))


@settings(max_examples=300, deadline=None)
@given(REPORTS, CONTEXTS)
def test_every_hit_points_at_its_text(report: Report, context: CheckContext) -> None:
    checked = run(report, RULES, context)
    for hit in checked.hits:
        text = checked.report.sections()[hit.section]
        assert 0 <= hit.start <= hit.end <= len(text)
        assert (hit.end == 0) == (hit.start == hit.end), hit
        assert hit.message
        assert hit.severity is not Severity.REPLACED or hit.original
        assert text[hit.start : hit.end].strip() or hit.end == 0


@settings(max_examples=200, deadline=None)
@given(REPORTS, CONTEXTS)
def test_the_same_report_is_answered_alike_and_the_answer_has_nothing_left_to_edit(report: Report, context: CheckContext) -> None:
    once = run(report, RULES, context)
    assert run(report, RULES, context) == once
    again = run(once.report, RULES, context)
    assert again.report == once.report
    assert [hit for hit in again.hits if hit.severity is Severity.REPLACED] == []


@settings(max_examples=300, deadline=None)
@given(REPORTS, CONTEXTS)
def test_no_rule_changes_a_number_or_a_side(report: Report, context: CheckContext) -> None:
    """A dropped sentence takes nothing with it that the rest does not say; without one every word that is a fact is still there as often."""
    checked = run(report, RULES, context)
    assert set(facts(checked.report)) == set(facts(report))
    assert checked.report.findings == report.findings
    if not any(hit.rule == "generality.dropped" for hit in checked.hits):
        assert facts(checked.report) == facts(report)


@settings(max_examples=150, deadline=None)
@given(REPORTS, CONTEXTS, st.integers(0, 1000))
def test_the_order_of_the_listed_lesions_changes_nothing_that_the_prose_is_held_against(report: Report, context: CheckContext, seed: int) -> None:
    shuffled = list(report.findings)
    random.Random(seed).shuffle(shuffled)
    assert unnumbered(run(report, RULES, context).hits) == unnumbered(run(replace(report, findings=tuple(shuffled)), RULES, context).hits)


def unnumbered(hits: tuple[Hit, ...]) -> list[Hit]:
    """Without those that name a lesion by its place in the list."""
    return [hit for hit in hits if hit.rule not in ("grounding.candidate", "growth.prior")]
