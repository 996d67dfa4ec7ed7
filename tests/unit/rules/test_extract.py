"""Typed mentions: what belongs to which finding, offsets, scopes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.entry import Kind
from pipeline.rules.extract import read
from pipeline.rules.measures import MeasureKind
from pipeline.rules.spans import folded
from tests.unit.rules.lexicons import LEXICON, observed, section

PIECES = [
    "左肺上叶",
    "右肺",
    "下叶",
    "左侧",
    "胸腔",
    "结节",
    "实变",
    "积液",
    "未见",
    "无",
    "但",
    "见",
    "可见",
    "不除外",
    "可能",
    "考虑",
    "术后",
    "既往",
]
PIECES += [
    "8mm",
    "１２ｍｍ",
    "约3–5毫米",
    "两枚",
    "多发",
    "，",
    "。",
    "；",
    "、",
    "及",
    "或",
    "？",
    "边界清晰",
    "毛刺",
    "葡萄串影",
    "位于",
    "se3 im45",
    "CT",
    "ct",
]
TEXTS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=24).map("".join), st.text(max_size=40))


@settings(max_examples=300)
@given(TEXTS)
def test_every_offset_points_at_its_text(text: str) -> None:
    read_ = section(text)
    for mention in read_.mentions:
        assert folded(text[mention.start : mention.end]) in {
            folded(form) for form in LEXICON.entries[folded(text[mention.start : mention.end])].forms()
        }
        assert mention.clause.start <= mention.start < mention.end
        assert mention.sentence.start <= mention.clause.start <= mention.clause.end <= mention.sentence.end
        for detail in mention.details:
            assert detail in read_.mentions
        for measure in mention.measures:
            assert replace(measure, prior=False) in read_.measures
    for location in read_.locations:
        assert 0 <= location.start < location.end <= len(text)
    assert all(text[span.start : span.end].strip() for span in read_.unlisted)
    starts = [mention.start for mention in read_.mentions]
    assert starts == sorted(starts)


@given(TEXTS)
def test_what_is_hidden_at_the_beginning_is_not_read_and_moves_nothing(text: str) -> None:
    hidden = "左肺见结节8mm。"
    behind = read("建议", hidden + text, LEXICON, len(hidden))
    alone = read("建议", text, LEXICON)
    assert [(one.term, one.start - len(hidden), one.negated) for one in behind.mentions] == [
        (one.term, one.start, one.negated) for one in alone.mentions
    ]


def test_a_finding_has_its_place_sizes_and_description() -> None:
    (nodule,) = observed("左肺上叶尖后段见实性结节，大小约8mm×6mm，边界清晰，可见毛刺（se3 im45）。")
    assert (nodule.term, nodule.side, nodule.lobe, nodule.segment, nodule.organ) == ("实性结节", "左", "上叶", "尖后段", "肺")
    assert (nodule.largest_mm, nodule.sizes[0].values) == (8.0, (8.0, 6.0))
    assert [detail.term for detail in nodule.details] == ["边界清楚", "毛刺征"]
    assert nodule.has(Kind.MARGIN, "sharp")
    assert not nodule.has(Kind.MARGIN, "blurred")
    assert [one.values for one in nodule.measures if one.kind is MeasureKind.REFERENCE] == [(3.0, 45.0)]
    assert nodule.present


def test_each_finding_of_a_sentence_has_its_own() -> None:
    first, second = observed("左肺上叶见一8mm结节，右肺下叶见楔形实变影，范围约23mm，边界模糊。")
    assert (first.side, first.largest_mm, first.details) == ("左", 8.0, ())
    assert (second.side, second.largest_mm, [detail.term for detail in second.details]) == ("右", 23.0, ["楔形", "边界模糊"])


def test_a_sentence_without_a_finding_goes_on_about_the_one_before() -> None:
    nodule, lesion = observed("右肺见结节。大小约8mm，边界清晰。肝内见低密度影。")
    assert (nodule.largest_mm, nodule.has(Kind.MARGIN, "sharp"), lesion.largest_mm) == (8.0, True, None)


def test_a_description_of_another_place_is_not_the_findings() -> None:
    (nodule,) = observed("右肺见结节，肝脏密度均匀。")
    assert nodule.details == ()


@pytest.mark.parametrize(
    ("text", "count"), [("双肺见两枚结节。", 2), ("双肺多发结节。", 0), ("右肺见结节。", None), ("肿大淋巴结3枚。", 3), ("见单发结节。", 1)]
)
def test_counts(text: str, count: int | None) -> None:
    (found,) = observed(text)
    assert found.count == count


def test_a_general_finding_is_named_as_in_its_organ() -> None:
    assert [mention.term for mention in observed("左侧胸腔见积液。肝内见囊肿。右肾结石。心包见积液。右肺癌。")] == [
        "胸腔积液",
        "肝囊肿",
        "肾结石",
        "心包积液",
        "肺癌",
    ]


def test_two_places_of_one_finding_are_both_kept() -> None:
    (nodule,) = observed("左肺上叶及右肺下叶见结节。")
    assert [(place.side, place.lobe) for place in nodule.locations] == [("左", "上叶"), ("右", "下叶")]
    assert (nodule.side, nodule.lobe) == ("双", "")


def test_full_width_and_lower_case_are_read_alike() -> None:
    assert [m.term for m in section("增强ｃｔ，ct，ＣＴ").mentions] == ["增强CT", "CT", "CT"]


def test_recommendations_procedures_and_contrast_are_mentions_too() -> None:
    kinds = {mention.kind for mention in section("建议增强扫描，动脉期扫描见明显强化。").mentions}
    assert {Kind.RECOMMENDATION, Kind.PROCEDURE, Kind.PHASE, Kind.ENHANCEMENT} <= kinds


def test_places_that_may_be_the_same() -> None:
    left, right, both, lung = (observed(f"{place}结节。")[0].locations[0] for place in ("左肺上叶", "右肺上叶", "双肺", "左肺"))
    assert left.overlaps(lung)
    assert left.overlaps(both)
    assert not left.overlaps(right)


def test_a_size_of_an_earlier_examination_is_not_todays() -> None:
    (nodule,) = observed("右肺上叶结节较前稍增大，现约12mm（原约10mm）。")
    assert ([one.values for one in nodule.sizes], [one.values for one in nodule.prior_sizes]) == ([(12.0,)], [(10.0,)])


def test_a_part_named_behind_a_segment_keeps_lobe_and_segment() -> None:
    (nodule,) = observed("左肺下叶后基底段胸膜下见结节。")
    assert (nodule.side, nodule.lobe, nodule.segment, nodule.locations[0].term) == ("左", "下叶", "后基底段", "胸膜下")


def test_bronchi_and_arteries_lie_in_lobes_as_the_lung_does() -> None:
    (narrow,) = observed("左肺上叶舌段支气管狭窄。")
    assert (narrow.term, narrow.side, narrow.lobe, narrow.segment) == ("支气管狭窄", "左", "上叶", "舌段")


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("左侧肺气肿。", "肺气肿"),
        ("双肺气肿。", "肺气肿"),
        ("左侧肺炎。", "肺炎"),
        ("右肺挫伤。", "肺挫伤"),
        ("右肺结节。", "结节"),
    ],
)
def test_a_disease_whose_name_begins_with_the_lung_is_read_behind_a_side_of_it(text: str, term: str) -> None:
    (one,) = observed(text)
    assert (one.term, one.organ, bool(one.side)) == (term, "肺", True)


@pytest.mark.parametrize(
    ("text", "negated"),
    [
        ("肺动脉未见异常充盈缺损。", True),
        ("术区未见异常软组织影。", True),
        ("腹腔未见异常积气、积液。", True),
        ("胸腔积液（-）。", True),
        ("气胸：无。", True),
        ("气胸未见征象。", True),
        ("右肺结节未见脂肪密度。", False),
        ("右肺结节未见明确脂质成分。", False),
    ],
)
def test_what_is_denied_is_the_finding_and_not_what_it_lacks(text: str, negated: bool) -> None:
    assert {one.negated for one in observed(text)} == {negated}
