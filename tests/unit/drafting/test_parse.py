"""Answers of a drafter: every valid one is a report, every other one is BadDraft without a word of its text."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.drafting.parse import MAX_CHARACTERS, SPREAD_KINDS, parse, parse_section, put_together
from pipeline.drafting.schema import (
    DENSITIES,
    INTERNALS,
    KINDS,
    LIVER_KINDS,
    LOBES,
    LUNGS,
    MARGINS,
    MAX_CANDIDATES,
    MAX_LESIONS,
    MAX_LIVER,
    MAX_NODES,
    MAX_SIZE_MM,
    SECTIONS,
    SPREADS,
    SURROUNDS,
    dumps,
    report_schema,
)
from pipeline.errors import BadDraft

SECRET = "张小东"
KEYS = ("候选", "类型", "侧别", "肺叶", "密度", "大小mm", "边缘", "内部结构", "周围改变")
CANDIDATES, SIZES = st.integers(1, MAX_CANDIDATES), st.integers(1, MAX_SIZE_MM)


def words(limit: int) -> st.SearchStrategy[str]:
    return st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=limit)


LESION = st.fixed_dictionaries(
    {
        "候选": CANDIDATES,
        "类型": st.sampled_from(KINDS),
        "侧别": st.sampled_from(LUNGS),
        "肺叶": st.sampled_from(LOBES),
        "密度": st.sampled_from(DENSITIES),
        "大小mm": SIZES,
        "边缘": st.sampled_from(MARGINS),
        "内部结构": st.sampled_from(INTERNALS),
        "周围改变": st.sampled_from(SURROUNDS),
    }
)
NODE = st.fixed_dictionaries({"候选": CANDIDATES, "部位": st.just("纵隔"), "短径mm": SIZES})
LIVER = st.fixed_dictionaries({"候选": CANDIDATES, "类型": st.sampled_from(LIVER_KINDS), "大小mm": SIZES})
FINDINGS = st.fixed_dictionaries(
    {
        "病灶": st.lists(LESION, max_size=MAX_LESIONS),
        "淋巴结": st.lists(NODE, max_size=MAX_NODES),
        "肝脏": st.lists(LIVER, max_size=MAX_LIVER),
        **{kind: st.sampled_from(SPREADS) for kind in SPREAD_KINDS},
        "描述": words(800),
    }
)
REPORTS = st.fixed_dictionaries({"检查所见": FINDINGS, "诊断意见": words(400), "建议": words(200)})

VALIDATOR = jsonschema.Draft202012Validator(report_schema())
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
OTHER = st.recursive(SCALARS, lambda part: st.lists(part) | st.dictionaries(st.text(), part), max_leaves=8)


def valid(**lesion: object) -> dict[str, Any]:
    place = {"候选": 1, "类型": "结节", "侧别": "右肺", "肺叶": "上叶", "密度": "实性", "大小mm": 8}
    one = place | {"边缘": "光滑", "内部结构": "均匀", "周围改变": "无"} | lesion
    nothing = {"淋巴结": [], "肝脏": [], "胸腔积液": "无", "肺气肿": "无", "纤维化": "无"}
    return {"检查所见": {"病灶": [one], **nothing, "描述": SECRET}, "诊断意见": SECRET, "建议": SECRET}


def refused(text: str) -> str:
    with pytest.raises(BadDraft) as caught:
        parse(text)
    assert SECRET not in str(caught.value)
    assert "ctreport retry" in str(caught.value)
    return str(caught.value)


@settings(deadline=None, max_examples=40)
@given(REPORTS)
def test_every_report_that_fits_the_schema_is_parsed_whole(value: dict[str, Any]) -> None:
    VALIDATOR.validate(value)
    report = parse(dumps(value))
    assert report.sections() == {"检查所见": value["检查所见"]["描述"], "诊断意见": value["诊断意见"], "建议": value["建议"]}
    seen = value["检查所见"]
    lesions = report.findings[: len(seen["病灶"])]
    read = [(f.candidate, f.kind, f.side, f.lobe, f.density, f.size_mm, f.margin, f.internal, f.surround) for f in lesions]
    assert read == [tuple(lesion[key] for key in KEYS) for lesion in seen["病灶"]]
    behind = [(f.candidate, f.kind, f.side, f.size_mm) for f in report.findings[len(lesions) :]]
    nodes = [(one["候选"], "淋巴结", "纵隔", one["短径mm"]) for one in seen["淋巴结"]]
    liver = [(one["候选"], f"肝{one['类型']}", "肝脏", one["大小mm"]) for one in seen["肝脏"]]
    assert behind == [*nodes, *liver, *((None, kind, seen[kind], None) for kind in SPREAD_KINDS if seen[kind] != "无")]


@settings(deadline=None, max_examples=40)
@given(REPORTS)
def test_a_report_written_in_sections_is_the_same_report(value: dict[str, Any]) -> None:
    seen = {name: part for name, part in value["检查所见"].items() if name != "描述"}
    parts = (seen, {"描述": value["检查所见"]["描述"]}, {"诊断意见": value["诊断意见"]}, {"建议": value["建议"]})
    answers = [parse_section(section, dumps(part)) for section, part in zip(SECTIONS, parts, strict=True)]
    assert json.loads(put_together(answers)) == value


@pytest.mark.parametrize(("section", "text"), [("描述", "{}"), ("描述", '{"描述": ""}'), ("建议", '{"描述": "x"}'), ("检查所见", dumps(valid()))])
def test_a_section_that_is_another_ones_or_nothing_is_refused(section: str, text: str) -> None:
    with pytest.raises(BadDraft, match="does not fit the report schema"):
        parse_section(section, text)


@settings(deadline=None, max_examples=40)
@given(REPORTS, st.data())
def test_an_answer_that_was_cut_is_refused_and_told_apart(value: dict[str, Any], data: st.DataObject) -> None:
    text = dumps(value)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(BadDraft, match=r"is cut|is not JSON"):
        parse(cut)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda part: st.lists(part) | st.dictionaries(st.text(), part),
        max_leaves=8,
    )
)
def test_any_other_json_is_refused(value: object) -> None:
    with pytest.raises(BadDraft):
        parse(json.dumps(value))


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(BadDraft):
        parse(text)


def test_effusion_becomes_a_finding_without_a_candidate() -> None:
    value = valid()
    value["检查所见"]["胸腔积液"] = "双侧"
    effusion = parse(dumps(value)).findings[-1]
    assert (effusion.kind, effusion.side, effusion.candidate, effusion.size_mm) == ("胸腔积液", "双侧", None, None)


@pytest.mark.parametrize(
    ("lesion", "told"),
    [
        ({"类型": SECRET}, "病灶[0].类型 must be one of 结节, 实变"),
        ({"类型": ["结节"]}, "病灶[0].类型 must be one of"),
        ({"大小mm": 0}, "病灶[0].大小mm must be a whole number from 1 to 140"),
        ({"大小mm": 8.5}, "大小mm must be a whole number"),
        ({"大小mm": True}, "大小mm must be a whole number"),
        ({"大小mm": "8"}, "大小mm must be a whole number"),
        ({"候选": 9}, "候选 must be a whole number from 1 to 8"),
        ({SECRET: 1}, "病灶[0] has 1 unknown keys"),
    ],
)
def test_the_message_names_the_place_and_what_belongs_there(lesion: dict[str, object], told: str) -> None:
    assert told in refused(dumps(valid(**lesion)))


def test_a_missing_section_is_named() -> None:
    value = valid()
    del value["建议"]
    assert "report.建议 is missing" in refused(dumps(value))


@pytest.mark.parametrize(("text", "told"), [("", "0 characters"), ("长" * 201, "201 characters"), ("甲\u0000", "control"), ("\ud800", "surrogate")])
def test_text_that_no_database_can_hold_or_that_is_too_long_is_refused(text: str, told: str) -> None:
    assert told in refused(json.dumps(valid() | {"建议": text}))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (dumps(valid()).replace(": 8,", ": NaN,"), "NaN or Infinity"),
        (dumps(valid()).replace(": 8,", ": 1e999,"), "whole number"),
        (dumps(valid()).replace(": 8,", ": " + "9" * 5000 + ","), "too long"),
        (dumps(valid()).replace('"建议"', '"诊断意见"'), "1 keys twice"),
        (dumps(valid()) + " " + SECRET, "is not JSON"),
        ("[" * 10_000, "too long|is cut"),
        (" " * (MAX_CHARACTERS + 1), "at most"),
        ("null", "report must be an object"),
    ],
)
def test_json_that_is_no_report_is_refused(text: str, told: str) -> None:
    message = refused(text)
    assert any(part in message for part in told.split("|"))


def test_seven_lesions_are_refused() -> None:
    value = valid()
    value["检查所见"]["病灶"] *= 7
    assert "病灶 has 7 items, at most 6" in refused(dumps(value))
