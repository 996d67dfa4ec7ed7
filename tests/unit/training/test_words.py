"""The packaged vocabulary: terms, numbers and pieces of the JSON are single tokens, and every text comes back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.drafting.departments import NAMES
from pipeline.drafting.prompt import SECTIONS, render, section_prompt
from pipeline.drafting.schema import dumps
from pipeline.training.corpus import answers, report
from pipeline.training.reasons import INDICATIONS, Reason, spoken
from pipeline.training.scene import scene
from pipeline.training.words import SKELETON, VALUES, make_tokenizer, marks, terms, words
from tests.unit.training.fake_views import candidates_of, random_truth

TOKENIZER = make_tokenizer()
FIRST_WORD = 4 + 256  # special tokens and bytes come before
PUNCTUATION = "，。、；：？！（）「」《》“”‘’【】…—～·％＋－±×℃①"


@pytest.mark.parametrize("word", [*SKELETON, *VALUES, *marks(), *terms(), *(str(number) for number in range(1, 141))])
def test_it_is_one_token(word: str) -> None:
    assert len(TOKENIZER.encode(word)) == 1


def test_the_terms_of_the_issue_are_listed_and_the_vocabulary_is_small() -> None:
    assert {"磨玻璃影", "分叶征", "毛刺征", "胸膜凹陷", "胸膜牵拉"} <= set(terms())
    assert len(terms()) >= 250
    assert TOKENIZER.size <= 2_000


def test_no_term_swallows_the_value_of_a_field() -> None:
    """A value that is said again in the text is the same token there: it can be copied."""
    values = ("右肺", "左肺", "上叶", "中叶", "下叶", "磨玻璃", "部分实性")
    text = "右肺上叶见部分实性结节，左肺下叶见磨玻璃结节，右肺中叶见实性结节。"
    pieces = [TOKENIZER.decode([token]) for token in TOKENIZER.encode(text)]
    assert [piece for piece in pieces if piece in values] == ["右肺", "上叶", "部分实性", "左肺", "下叶", "磨玻璃", "右肺", "中叶"]


@pytest.mark.parametrize("department", NAMES)
def test_reports_need_no_bytes_but_digits(department: str) -> None:
    for seed in range(40):
        seen = scene(candidates_of(random_truth(seed)), random_truth(seed), list(Reason)[seed % len(Reason)])
        for text in (dumps(report(seen, department)), *answers(seen, department)):
            ids = TOKENIZER.encode(text)
            assert TOKENIZER.decode(ids) == text
            assert {TOKENIZER.decode([token]) for token in ids if token < FIRST_WORD} <= set("0123456789")


def test_indications_need_no_bytes_but_spaces_and_digits() -> None:
    for text in (spoken(text) for texts in INDICATIONS.values() for text in texts):
        assert all(TOKENIZER.decode([token]) in " 0123456789" for token in TOKENIZER.encode(text) if token < FIRST_WORD), text


def test_a_prompt_in_sections_has_the_tokens_of_its_parts() -> None:
    """No token runs over the border of an answer: what was generated is read again as it was written."""
    seen = scene(candidates_of(random_truth(7)), random_truth(7))
    written = answers(seen, "oncology")
    whole = section_prompt(SECTIONS[3], "胸痛", 5, written[:3], "oncology")
    parts = re.split("(" + "|".join(map(re.escape, written[:3])) + ")", whole)
    assert TOKENIZER.encode(whole) == [token for part in parts for token in TOKENIZER.encode(part)]


def test_a_prompt_is_short() -> None:
    assert len(TOKENIZER.encode(render("未提供", 26))) == 26 + 4


@settings(deadline=None)
@given(st.text(st.sampled_from(PUNCTUATION + "肺结节mm12 \n") | st.characters(exclude_categories=["Cs"]), max_size=60))
def test_chinese_punctuation_and_any_other_text_round_trip(text: str) -> None:
    if not any(token in text for token in ("<pad>", "<bos>", "<eos>", "<ct>")):
        assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_every_word_is_there_once() -> None:
    assert len(set(words())) == len(words())
