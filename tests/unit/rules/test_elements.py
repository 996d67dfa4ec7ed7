from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from pipeline.checking import CheckContext, Elements, RuleSet
from pipeline.model import Candidate, Finding, Report, Side
from pipeline.rules.elements import elements
from pipeline.rules.seed import seed_ruleset
from tests.unit.rules.reports import case

RULES = seed_ruleset()
SEEN = Candidate(1, "结节", (0.0, 0.0, 0.0), Side.RIGHT, "上叶", "实性", 9.2, 0.9, "1.2.3.4", 3, "毛刺", False, False)
NODULE = Finding(1, "结节", "右肺", "上叶", "实性", 9, "毛刺", "均匀", "无")
NODE = Finding(2, "淋巴结", "纵隔", None, None, 12)
FLUID = Finding(None, "胸腔积液", "右侧", None, None, None)
TEXT = "右肺上叶尖段见实性结节，大小约9mm，类圆形，边缘毛刺，增强扫描明显强化。纵隔淋巴结肿大，短径约12mm。右侧胸腔积液。"
ADVICE = "建议3个月后复查胸部CT。建议增强CT评估纵隔淋巴结。建议结合临床查找胸腔积液原因。"
REPORT = Report(TEXT, "1. 右肺上叶结节。", ADVICE, (NODULE, NODE, FLUID))
SCREENED = "肺癌筛查，无肿瘤病史，否认肺癌家族史，吸烟史"
KNOWN = CheckContext(
    date(2026, 1, 1),
    candidates=(SEEN,),
    indication=SCREENED,
    contrast=True,
    sex="F",
    age_years=60,
    emphysema=(),
    effusion=(Side.RIGHT,),
    structured=True,
)


def of(report: Report = REPORT, rules: RuleSet = RULES, **changes: Any) -> tuple[Elements, ...]:
    return elements(report, rules, replace(KNOWN, **changes))


def nodule(**changes: Any) -> Elements:
    return of(**changes)[0]


def test_a_finding_has_every_element_and_where_each_is_from() -> None:
    found = nodule()
    assert (found.segment, found.shape, found.enhancement) == ("尖段", "类圆形", "明显强化")
    assert (found.slice_sop_uid, found.slice_frame) == ("1.2.3.4", 3)
    measured = dict.fromkeys(("site", "size_mm", "density", "margin", "internal", "surround"), "measured")
    told = dict.fromkeys(("segment", "shape", "enhancement"), "text")
    assert found.sources == {**measured, **told, "advice": "draft", "grading": "guideline", "malignancy": "formula"}


def test_what_the_images_do_not_give_is_the_drafters_word_alone() -> None:
    wrong = replace(SEEN, side=Side.LEFT, size_mm=20.0, density="磨玻璃", margin=None, calcified=None, retraction=True)
    sources = nodule(candidates=(wrong,)).sources
    assert {sources[name] for name in ("site", "size_mm", "density", "margin", "internal", "surround")} == {"draft"}
    alone = of(candidates=())[0]
    assert {alone.sources[name] for name in ("site", "size_mm", "density")} == {"draft"}
    assert (alone.slice_sop_uid, alone.slice_frame, alone.malignancy) == (None, None, None)


def test_fluid_is_measured_only_on_the_sides_that_the_images_show() -> None:
    assert of()[2].sources["site"] == "measured"
    assert of(effusion=(Side.LEFT, Side.RIGHT))[2].sources["site"] == "draft"
    assert of(effusion=None)[2].sources["site"] == "draft"


@pytest.mark.parametrize("contrast", [False, None])
def test_without_contrast_agent_there_is_no_enhancement_whatever_the_text_says(contrast: bool | None) -> None:
    assert "强化" in TEXT
    assert nodule(contrast=contrast).enhancement is None


def test_each_finding_has_the_advice_that_is_about_it() -> None:
    assert [one.advice for one in of()] == ["建议3个月后复查胸部CT。", "建议增强CT评估纵隔淋巴结。", "建议结合临床查找胸腔积液原因。"]


def test_advice_about_the_other_side_is_not_a_findings_own() -> None:
    found = of(replace(REPORT, advice="左肺上叶结节建议复查。"))[0]
    assert found.advice is not None
    assert found.advice != "左肺上叶结节建议复查。"
    assert found.sources["advice"] == "guideline"  # the table's words, since the draft has none of its own


def test_a_grading_names_its_guideline_class_row_inputs_and_publication() -> None:
    grading = nodule().grading
    assert grading is not None
    assert (grading.guideline, grading.category, grading.row) == ("Lung-RADS v2022", "4A", "4A-solid-baseline")
    assert "结节大小 9 mm" in grading.used
    assert "Lung-RADS v2022" in grading.source


def test_no_guideline_that_answers_means_no_grading() -> None:
    assert nodule(indication="").grading is None  # screening or not is unknown
    assert of()[1].grading is None
    assert of(rules=RuleSet(1, {}, lexicon=RULES.lexicon))[0].grading is None


def test_the_probability_holds_the_measured_inputs() -> None:
    found = nodule().malignancy
    assert found is not None
    assert found.inputs["size_mm"] == 9.2
    assert (found.inputs["spiculated"], found.inputs["upper_lobe"], found.inputs["female"], found.inputs["family_history"]) == (
        True,
        True,
        True,
        False,
    )
    assert 0.1 < found.probability < 0.25


@pytest.mark.parametrize(
    "unknown",
    [
        {"sex": ""},
        {"sex": "O"},
        {"age_years": None},
        {"emphysema": None},
        {"indication": "肺癌筛查"},  # nothing of the family
        {"indication": f"{SCREENED}，肺癌术后"},
        {"candidates": (replace(SEEN, margin=None),)},
        {"candidates": (replace(SEEN, density=None),)},
        {"candidates": (replace(SEEN, lobe=None),)},
        {"candidates": (replace(SEEN, calcified=None),)},
        {"candidates": (replace(SEEN, calcified=True),)},
        {"candidates": (replace(SEEN, margin="光滑"),)},  # list and images differ
        {"candidates": (replace(SEEN, side=Side.LEFT),)},
        {"candidates": (SEEN, replace(SEEN, index=2))},  # how many nodules there are is not certain
    ],
    ids=str,
)
def test_one_unknown_input_means_no_probability(unknown: dict[str, Any]) -> None:
    assert nodule(**unknown).malignancy is None


def test_only_nodules_have_a_probability() -> None:
    consolidation = replace(NODULE, kind="实变")
    seen = replace(SEEN, kind="实变")
    assert of(replace(REPORT, findings=(consolidation,)), candidates=(seen,))[0].malignancy is None
    assert [one.malignancy for one in of()[1:]] == [None, None]


def test_a_report_without_findings_has_none_and_one_without_a_lexicon_still_has_sources() -> None:
    assert of(replace(REPORT, findings=())) == ()
    assert of(rules=RuleSet(1, {}))[0].sources["site"] == "measured"


@pytest.mark.parametrize("seed", range(12))
def test_a_true_report_of_measured_findings_is_measured_throughout(seed: int) -> None:
    drawn = case(seed)
    found = elements(drawn.report, RULES, drawn.context)
    assert len(found) == len(drawn.report.findings)
    for finding, one in zip(drawn.report.findings, found, strict=True):
        assert one.sources["site"] == "measured"
        assert finding.size_mm is None or one.sources["size_mm"] == "measured"
        assert drawn.context.contrast or one.enhancement is None
