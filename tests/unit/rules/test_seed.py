"""The lexicon and dose rules in the package."""

from __future__ import annotations

import re

import pytest

from pipeline.errors import BadInput
from pipeline.rules.reading import read_lexicon, read_terms
from pipeline.rules.seed import seed_dose_rules, seed_reasons, seed_terms
from pipeline.rules.seed.dose import dose_rules
from pipeline.rules.terms import replaced
from tests.unit.rules.lexicons import LEXICON
from tests.unit.rules.reports import case

TERMS = seed_terms()


def test_ground_glass_has_its_standard_form() -> None:
    assert TERMS["毛玻璃"] == "磨玻璃"
    assert TERMS["左下肺后面那一块"] == "左肺下叶基底段"


def test_every_term_has_a_reason() -> None:
    assert set(seed_reasons()) == set(TERMS)
    assert all(seed_reasons().values())


@pytest.mark.parametrize(("forbidden", "standard"), TERMS.items())
def test_a_standard_term_is_final_and_changes_neither_side_nor_number(forbidden: str, standard: str) -> None:
    assert replaced(standard, LEXICON)[0] == standard
    assert replaced(forbidden, LEXICON)[0] == standard
    assert re.findall(r"[左右\d]", forbidden) == re.findall(r"[左右\d]", standard)


@pytest.mark.parametrize("text", ["分支扩张", "胸水平", "心脏影像学", "辅助骨扫描", "弥散性血管内凝血", "纵隔肌", "部分实性结节", "混合密度"])
def test_a_forbidden_form_inside_another_word_is_left_alone(text: str) -> None:
    assert replaced(text, LEXICON)[0] == text


def test_no_wording_of_the_corpus_is_touched() -> None:
    for seed in range(60):
        for text in case(seed).report.sections().values():
            assert replaced(text, LEXICON) == (text, ())


def test_the_dose_rule_is_that_of_the_source_article() -> None:
    (rule,) = seed_dose_rules()
    assert (rule.window_months, rule.threshold_msv) == (12, 50.0)
    assert rule.message == "【剂量预警】当前累积剂量已达阈值，建议多学科会诊"
    assert {"增强扫描", "增强CT", "CT复查"} <= set(rule.triggers)


@pytest.mark.parametrize("pair", [("左肺", "右肺"), ("左肺", "肺"), ("12", "13"), ("公分", "毫米"), ("未见", "见"), ("无积液", "积液"), ("mm", "cm")])
def test_a_replacement_that_changes_side_number_unit_or_denial_is_refused(pair: tuple[str, str]) -> None:
    text = f'[[term]]\nforbidden = "{pair[0]}"\nstandard = "{pair[1]}"\n'
    with pytest.raises(BadInput, match=r"line 1: .*would change"):
        read_terms(text, "site.toml")
    group = f'[[group]]\nkind = "finding"\nsource = "s"\nentries = [{{ term = "{pair[1]}", forbidden = ["{pair[0]}"] }}]\n'
    with pytest.raises(BadInput, match="would change"):
        read_lexicon(group, "site.toml")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"max_age_year": 18}, "'max_age_year' is no field"),
        ({"region": "knee"}, "no dose is of region 'knee'"),
        ({"min_age_years": 20, "max_age_years": 10}, "nobody is of such an age"),
        ({"triggers": ["…"]}, "wordings that ask for CT"),
        ({"id": "term.standard"}, "another rule"),
        ({"id": "dose.identity"}, "another rule"),
    ],
)
def test_a_dose_rule_that_would_never_fire_or_not_as_meant_is_refused(change: dict[str, object], told: str) -> None:
    rule = {"id": "own", "window_months": 12, "threshold_msv": 50.0, "message": "m", "triggers": ["增强扫描"]}
    assert dose_rules([rule], 1)[0].id == "own"
    with pytest.raises(BadInput, match=told):
        dose_rules([rule | change], 1)
