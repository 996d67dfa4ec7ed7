"""A word off the white list is written again as a listed term, and nothing else of the text changes."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.drafting.embedded import EmbeddedDrafter
from pipeline.drafting.fake import FakeGenerator
from pipeline.drafting.generator import WHOLE, Ask
from pipeline.drafting.prompt import section_prompt
from pipeline.drafting.schema import ADVICE, DESCRIPTION, IMPRESSION, SECTIONS, dumps, section_schema
from pipeline.drafting.sections import SectionDrafter
from pipeline.drafting.whitelist import TRIES, WhiteList, on_list, pattern_of
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.rules.seed import seed_ruleset
from pipeline.rules.terms import listed_terms, off_list
from tests.unit.drafting.test_sections import FEATURES, SEEDED

RULES = seed_ruleset()
ODD = "左肺上叶见晕环状怪影，大小约8mm。"  # 怪影 is no term
TERMS = ("结节", "磨玻璃影")
WORDS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=12)


def odd(text: str, indication: str = "") -> Sequence[tuple[int, int]]:
    return [(found.start(), found.end()) for found in re.finditer("怪.", text)]


WHITE = WhiteList(odd, TERMS)


def test_a_word_off_the_list_is_asked_for_again_with_all_else_as_it_stood() -> None:
    generator = FakeGenerator(texts=[None, dumps({DESCRIPTION: ODD}), dumps({DESCRIPTION: ODD.replace("怪影", "结节")})][1:])
    found = SectionDrafter(FakeGenerator()).find(FEATURES, "")
    answer = SectionDrafter(generator, white=lambda: WHITE).write(FEATURES, "", found, "radiology")
    first, again, *rest = generator.asked
    assert (again.section, again.prompt, again.max_tokens) == (first.section, first.prompt, first.max_tokens)
    pattern = json.loads(again.schema)["properties"][DESCRIPTION]["pattern"]
    assert [bool(re.fullmatch(pattern, ODD.replace("怪影", word))) for word in (*TERMS, "怪影", "实变")] == [True, True, False, False]
    assert [ask.section for ask in rest] == [IMPRESSION, ADVICE]
    assert json.loads(answer.text)["检查所见"][DESCRIPTION] == "左肺上叶见晕环状结节，大小约8mm。"


def test_both_tries_are_paid_for() -> None:
    texts = [dumps({DESCRIPTION: ODD}), dumps({DESCRIPTION: ODD}), dumps({DESCRIPTION: ODD.replace("怪影", "结节")})]
    made = SectionDrafter(FakeGenerator(texts=texts), white=lambda: WHITE)
    answer = made.write(FEATURES, "", SectionDrafter(FakeGenerator()).find(FEATURES, ""), "radiology")
    rest = sum(len(dumps({section: json.loads(answer.text)[section]})) for section in (IMPRESSION, ADVICE))
    assert answer.generation.tokens == sum(map(len, texts)) + rest


def test_after_the_last_try_the_text_stands_for_the_rules_to_flag() -> None:
    generator = FakeGenerator(texts=[dumps({DESCRIPTION: ODD})] * 9)
    ask = Ask(DESCRIPTION, "", section_schema(DESCRIPTION), 600)
    first = generator.generate(ask, FEATURES)
    made = on_list(WHITE, generator, ask, FEATURES, first, "", lambda one: True)
    assert (made.text, len(generator.asked)) == (first.text, 1 + TRIES)


def test_an_answer_that_is_not_valid_ends_the_tries_and_what_stood_stands() -> None:
    generator = FakeGenerator(texts=[dumps({DESCRIPTION: ODD}), "{"])
    ask = Ask(DESCRIPTION, "", section_schema(DESCRIPTION), 600)
    first = generator.generate(ask, FEATURES)
    made = on_list(WHITE, generator, ask, FEATURES, first, "", lambda one: one.text != "{")
    assert (made.text, len(generator.asked)) == (first.text, 2)


def test_listed_words_cost_nothing_more() -> None:
    generator = FakeGenerator()
    drafter = SectionDrafter(generator, white=lambda: WhiteList(lambda text, indication: off_list(text, RULES, indication), listed_terms(RULES)))
    drafter.draft(FEATURES, "", "radiology")
    assert [ask.section for ask in generator.asked] == list(SECTIONS)


@given(WORDS, WORDS, WORDS, st.sampled_from(TERMS))
def test_the_pattern_fits_the_text_with_a_term_in_each_place_and_nothing_else(head: str, middle: str, tail: str, term: str) -> None:
    text = f"{head}怪影{middle}怪影{tail}"
    places = [(len(head), len(head) + 2), (len(head) + 2 + len(middle), len(head) + 4 + len(middle))]
    pattern = pattern_of(text, places, TERMS)
    assert re.fullmatch(pattern, f"{head}{term}{middle}{term}{tail}")
    assert not re.fullmatch(pattern, text)
    assert not re.fullmatch(pattern, f"{head}{term}{middle}{term}{tail}x")


@pytest.mark.parametrize(
    ("text", "indication", "off"),
    [
        ("左肺上叶见晕环状怪影。", "", True),
        ("左肺上叶见实性结节。", "", False),
        ("双肺未见明显异常。", "", False),
        ("临床怀疑“卡氏怪病”，请结合临床。", "卡氏怪病", False),
    ],
)
def test_the_lexicon_says_which_words_look_like_a_finding_and_are_none(text: str, indication: str, off: bool) -> None:
    assert bool(off_list(text, RULES, indication)) is off


def test_there_are_enough_listed_terms_to_choose_from() -> None:
    assert len(listed_terms(RULES)) >= 100
    assert {"结节", "实变", "胸腔积液"} <= set(listed_terms(RULES))


def test_the_embedded_engine_writes_a_listed_term_in_the_words_place_at_every_draft_length(tmp_path: Path) -> None:
    write_seeded_checkpoint(tmp_path, feature_dim=8)
    engine = EmbeddedDrafter(tmp_path, None, 600)
    ask = Ask(DESCRIPTION, section_prompt(DESCRIPTION, "", 4, ["{}"]), section_schema(DESCRIPTION), 600)
    first = replace(engine.generate(replace(ask, max_tokens=16), SEEDED), text=dumps({DESCRIPTION: f"1.({ODD}) “x”"}), ended=True)
    made = {on_list(WHITE, engine, replace(ask, k=k), SEEDED, first, "", lambda one: one.ended).text for k in (None, 0, 4)}
    assert len(made) == 1
    assert json.loads(made.pop())[DESCRIPTION] in {f"1.({ODD.replace('怪影', term)}) “x”" for term in TERMS}


def test_a_whole_report_is_left_as_it_is() -> None:
    generator = FakeGenerator()
    SectionDrafter(generator, mode="whole", white=lambda: WHITE).find(FEATURES, "")
    assert [ask.section for ask in generator.asked] == [WHOLE]
