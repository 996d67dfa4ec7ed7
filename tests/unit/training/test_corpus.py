"""Reports of the corpus follow the truth, obey the schema and name no lesion that the encoder did not propose."""

from __future__ import annotations

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import DENSITIES, dumps, report_schema
from pipeline.engine.tokenizer import TextTokenizer, build
from pipeline.model import Candidate, Side
from pipeline.training.corpus import Said, match, pair, urgency_of
from pipeline.training.phantom import LOBES, Lesion, Truth
from pipeline.training.phrases import SKELETON, words

TOKENIZER = TextTokenizer(build(words()))


@st.composite
def lesions(draw: st.DrawFn) -> Lesion:
    kind = draw(st.sampled_from(["结节", "实变"]))
    side = draw(st.sampled_from(list(Side)))
    density = "实性" if kind == "实变" else draw(st.sampled_from(DENSITIES))
    center = tuple(draw(st.tuples(*[st.floats(-150, 150)] * 3)))
    return Lesion(kind, side, draw(st.sampled_from(LOBES[side])), density, draw(st.floats(1, 140)), center)


def truth(*found: Lesion, effusion: frozenset[Side] = frozenset(), low_dose: bool = False) -> Truth:
    return Truth(found, effusion, low_dose, 0, 120.0, 30.0 if low_dose else 200.0, "B30f")


def candidate(index: int, lesion: Lesion, shift_mm: float = 0.0, size_mm: float | None = None) -> Candidate:
    x, y, z = lesion.center_mm
    place = (x + shift_mm, y, z)
    return Candidate(index, lesion.kind, place, lesion.side, lesion.lobe, lesion.density, size_mm or lesion.size_mm, 0.9)


NODULE = Lesion("结节", Side.RIGHT, "上叶", "部分实性", 12.2, (-60.0, 0.0, 40.0))


@given(st.lists(lesions(), max_size=6), st.frozensets(st.sampled_from(list(Side))), st.booleans())
def test_every_report_is_valid_and_round_trips_through_the_tokenizer(found: list[Lesion], effusion: frozenset[Side], low_dose: bool) -> None:
    proposals = [candidate(index, lesion) for index, lesion in enumerate(found, 1)]
    report = pair(proposals, truth(*found, effusion=effusion, low_dose=low_dose))
    jsonschema.validate(report, report_schema())
    ids = TOKENIZER.encode(dumps(report))
    assert TOKENIZER.decode(ids) == dumps(report)
    assert 40 <= len(ids) <= 300


def test_a_lesion_that_was_not_proposed_is_left_out() -> None:
    other = Lesion("结节", Side.LEFT, "下叶", "实性", 8.0, (60.0, 0.0, -40.0))
    report = pair([candidate(1, NODULE)], truth(other, NODULE))
    assert [item["候选"] for item in report["检查所见"]["病灶"]] == [1]
    assert "左肺" not in dumps(report)


def test_a_proposal_without_a_lesion_is_not_written() -> None:
    report = pair([candidate(1, NODULE)], truth())
    assert report["检查所见"]["病灶"] == []
    assert report["诊断意见"] == "1.胸部CT平扫未见明显异常。"


def test_words_come_from_the_truth_and_the_size_from_the_measure() -> None:
    report = pair([candidate(3, NODULE, shift_mm=6.0, size_mm=14.6)], truth(NODULE, effusion=frozenset({Side.LEFT})))
    assert report["检查所见"]["病灶"] == [{"候选": 3, "类型": "结节", "侧别": "右肺", "肺叶": "上叶", "密度": "部分实性", "大小mm": 15}]
    assert report["诊断意见"] == "1.右肺上叶部分实性结节，约15mm。2.左侧胸腔积液。"
    assert report["检查所见"]["胸腔积液"] == "左侧"


def test_a_low_dose_scan_says_so() -> None:
    assert pair([], truth(low_dose=True))["检查所见"]["描述"].startswith("低剂量扫描")
    assert "低剂量" not in pair([], truth())["检查所见"]["描述"]


def test_each_proposal_and_each_lesion_is_matched_once_nearest_first() -> None:
    near = Lesion("结节", Side.RIGHT, "上叶", "实性", 5.0, (-55.0, 0.0, 40.0))
    found = match([candidate(1, NODULE, shift_mm=1.0), candidate(2, NODULE, shift_mm=4.0)], [NODULE, near])
    assert found == {1: NODULE, 2: near}


def test_a_proposal_too_far_away_is_no_match() -> None:
    assert match([candidate(1, NODULE, shift_mm=10.5)], [NODULE]) == {}


@pytest.mark.parametrize(
    ("kind", "density", "size", "urgency"),
    [
        ("结节", "实性", 5, 1),
        ("结节", "实性", 8, 2),
        ("结节", "实性", 9, 3),
        ("结节", "磨玻璃", 20, 2),
        ("结节", "部分实性", 6, 3),
        ("实变", "实性", 40, 4),
    ],
)
def test_advice_depends_on_density_and_size(kind: str, density: str, size: int, urgency: int) -> None:
    assert urgency_of(Said(1, kind, "左肺", "上叶", density, size)) == urgency


def test_json_pieces_and_prompt_marks_are_single_tokens() -> None:
    assert all(len(TOKENIZER.encode(piece)) == 1 for piece in SKELETON)
    assert len(TOKENIZER.encode(render("未提供", 24))) == 24 + 4
