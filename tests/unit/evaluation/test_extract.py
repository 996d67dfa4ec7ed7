from __future__ import annotations

import pytest

from pipeline.evaluation.extract import extract
from pipeline.model import Finding

NODULE = Finding(None, "结节", "右肺", "上叶", "实性", 12)


def lesion(kind: str, side: str, lobe: str, density: str | None, size: int | None, *more: str | None) -> Finding:
    return Finding(None, kind, side, lobe, density, size, *more)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("右肺上叶见实性结节，大小约12mm。", [NODULE]),
        ("右肺上叶见一实性结节，直径约 1.2 cm。", [NODULE]),
        ("右上肺见实性结节，约12mm×9mm。", [NODULE]),
        (
            "右肺中叶见部分实性结节，磨玻璃影内见实性成分，大小约12mm，边缘毛刺，内见钙化，邻近胸膜牵拉。",
            [lesion("结节", "右肺", "中叶", "部分实性", 12, "毛刺", "钙化", "胸膜牵拉")],
        ),
        (
            "左肺下叶见实性结节，呈软组织密度，大小约8mm，边缘光滑，密度均匀，未见钙化，周围未见胸膜牵拉。",
            [lesion("结节", "左肺", "下叶", "实性", 8, "光滑", "均匀", "无")],
        ),
        ("左肺上叶见磨玻璃结节，约7mm，呈分叶状，胸膜凹陷。", [lesion("结节", "左肺", "上叶", "磨玻璃", 7, "分叶", None, "胸膜牵拉")]),
        ("右肺下叶见片状实变影，范围约40mm，边缘模糊，内见支气管充气征。", [lesion("实变", "右肺", "下叶", "实性", 40, "模糊")]),
        ("左肺上叶毛刺状实性结节，约15mm。", [lesion("结节", "左肺", "上叶", "实性", 15, "毛刺")]),
        ("右肺上叶结节（12mm），磨玻璃密度。", [lesion("结节", "右肺", "上叶", "磨玻璃", 12)]),
    ],
)
def test_a_lung_lesion_is_read_with_what_belongs_to_it(text: str, found: list[Finding]) -> None:
    assert list(extract(text)) == found


@pytest.mark.parametrize(
    "text",
    [
        "双肺未见明确结节及实变影。双侧胸腔未见积液。",
        "纵隔居中，未见肿大淋巴结。心影大小、形态正常。",
        "双肺未见肺气肿及纤维化征象。",
        "肝实质密度均匀，未见占位。所示肝脏未见异常密度影。",
        "胸部CT平扫未见明显异常。",
        "右肺上叶结节术后改变。",
        "未见胸膜牵拉，未见钙化灶。",
        "",
    ],
)
def test_what_is_absent_or_past_is_no_finding(text: str) -> None:
    assert extract(text) == ()


@pytest.mark.parametrize(
    ("text", "kind", "side"),
    [
        ("左侧胸腔见弧形液体密度影。", "胸腔积液", "左侧"),
        ("双侧胸腔积液。", "胸腔积液", "双侧"),
        ("右侧胸腔少量积液，左侧胸腔未见积液。", "胸腔积液", "右侧"),
        ("右侧胸腔积液。左侧胸腔见少量积液。", "胸腔积液", "双侧"),
        ("双肺见散在小叶中心型肺气肿。", "肺气肿", "双侧"),
        ("左肺肺气肿改变。", "肺气肿", "左侧"),
        ("右肺见网格影，考虑纤维化。", "纤维化", "右侧"),
    ],
)
def test_what_spreads_is_read_with_its_sides(text: str, kind: str, side: str) -> None:
    assert extract(text) == (Finding(None, kind, side, None, None, None),)


@pytest.mark.parametrize(
    ("text", "kind", "side", "size"),
    [
        ("纵隔内见肿大淋巴结，短径约14mm。", "淋巴结", "纵隔", 14),
        ("纵隔淋巴结肿大，短径约14mm。", "淋巴结", "纵隔", 14),
        ("肝内见囊性低密度影，直径约20mm，考虑囊肿。", "肝囊肿", "肝脏", 20),
        ("肝血管瘤可能，约25mm。", "肝血管瘤", "肝脏", 25),
        ("肝内见低密度灶，约18mm。", "肝低密度灶", "肝脏", 18),
    ],
)
def test_nodes_and_liver_lesions_are_read_with_their_size(text: str, kind: str, side: str, size: int) -> None:
    assert extract(text) == (Finding(None, kind, side, None, None, size),)


def test_a_numbered_impression_is_read_item_by_item_in_its_order() -> None:
    text = "1. 右肺上叶实性结节，约12mm。2. 左肺下叶磨玻璃结节，约9mm，毛刺。3. 双肺未见实变。4. 左侧胸腔积液。"
    first, second, fluid = extract(text, "诊断意见")
    assert first == NODULE
    assert (second.side, second.lobe, second.density, second.size_mm, second.margin) == ("左肺", "下叶", "磨玻璃", 9, "毛刺")
    assert fluid == Finding(None, "胸腔积液", "左侧", None, None, None)


def test_several_sizes_of_one_sentence_are_several_findings() -> None:
    assert [one.size_mm for one in extract("纵隔肿大淋巴结，短径约14mm及20mm。")] == [14, 20]
    assert [(one.kind, one.size_mm) for one in extract("肝囊肿，约8mm及12mm。")] == [("肝囊肿", 8), ("肝囊肿", 12)]


def test_two_lesions_of_one_sentence_keep_their_own_words() -> None:
    text = "右肺上叶见实性结节，约12mm，边缘光滑，左肺下叶见磨玻璃结节，约9mm，可见毛刺。"
    assert [(one.side, one.density, one.size_mm, one.margin) for one in extract(text)] == [
        ("右肺", "实性", 12, "光滑"),
        ("左肺", "磨玻璃", 9, "毛刺"),
    ]
