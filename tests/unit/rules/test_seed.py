"""The lexicon and dose rules in the package."""

from __future__ import annotations

import re

import pytest

from pipeline.rules.seed import seed_dose_rules, seed_reasons, seed_terms
from pipeline.rules.terms import replaced
from pipeline.training import phrases

TERMS = seed_terms()


def test_ground_glass_has_its_standard_form() -> None:
    assert TERMS["毛玻璃"] == "磨玻璃"
    assert TERMS["左下肺后面那一块"] == "左肺下叶基底段"


def test_every_term_has_a_reason() -> None:
    assert set(seed_reasons()) == set(TERMS)
    assert all(seed_reasons().values())


@pytest.mark.parametrize(("forbidden", "standard"), TERMS.items())
def test_a_standard_term_is_final_and_changes_neither_side_nor_number(forbidden: str, standard: str) -> None:
    assert replaced(standard, TERMS)[0] == standard
    assert replaced(forbidden, TERMS)[0] == standard
    assert re.findall(r"[左右\d]", forbidden) == re.findall(r"[左右\d]", standard)


@pytest.mark.parametrize("text", ["分支扩张", "胸水平", "心脏影像学", "辅助骨扫描", "弥散性血管内凝血", "纵隔肌", "部分实性结节", "混合密度"])
def test_a_forbidden_form_inside_another_word_is_left_alone(text: str) -> None:
    assert replaced(text, TERMS)[0] == text


def test_no_wording_of_the_corpus_is_touched() -> None:
    for word in ["".join(phrases.words()), *("".join(advice.split()) for advice in phrases.ADVICE)]:
        assert replaced(word, TERMS) == (word, ())


def test_the_dose_rule_is_that_of_the_source_article() -> None:
    (rule,) = seed_dose_rules()
    assert (rule.window_months, rule.threshold_msv) == (12, 50.0)
    assert rule.message == "【剂量预警】当前累积剂量已达阈值，建议多学科会诊"
    assert {"增强扫描", "增强CT", "CT复查"} <= set(rule.triggers)
