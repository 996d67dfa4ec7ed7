"""What a report, its indication and earlier examinations give a guideline to work with."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from pipeline.checking import CheckContext, Prior, Spot
from pipeline.guidance import Count, Course, Density, Risk
from pipeline.model import Candidate, Finding, Frame, Report, Side
from pipeline.rules.analysis import Analysis, analysed
from pipeline.rules.guidelines import Inputs
from pipeline.rules.guidelines_check import ID, REFUSED_ID, asked
from pipeline.rules.guidelines_inputs import history, nodules
from tests.unit.rules.lexicons import RULES

TODAY = date(2026, 1, 15)
FRAME = Frame((-150.0, -100.0, 0.0, 150.0, 100.0, 250.0), 0.0, 1.0, 1.0)
PLACE = (60.0, 10.0, 180.0)
SCREENING = "肺癌筛查"


def read(text: str, indication: str = "", impression: str = "", **known: object) -> Analysis:
    context = CheckContext(TODAY, indication=indication, age_years=60.0)
    return analysed(Report(text, impression, ""), RULES, replace(context, **known))  # type: ignore[arg-type]  # fields of the context


def inputs(text: str, indication: str = "", **known: object) -> tuple[Inputs, ...]:
    return tuple(one.inputs for one in nodules(read(text, indication, **known)))  # type: ignore[arg-type]  # keywords of `read`


@pytest.mark.parametrize(
    ("text", "density"),
    [
        ("右肺上叶见实性结节。", Density.SOLID),
        ("右肺上叶见部分实性结节。", Density.PART_SOLID),
        ("右肺上叶见混合磨玻璃密度结节。", Density.PART_SOLID),
        ("右肺上叶见纯磨玻璃结节。", Density.GROUND_GLASS),
        ("右肺上叶见磨玻璃密度结节。", Density.GROUND_GLASS),
        ("右肺上叶见结节，呈磨玻璃密度。", Density.GROUND_GLASS),
        ("右肺上叶见亚实性结节。", None),  # ground glass or part solid
        ("右肺上叶见结节。", None),
    ],
)
def test_density(text: str, density: Density | None) -> None:
    (one,) = inputs(text)
    assert one.density is density


@pytest.mark.parametrize(
    ("text", "size_mm", "mean"),
    [
        ("右肺上叶见实性结节，大小约12mm×8mm。", 10.0, True),
        ("右肺上叶见实性结节，大小约1.2cm×0.8cm×0.5cm。", 10.0, True),
        ("右肺上叶见实性结节，大小约8mm。", 8.0, False),
        ("右肺上叶见实性结节，直径约3–5毫米。", 5.0, False),
        ("右肺上叶见实性结节。", None, True),
    ],
)
def test_the_size_is_the_mean_of_both_axes_where_both_are_written(text: str, size_mm: float | None, mean: bool) -> None:
    (one,) = inputs(text)
    assert (one.size_mm, one.mean) == (size_mm, mean)


def test_the_solid_component_is_not_the_nodule() -> None:
    (one,) = inputs("右肺上叶见部分实性结节，大小约12mm×10mm，实性成分约5mm。")
    assert (one.size_mm, one.solid_mm) == (11.0, 5.0)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("右肺上叶见实性结节，约5mm。", [Count.SINGLE]),
        ("右肺上叶见实性结节，约5mm；左肺下叶见实性结节，约4mm。", [Count.MULTIPLE, Count.MULTIPLE]),
        ("双肺见多发实性结节，大者约5mm。", [Count.MULTIPLE]),
        ("右肺上叶见3枚实性结节，大者约5mm。", [Count.MULTIPLE]),
        ("右肺上叶见一枚实性结节，约5mm。", [Count.SINGLE]),
        ("右肺上叶见实性结节，约5mm；左肺下叶见磨玻璃结节，约4mm。", [None, None]),  # the tables do not say
    ],
)
def test_count(text: str, counts: list[Count | None]) -> None:
    assert [one.count for one in inputs(text)] == counts


def test_only_nodules_of_the_lung_that_are_there_count() -> None:
    assert inputs("双肺未见结节。甲状腺左叶见结节。肝内见结节。右肺上叶结节术后改变。") == ()
    (one,) = nodules(read("双肺纹理清晰。", impression="右肺上叶实性结节，约8mm。"))
    assert one.mention.section == "诊断意见"
    (one,) = nodules(read("右肺上叶见实性结节，约8mm。", impression="右肺上叶实性结节。"))
    assert one.mention.section == "检查所见"


@pytest.mark.parametrize(
    ("indication", "name", "answer"),
    [
        ("咳嗽", "screening", "no"),
        ("肺癌筛查", "screening", "yes"),
        ("体检", "screening", None),
        ("咳嗽，参加肺癌筛查", "screening", None),  # both
        ("否认肿瘤病史", "cancer", "no"),
        ("乳腺癌术后", "cancer", "yes"),
        ("有肿瘤病史", "cancer", "yes"),
        ("肺癌筛查", "cancer", None),
        ("肾移植术后", "immunosuppressed", "yes"),
        ("无免疫抑制", "immunosuppressed", "no"),
        ("长期吸烟", "risk", "high"),
        ("无吸烟史", "risk", "low"),
        ("肺癌家族史", "risk", "high"),
        ("", "risk", None),
    ],
)
def test_what_the_indication_tells(indication: str, name: str, answer: str | None) -> None:
    assert history(RULES, indication).get(name) == answer


@pytest.mark.parametrize(
    ("text", "risk"),
    [
        ("右肺下叶见实性结节，约5mm，边缘光整。", Risk.LOW),
        ("右肺上叶见实性结节，约5mm。", None),
        ("右肺下叶见实性结节，约5mm，边缘见毛刺。", None),
    ],
)
def test_a_nodule_that_looks_suspicious_is_not_called_low_risk(text: str, risk: Risk | None) -> None:
    (one,) = inputs(text, "无吸烟史")
    assert one.risk is risk


@pytest.mark.parametrize(
    ("before_mm", "now_mm", "course"),
    [
        (8.0, 8.0, Course.STABLE),
        (8.0, 9.5, Course.STABLE),
        (8.0, 9.8, None),
        (8.0, 12.0, Course.GROWING),
        (None, 8.0, Course.NEW),
        (8.0, 5.0, Course.STABLE),
    ],
)
def test_the_course_comes_from_the_patient_s_earlier_examination(before_mm: float | None, now_mm: float, course: Course | None) -> None:
    seen = (Candidate(1, "结节", PLACE, Side.LEFT, "上叶", "实性", now_mm, 0.9),)
    spots = () if before_mm is None else (Spot(1, "结节", PLACE, Side.LEFT, "上叶", before_mm),)
    context = CheckContext(TODAY, candidates=seen, frame=FRAME, priors=(Prior(date(2025, 1, 1), True, spots, FRAME, ("肺",)),), has_prior=True)
    report = Report(f"左肺上叶见实性结节，大小约{now_mm:g}mm。", "", "", (Finding(1, "结节", "左肺", "上叶", "实性", round(now_mm)),))
    (one,) = nodules(analysed(report, RULES, context))
    assert one.inputs.course is course


def test_without_any_earlier_examination_it_is_the_first_and_with_one_that_nobody_can_read_it_is_unknown() -> None:
    text = "右肺下叶见实性结节，约5mm。"
    assert [one.course for one in inputs(text)] == [Course.BASELINE]
    assert [one.course for one in inputs(text, has_prior=True)] == [None]


def test_a_suggestion_names_its_row_and_what_it_rests_on() -> None:
    (hit,) = asked(read("右肺中叶见实性结节，大小约7mm×6mm。", SCREENING))
    assert hit.rule == ID
    for part in ("Lung-RADS v2022 3 类：6 个月低剂量 CT", "结节大小 6.5 mm", "首次检查", "category 3: solid nodule >= 6 to < 8 mm at baseline"):
        assert part in hit.message


def test_one_suggestion_per_row_and_one_refusal_for_all() -> None:
    text = "右肺中叶见实性结节，大小约7mm；左肺下叶见实性结节，大小约6.5mm；右肺上叶见结节，大小约4mm；左肺上叶见钙化结节。"
    hits = asked(read(text, SCREENING))
    assert [hit.rule for hit in hits] == [ID, REFUSED_ID]
    assert "缺少：右肺上叶结节的结节密度" in hits[1].message
    assert "钙化结节须核对" in hits[1].message


def test_without_an_enabled_guideline_nothing_is_said() -> None:
    off = replace(RULES, guidelines=tuple(replace(one, enabled=False) for one in RULES.guidelines))
    analysis = replace(read("右肺中叶见实性结节，大小约7mm。", SCREENING), ruleset=off)
    assert asked(analysis) == ()


def test_a_size_behind_the_look_of_a_nodule_is_the_nodules() -> None:
    (one,) = inputs("左肺上叶见部分实性结节，磨玻璃影内见实性成分，大小约20mm。")
    assert one.size_mm == 20.0
    assert [other.size_mm for other in inputs("左肺上叶见实性结节，右肺下叶见磨玻璃影，大小约20mm。")] == [None]


def refusal(text: str, indication: str = "", **known: Any) -> str:
    (hit,) = (one for one in asked(read(text, indication, **known)) if one.rule == REFUSED_ID)
    return hit.message


def test_what_two_guidelines_miss_of_two_nodules_is_said_once_in_one_sentence() -> None:
    text = "右肺上叶见实性结节，大小约7mm。左肺下叶见部分实性结节，磨玻璃影内见实性成分，大小约12mm。"
    said = refusal(text, age_years=None)
    assert said == (
        "【指南】Fleischner 2017、Lung-RADS v2022 未给出建议，缺少：是否肺癌筛查；"
        "Fleischner 2017 另缺：年龄、恶性肿瘤病史、免疫状态、肺癌风险分组（吸烟史等）、单发/多发归类（实性与亚实性结节并存）；"
        "Lung-RADS v2022 另缺：左肺下叶结节的实性成分大小"
    )


def test_a_missing_input_names_its_nodule_only_where_another_has_it() -> None:
    assert refusal("右肺上叶见结节。", SCREENING) == "【指南】Lung-RADS v2022 未给出建议，缺少：结节密度、结节大小"
    two = refusal("右肺上叶见实性结节。左肺上叶见实性结节，大小约7mm。", SCREENING)
    assert two == "【指南】Lung-RADS v2022 未给出建议，缺少：右肺上叶结节的结节大小"


@pytest.mark.parametrize(
    ("text", "indication"),
    [
        ("右肺下叶见实性结节，约5mm。", "肺结节复查"),
        ("右肺下叶见实性结节，约5mm，较前增大。", SCREENING),
        ("右肺下叶见实性结节，现约5mm，原约3mm。", SCREENING),
        ("与外院2025-06-01CT比较：右肺下叶见实性结节，约5mm。", SCREENING),
    ],
)
def test_a_nodule_of_which_an_earlier_examination_elsewhere_is_told_is_not_called_the_first(text: str, indication: str) -> None:
    assert [one.course for one in inputs(text, indication)] == [None]
    assert [one.course for one in inputs("右肺下叶见实性结节，约5mm。", SCREENING, impression="右肺下叶结节，建议随访复查。")] == [Course.BASELINE]
