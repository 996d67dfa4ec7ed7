"""The registry: order, offsets, determinism, speed."""

from __future__ import annotations

import time
from datetime import date
from statistics import median

from hypothesis import given
from hypothesis import strategies as st

from pipeline.checking import CheckContext, RuleSet
from pipeline.irradiation import DoseEvent
from pipeline.model import Candidate, Finding, Report, Severity, Side
from pipeline.rules.checks import CHECKS, EDITS, run
from pipeline.rules.seed import seed_dose_rules, seed_lexicon, seed_terms

RULES = RuleSet(7, seed_terms(), seed_dose_rules(), seed_lexicon())
STANDARD = {*RULES.terms.values(), *(entry.term for entry in RULES.lexicon)}
DAY = date(2026, 1, 15)
HIGH = CheckContext(DAY, (DoseEvent("a", date(2025, 6, 1), "chest", 100.0, 60.0),), 1)
PIECES = ["毛玻璃", "胸水", "左肺上叶", "右肺", "建议增强扫描", "强化扫描", "不建议", "CT复查", "，", "。", "12mm", "未见", "“", "”", " "]
PIECES += ["右下肺后面那一块", "两侧第3助骨", "左上肺叶", "混合毛玻璃结节", "葡萄串影", "8×6mm", "３–５毫米", "但", "不除外"]
KEPT = "左右0123456789０３５"  # no rule changes a number or a side
TEXTS = st.lists(st.sampled_from(PIECES), max_size=10).map("".join)


def test_ids_are_unique() -> None:
    ids = [rule.id for rule in (*EDITS, *CHECKS)]
    assert len(set(ids)) == len(ids)


def test_a_clean_report_has_no_hit_and_stays_the_same() -> None:
    report = Report("左肺上叶见实性结节，大小约8mm。", "左肺上叶实性结节。", "建议年度体检随访。", (Finding(1, "结节", "左肺", "上叶", "实性", 8),))
    candidate = Candidate(1, "结节", (60.0, 0.0, 0.0), Side.LEFT, "上叶", "实性", 8.0, 0.9)
    checked = run(report, RULES, CheckContext(DAY, candidates=(candidate,)))
    assert (checked.report, checked.hits, checked.rules_version) == (report, (), 7)


def test_an_empty_section_blocks() -> None:
    hits = run(Report("见结节。", " 。", "建议随访。"), RULES, CheckContext(DAY)).hits
    assert [(hit.rule, hit.severity, hit.section) for hit in hits] == [("section.empty", Severity.BLOCK, "诊断意见")]


def test_replacements_in_the_advice_move_behind_an_inserted_warning() -> None:
    checked = run(Report("见结节。", "结节。", "胸水，建议强化扫描。"), RULES, HIGH)
    advice = checked.report.advice
    assert advice.startswith("【剂量预警】")
    assert advice.endswith("胸腔积液，建议增强扫描。")
    spans = [advice[hit.start : hit.end] for hit in checked.hits if hit.rule == "term.standard"]
    assert spans == ["胸腔积液", "增强扫描"]


@given(TEXTS, TEXTS, TEXTS)
def test_any_report_is_checked_alike_every_time_and_a_second_run_changes_nothing(findings: str, impression: str, advice: str) -> None:
    report = Report(findings, impression, advice)
    once = run(report, RULES, HIGH)
    assert run(report, RULES, HIGH) == once
    assert run(once.report, RULES, HIGH).report == once.report
    for before, after in ((findings, once.report.findings_text), (impression, once.report.impression)):
        assert [c for c in before if c in KEPT] == [c for c in after if c in KEPT]
    for hit in once.hits:
        text = once.report.sections()[hit.section]
        assert 0 <= hit.start <= hit.end <= len(text)
        assert hit.severity is not Severity.REPLACED or text[hit.start : hit.end] in STANDARD


def test_a_long_report_under_two_thousand_terms_takes_little_time() -> None:
    terms = {f"甲{n:04d}乙": "丙" for n in range(2000)} | dict(RULES.terms)
    rules = RuleSet(1, terms, RULES.dose, RULES.lexicon)
    long = Report("左肺上叶见毛玻璃结节，大小约12mm。" * 16, "左肺上叶毛玻璃结节。" * 6, "建议3个月后复查胸部CT。" * 4)
    run(long, rules, HIGH)
    seconds = []
    for _ in range(21):
        began = time.perf_counter()
        run(long, rules, HIGH)
        seconds.append(time.perf_counter() - began)
    assert median(seconds) < 0.02  # the promise is 2 ms; ten times that is allowed on a busy machine
