"""Reports of the corpus follow the truth, obey the schema and name no lesion that the encoder did not propose."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.drafting.departments import NAMES
from pipeline.drafting.parse import parse, put_together
from pipeline.drafting.prompt import SECTIONS
from pipeline.drafting.schema import answer_schema, dumps, report_schema
from pipeline.evaluation.agreement import agree
from pipeline.evaluation.told import told
from pipeline.model import Candidate, Side
from pipeline.training.conclusions import impression, urgency_of
from pipeline.training.corpus import answers, pair, report
from pipeline.training.phantom import Lesion, LiverLesion, Node, Truth
from pipeline.training.reasons import Reason
from pipeline.training.scene import Said, Scene, match, scene
from tests.unit.training.fake_views import candidates_of, random_truth

REPORT = jsonschema.Draft202012Validator(report_schema())
PARTS = {section: jsonschema.Draft202012Validator(answer_schema(section)) for section in SECTIONS}
NODULE = Lesion("结节", Side.RIGHT, "上叶", "部分实性", 12.2, (-60.0, 0.0, 40.0), "毛刺", retraction=True)
OTHER = Lesion("结节", Side.LEFT, "下叶", "实性", 8.0, (60.0, 0.0, -40.0))


def truth(*found: Lesion, **more: Any) -> Truth:
    return replace(Truth(found, frozenset(), False, 0, 120.0, 200.0, "B30f"), **more)


def candidate(index: int, lesion: Lesion | Node | LiverLesion, shift_mm: float = 0.0, size_mm: float | None = None) -> Candidate:
    x, y, z = lesion.center_mm
    return Candidate(index, "结节", (x + shift_mm, y, z), Side.RIGHT, None, None, size_mm or lesion.size_mm, 0.9)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10_000), st.sampled_from(list(NAMES)), st.sampled_from(Reason))
def test_every_report_is_valid_and_its_words_say_what_it_lists(seed: int, department: str, reason: Reason) -> None:
    seen = random_truth(seed)
    value = pair(candidates_of(seen), seen, department, reason)
    REPORT.validate(value)
    said = told(dumps(value))
    assert agree(said.findings, said.concluded, detailed=False)
    assert agree(said.findings, said.described, detailed=department == "radiology")


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(list(NAMES)), st.sampled_from(Reason))
def test_the_sections_answers_make_the_same_report(seed: int, department: str, reason: Reason) -> None:
    seen = scene(candidates_of(random_truth(seed)), random_truth(seed), reason)
    written = answers(seen, department)
    parts = [loaded(section, text) for section, text in zip(SECTIONS, written, strict=True)]
    assert put_together(parts) == dumps(report(seen, department))


def loaded(section: str, text: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(text)
    PARTS[section].validate(value)
    return value


@given(st.integers(0, 10_000))
def test_the_findings_are_frozen_whatever_the_department_and_the_reason(seed: int) -> None:
    seen = random_truth(seed)
    made = {dumps(pair(candidates_of(seen), seen, department, reason)["检查所见"] | {"描述": ""}) for department in NAMES for reason in Reason}
    assert len(made) == 1


def test_the_same_scan_is_always_told_alike() -> None:
    seen = random_truth(5)
    assert pair(candidates_of(seen), seen) == pair(candidates_of(seen), seen)


def test_a_lesion_that_was_not_proposed_is_left_out() -> None:
    value = pair([candidate(1, NODULE)], truth(OTHER, NODULE))
    assert [item["候选"] for item in value["检查所见"]["病灶"]] == [1]
    assert "左肺" not in dumps(value)


def test_a_proposal_without_a_lesion_is_not_written() -> None:
    value = pair([candidate(1, NODULE)], truth())
    assert value["检查所见"]["病灶"] == []
    assert value["诊断意见"] == "1.胸部CT平扫未见明显异常。"


def test_words_come_from_the_truth_and_the_size_from_the_measure() -> None:
    value = pair([candidate(3, NODULE, shift_mm=6.0, size_mm=14.6)], truth(NODULE, effusion=frozenset({Side.LEFT})))
    place = {"候选": 3, "类型": "结节", "侧别": "右肺", "肺叶": "上叶", "密度": "部分实性", "大小mm": 15}
    assert value["检查所见"]["病灶"] == [place | {"边缘": "毛刺", "内部结构": "均匀", "周围改变": "胸膜牵拉"}]
    assert value["诊断意见"] == "1.病灶3：右肺上叶部分实性结节，约15mm，伴毛刺征、胸膜牵拉，恶性不除外。2.左侧胸腔积液。"
    assert value["检查所见"]["胸腔积液"] == "左侧"


def test_nodes_and_liver_lesions_are_proposals_too() -> None:
    node, cyst = Node(14.0, (0.0, 10.0, 20.0)), LiverLesion("囊肿", 20.0, (-60.0, 0.0, -110.0))
    value = pair([candidate(1, cyst), candidate(2, node)], truth(nodes=(node,), liver=(cyst,)))
    assert value["检查所见"]["淋巴结"] == [{"候选": 2, "部位": "纵隔", "短径mm": 14}]
    assert value["检查所见"]["肝脏"] == [{"候选": 1, "类型": "囊肿", "大小mm": 20}]
    assert value["诊断意见"] == "1.病灶2：纵隔肿大淋巴结，短径约14mm。2.病灶1：肝囊肿，约20mm。"


@pytest.mark.parametrize("name", ["胸廓", "气管", "纹理", "淋巴结", "心影", "胸腔", "肝", "脾", "骨质"])
def test_every_region_of_a_normal_scan_is_described(name: str) -> None:
    assert name in pair([], truth())["检查所见"]["描述"]


def test_wording_follows_dose_contrast_kernel_and_reason() -> None:
    plain = pair([], truth())["检查所见"]["描述"]
    others = [truth(low_dose=True), truth(contrast=True), truth(kernel="B60f")]
    texts = [pair([], other)["检查所见"]["描述"] for other in others] + [pair([], truth(), reason=reason)["检查所见"]["描述"] for reason in Reason]
    assert len({plain, *texts}) == 3 + len(Reason)
    assert texts[0].startswith("低剂量扫描")
    assert "增强" not in plain


def test_the_impression_keeps_the_order_of_the_list_and_what_is_no_lesion_follows() -> None:
    mild, grave = Said(1, "结节", "左肺", "上叶", "实性", 5), Said(2, "结节", "右肺", "下叶", "实性", 20, "毛刺")
    text = "".join(impression(Scene(lesions=(mild, grave, replace(mild, candidate=3, lobe="下叶")), emphysema="双侧")).split())
    places = [text.index(word) for word in ("1.病灶1：左肺上叶", "2.病灶2：右肺下叶", "3.病灶3：左肺下叶", "4.双肺肺气肿")]
    assert places == sorted(places)


def test_every_positive_report_gives_advice() -> None:
    for seed in range(200):
        seen = random_truth(seed)
        assert parse(dumps(pair(candidates_of(seen), seen))).advice.startswith(("建议", "肝", "请"))


def test_each_proposal_and_each_lesion_is_matched_once_nearest_first() -> None:
    near = Lesion("结节", Side.RIGHT, "上叶", "实性", 5.0, (-55.0, 0.0, 40.0))
    found = match([candidate(1, NODULE, shift_mm=1.0), candidate(2, NODULE, shift_mm=4.0)], [NODULE, near])
    assert found == {1: NODULE, 2: near}


def test_a_proposal_too_far_away_is_no_match() -> None:
    assert match([candidate(1, NODULE, shift_mm=10.5)], [NODULE]) == {}


@pytest.mark.parametrize(
    ("kind", "density", "size", "margin", "calcified", "urgency"),
    [
        ("结节", "实性", 5, "光滑", False, 1),
        ("结节", "实性", 8, "光滑", False, 2),
        ("结节", "实性", 9, "光滑", False, 3),
        ("结节", "实性", 9, "毛刺", False, 5),
        ("结节", "实性", 20, "光滑", True, 0),
        ("结节", "实性", 20, "分叶", True, 5),
        ("结节", "磨玻璃", 20, "光滑", False, 2),
        ("结节", "磨玻璃", 20, "毛刺", False, 3),
        ("结节", "部分实性", 6, "光滑", False, 3),
        ("实变", "实性", 40, "模糊", False, 4),
    ],
)
def test_urgency_depends_on_density_size_and_signs(kind: str, density: str, size: int, margin: str, calcified: bool, urgency: int) -> None:
    assert urgency_of(Said(1, kind, "左肺", "上叶", density, size, margin, calcified)) == urgency
