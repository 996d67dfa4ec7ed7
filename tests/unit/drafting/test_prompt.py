"""Prompts: one text for a whole report, and one text that goes on from section to section."""

from __future__ import annotations

import json
from itertools import pairwise

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.drafting.departments import NAMES
from pipeline.drafting.prompt import MAX_INDICATION, NOT_GIVEN, PLACEHOLDER, SECTIONS, clean_indication, render, section_prompt
from pipeline.drafting.schema import ADVICE, DESCRIPTION, FINDINGS, IMPRESSION, answer_schema, report_schema, schema_text, section_schema
from pipeline.errors import NotAllowed


def test_a_whole_report_has_one_place_per_feature_and_its_department() -> None:
    prompt = render("咳嗽", 3, "oncology")
    assert prompt == f"[CT影像特征]{PLACEHOLDER * 3}[临床指征]咳嗽[科室]肿瘤科[检查所见][诊断意见][建议]"
    assert render("", 1) == f"[CT影像特征]{PLACEHOLDER}[临床指征]{NOT_GIVEN}[科室]放射科[检查所见][诊断意见][建议]"


def test_each_section_goes_on_where_the_one_before_ended() -> None:
    answers = ('{"病灶": []}', '{"描述": "甲"}', '{"诊断意见": "乙"}')
    prompts = [section_prompt(name, "胸痛", 2, answers[:number], "pulmonology") for number, name in enumerate(SECTIONS)]
    assert prompts[0] == f"[CT影像特征]{PLACEHOLDER * 2}[临床指征]胸痛[检查所见]"
    assert [after.startswith(before) for before, after in pairwise(prompts)] == [True] * 3
    assert prompts[-1].endswith('[检查所见]{"病灶": []}[科室]呼吸科[描述]{"描述": "甲"}[诊断意见]{"诊断意见": "乙"}[建议]')


def test_the_findings_are_asked_for_without_a_department() -> None:
    assert len({section_prompt(FINDINGS, "x", 2, department=name) for name in NAMES}) == 1
    assert len({section_prompt(DESCRIPTION, "x", 2, ["{}"], name) for name in NAMES}) == len(NAMES)


def test_a_section_without_the_answers_before_it_is_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        section_prompt(ADVICE, "x", 2, ["{}"])


def test_an_unknown_department_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(NotAllowed, match="radiology, oncology, pulmonology"):
        render("x", 2, "dermatology")


@given(st.text())
def test_no_indication_can_forge_a_mark_or_a_place(text: str) -> None:
    cleaned = clean_indication(text)
    assert 1 <= len(cleaned) <= MAX_INDICATION
    assert not set("<>[]{}") & set(cleaned)
    assert render(text, 2).count(PLACEHOLDER) == 2


def test_schemas_are_the_same_bytes_every_time_and_valid() -> None:
    for text in (schema_text(), *(section_schema(name) for name in SECTIONS)):
        jsonschema.Draft202012Validator.check_schema(json.loads(text))
    assert json.loads(schema_text()) == report_schema()
    assert section_schema(IMPRESSION) is section_schema(IMPRESSION)


def test_the_sections_schemas_are_the_whole_reports_parts() -> None:
    whole = report_schema()["properties"]
    described = whole[FINDINGS]["properties"]
    assert answer_schema(FINDINGS)["properties"] == {name: part for name, part in described.items() if name != DESCRIPTION}
    assert answer_schema(DESCRIPTION)["properties"] == {DESCRIPTION: described[DESCRIPTION]}
    assert all(answer_schema(name)["properties"] == {name: whole[name]} for name in (IMPRESSION, ADVICE))
