"""Non-standard term → standard term."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.checking import CheckContext, RuleSet
from pipeline.model import Report, Severity
from pipeline.rules.seed import seed_terms
from pipeline.rules.terms import replaced, standardise
from tests.unit.rules.lexicons import of_terms

TERMS = seed_terms()
LEXICON = of_terms(TERMS)
DAY = date(2026, 1, 15)
PIECES = [*TERMS, *TERMS.values(), "左肺", "12mm", "，", "。", "影", "毛", "玻璃", "胸", "水", "支", "扩"]


def outcome(text: str, indication: str = "", terms: dict[str, str] | None = None) -> tuple[Report, list[str]]:
    rules = RuleSet(1, TERMS if terms is None else terms)
    done = standardise(Report(text, text, text), rules, CheckContext(DAY, indication=indication))
    assert {hit.severity for hit in done.hits} <= {Severity.REPLACED}
    return done.report, [hit.original for hit in done.hits]


def test_a_term_is_replaced_in_every_section_and_the_original_kept() -> None:
    report, originals = outcome("左肺上叶见毛玻璃结节。")
    assert set(report.sections().values()) == {"左肺上叶见磨玻璃结节。"}
    assert originals == ["毛玻璃"] * 3


def test_offsets_point_at_the_standard_term_in_the_new_text() -> None:
    text = "少量胸水，纵膈居中，见毛玻璃影及支扩。"
    new, done = replaced(text, LEXICON)
    assert new == "少量胸腔积液，纵隔居中，见磨玻璃影及支气管扩张。"
    assert [new[r.span.start : r.span.end] for r in done] == ["胸腔积液", "纵隔", "磨玻璃", "支气管扩张"]
    assert [r.original for r in done] == ["胸水", "纵膈", "毛玻璃", "支扩"]


def test_the_longest_form_wins() -> None:
    assert replaced("混合毛玻璃结节", LEXICON)[0] == "部分实性结节"


@pytest.mark.parametrize(
    ("text", "indication"),
    [
        ("临床指征“毛玻璃结节”复查。", "毛玻璃结节复查"),
        ("申请单写：发现毛玻璃结节三年。", "发现毛玻璃结节三年"),
    ],
)
def test_a_quotation_of_the_indication_stays_as_it_was_written(text: str, indication: str) -> None:
    report, originals = outcome(text, indication)
    assert (report.findings_text, originals) == (text, [])


def test_the_same_word_outside_the_quotation_is_replaced() -> None:
    report, _ = outcome("因“毛玻璃结节”复查，现见毛玻璃结节。", "毛玻璃结节复查")
    assert report.findings_text == "因“毛玻璃结节”复查，现见磨玻璃结节。"


def test_quotation_marks_around_the_models_own_words_protect_nothing() -> None:
    assert outcome("见“毛玻璃”影。", "咳嗽")[0].findings_text == "见“磨玻璃”影。"


def test_chains_end_at_the_last_term_and_circles_change_nothing() -> None:
    assert replaced("甲乙", of_terms({"甲": "丙", "丙": "丁", "乙": "戊", "戊": "乙"}))[0] == "丁乙"


def test_a_form_that_a_replacement_completes_is_replaced_too() -> None:
    new, done = replaced("甲乙甲乙。", of_terms({"甲乙": "丙", "丙丙": "丁"}))
    assert new == "丁。"
    assert [new[r.span.start : r.span.end] for r in done] == ["丁"]


def test_an_empty_lexicon_changes_nothing() -> None:
    assert replaced("毛玻璃", of_terms({})) == ("毛玻璃", ())
    assert replaced("毛玻璃", of_terms({"": "空"})) == ("毛玻璃", ())


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_replacing_is_idempotent_and_its_offsets_are_true(text: str) -> None:
    new, done = replaced(text, LEXICON)
    assert replaced(new, LEXICON) == (new, ())
    assert all(new[r.span.start : r.span.end] in TERMS.values() for r in done)
    assert [c for c in new if c in "左右0123456789"] == [c for c in text if c in "左右0123456789"]
