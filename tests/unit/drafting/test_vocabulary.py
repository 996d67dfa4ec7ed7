import json

import jsonschema
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.checking import RuleSet
from pipeline.drafting.fake import report_of
from pipeline.drafting.schema import SECTIONS, dumps, schema_text, section_schema
from pipeline.drafting.schemas import Schemas, packaged, schemas_of
from pipeline.drafting.vocabulary import MEASURED, PACKAGED, SLOTS, TAG, sizes, vocabulary
from pipeline.entry import Entry, Kind
from pipeline.errors import BadDraft, BadInput
from pipeline.model import Features
from pipeline.rules.seed import seed_lexicon
from tests.builders import candidate

FEATURES = Features(np.zeros((1, 4), np.float32), "e", "1", "p", candidates=(candidate(),))


def entry(term: str, *tags: str, synonyms: tuple[str, ...] = ()) -> Entry:
    return Entry(term, Kind.MARGIN, "test", synonyms, tags=tags)


def test_the_seeded_lexicon_gives_byte_for_byte_what_models_are_trained_with() -> None:
    found = schemas_of(RuleSet(1, {}, lexicon=seed_lexicon()))
    assert found.words == PACKAGED
    assert found.texts() == (schema_text(), *(section_schema(section) for section in SECTIONS)) == packaged().texts()


def test_every_word_of_the_schema_is_tagged_in_the_seeded_lexicon() -> None:
    tagged = {tag.split(":")[1] for one in seed_lexicon() for tag in one.tags if tag.startswith(TAG)}
    assert tagged == set(SLOTS)


def test_a_rule_set_is_compiled_once_and_every_call_gets_the_same_strings() -> None:
    rules = RuleSet(7, {}, lexicon=seed_lexicon())
    assert schemas_of(rules) is schemas_of(rules)
    assert schemas_of(rules).version == 7
    assert all(one is other for one, other in zip(schemas_of(rules).texts(), schemas_of(rules).texts(), strict=True))


def test_a_hospital_adds_a_word_and_takes_another_away() -> None:
    words = vocabulary((entry("边缘光滑", "schema:边缘:1:光滑"), entry("边缘毛糙", "schema:边缘:2:毛糙", synonyms=("毛糙",))))
    assert words.margins == ("光滑", "毛糙")
    assert words.densities == PACKAGED.densities
    assert '"enum": ["光滑", "毛糙"]' in Schemas(2, words).section("检查所见")


def test_what_may_be_nothing_always_can() -> None:
    assert vocabulary((entry("晕征", "schema:周围改变:1"),)).surrounds == ("无", "晕征")


def test_the_answer_is_read_with_the_words_that_it_was_asked_with() -> None:
    text = dumps(report_of(FEATURES)).replace("光滑", "硬化")
    wider = Schemas(2, vocabulary((entry("光滑", "schema:边缘:1"), entry("硬化", "schema:边缘:2"))))
    assert "硬化" in text
    assert any(finding.margin == "硬化" for finding in wider.parse(text).findings)
    with pytest.raises(BadDraft, match="边缘"):
        packaged().parse(text)
    findings = json.dumps({key: value for key, value in json.loads(text)["检查所见"].items() if key != "描述"}, ensure_ascii=False)
    assert wider.parse_section("检查所见", findings)["病灶"]
    with pytest.raises(BadDraft):
        packaged().parse_section("检查所见", findings)


@pytest.mark.parametrize(
    ("tags", "reason"),
    [
        (("schema:颜色:1",), "SLOT one of"),
        (("schema:边缘",), "schema:SLOT:PLACE"),
        (("schema:边缘:x",), "schema:SLOT:PLACE"),
        (("schema:边缘:1:别的",), "no form of"),
        (("schema:类型:3",), "compared with the images"),
    ],
)
def test_a_tag_that_cannot_be_meant_is_refused(tags: tuple[str, ...], reason: str) -> None:
    with pytest.raises(BadInput, match=reason):
        vocabulary((entry("硬化", *tags),))


def test_two_words_at_one_place_and_words_that_break_json_are_refused() -> None:
    with pytest.raises(BadInput, match="a place of its own"):
        vocabulary((entry("甲", "schema:边缘:1"), entry("乙", "schema:边缘:1")))
    with pytest.raises(BadInput, match="quotation mark"):
        vocabulary((entry('甲"', "schema:边缘:1"),))


@given(st.lists(st.sampled_from(seed_lexicon()), unique=True, max_size=60))
def test_any_part_of_the_lexicon_makes_valid_schemas_whose_measured_words_are_known(entries: list[Entry]) -> None:
    found = Schemas(1, vocabulary(entries))
    for text in found.texts():
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
    assert all(set(getattr(found.words, slot)) <= set(getattr(PACKAGED, slot)) for slot in MEASURED)
    assert all(sizes(found.words).values())
