from typing import Any

from pipeline.export.elements import findings_markdown

FINDING: dict[str, Any] = {
    "candidate": 1,
    "kind": "结节",
    "side": "右肺",
    "lobe": "上叶",
    "density": "实性",
    "size_mm": 9,
    "margin": "毛刺",
    "segment": "尖段",
    "shape": "类圆形",
    "enhancement": None,
    "advice": "建议3个月后复查。",
    "grading": {
        "guideline": "Lung-RADS v2022",
        "row": "4A",
        "category": "4A",
        "advice": "3 个月低剂量 CT",
        "used": "结节大小 9 mm",
        "source": "ACR 2022",
    },
    "malignancy": {
        "probability": 0.1588,
        "formula": "Brock",
        "source": "NEJM",
        "inputs": {"age_years": 60, "female": True, "size_mm": 9.2, "density": "实性"},
    },
    "evidence": {"candidate": 1, "slice_sop_uid": "1.2.3", "frame": 1, "series_number": 3, "image_number": 87},
    "sources": {"site": "measured", "size_mm": "measured", "margin": "draft", "segment": "text", "advice": "draft", "grading": "guideline"},
}


def test_the_table_has_the_columns_that_some_finding_needs() -> None:
    text = findings_markdown([FINDING])
    assert "| 候选 | 类型 | 侧别 | 肺叶 | 密度 | 大小 mm | 肺段 | 边缘 | 形态 |" in text
    assert "强化方式" not in text
    assert "强化方式" in findings_markdown([FINDING | {"enhancement": "明显强化"}])


def test_each_finding_tells_where_it_is_seen_how_it_is_graded_and_from_where_each_element_is() -> None:
    lines = findings_markdown([FINDING]).splitlines()
    assert "  - 证据：候选 1，第 3 序列第 87 幅" in lines
    assert "  - 分级：Lung-RADS v2022 4A 类，3 个月低剂量 CT（依据：结节大小 9 mm；出处：ACR 2022）" in lines
    assert "  - 建议：建议3个月后复查。（草稿）" in lines
    assert "  - 恶性概率：15.9%，Brock（输入：年龄 60，女性 是，长径 mm 9.2，密度 实性；出处：NEJM）" in lines
    assert "  - 图像测得：部位、大小；仅草稿：边缘；描述文字：肺段" in lines
    assert not any("1.2.3" in line for line in lines)  # UIDs help nobody who reads


def test_a_bare_finding_has_no_details_and_a_frame_is_told_where_there_are_several() -> None:
    bare = {"candidate": None, "kind": "胸腔积液", "side": "左侧", "lobe": None, "density": None, "size_mm": None, "grading": None, "evidence": None}
    assert findings_markdown([bare]).count("\n- ") == 0
    evidence = {"candidate": 2, "slice_sop_uid": "1.2", "frame": 14, "series_number": None, "image_number": 1}
    assert "证据：候选 2，第 1 幅第 14 帧" in findings_markdown([bare | {"evidence": evidence}])
    assert findings_markdown([]) == ""


def test_nothing_in_a_finding_becomes_markup() -> None:
    text = findings_markdown([FINDING | {"advice": "<b>*x*</b>", "kind": "结|节"}])
    assert r"\<b\>\*x\*\</b\>" in text
    assert r"结\|节" in text
