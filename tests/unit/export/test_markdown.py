"""A draft as Markdown."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline.export.markdown import WITHDRAWN, draft_markdown, withdrawal_markdown
from pipeline.model import DEMO_WATERMARK, WATERMARK


def shown(**changes: Any) -> dict[str, Any]:
    draft = {
        "sections": {"检查所见": "左肺上叶见实性结节，大小约8mm。", "诊断意见": "1. 左肺上叶结节，约8.5mm。2. 左侧胸腔积液。", "建议": "建议随访。"},
        "findings": [
            {"candidate": 1, "kind": "结节", "side": "左肺", "lobe": "上叶", "density": "实性", "size_mm": 8},
            {"candidate": None, "kind": "胸腔积液", "side": "左侧", "lobe": None, "density": None, "size_mm": None},
        ],
        "flags": [flag("replaced", "「毛玻璃」已规范为「磨玻璃」"), flag("flag", "请核对侧别"), flag("block", "为空", "建议")],
        "source": {"rung": "embedded", "model": "ctreport-demo", "model_digest": "0" * 64, "phantom_only": True, "rules_version": 3},
        "generation": {"tokens": 120, "verify_count": 40, "accepted_histogram": [10, 0, 30], "seconds": 1.25},
    }
    top = {"revision": 2, "status": "待审", "watermark": WATERMARK, "study_date": "2026-01-15", "accession": "A-1", "signed_by": None}
    series = {"chosen": ["1.2"], "refused": [{"uid": "1.3", "reason": "localizer"}, {"uid": "1.4", "reason": "localizer"}]}
    return {**top, "series": series, "draft": draft | changes.pop("draft", {}), **changes}


def flag(severity: str, message: str, section: str = "检查所见") -> dict[str, Any]:
    return {"rule": "r", "version": 1, "severity": severity, "section": section, "start": 0, "end": 0, "message": message, "original": ""}


@pytest.mark.parametrize("mark", [WATERMARK, f"{DEMO_WATERMARK}；{WATERMARK}"])
def test_the_watermark_is_the_first_and_the_last_line(mark: str) -> None:
    lines = draft_markdown(shown(watermark=mark)).strip().splitlines()
    assert lines[0] == lines[-1] == f"**{mark}**"


def test_flags_stand_before_the_text_the_most_urgent_first() -> None:
    text = draft_markdown(shown())
    places = [
        text.index(word) for word in ("- ⛔ 须处理〔建议〕为空", "- ⚠ 请核对〔检查所见〕", "- ✎ 已替换", "## 检查所见", "## 诊断意见", "## 建议")
    ]
    assert places == sorted(places)
    assert "质检：⛔ 须处理 1，⚠ 请核对 1，✎ 已替换 1" in text


def test_a_blocked_section_is_struck_through() -> None:
    assert "~~建议随访。~~" in draft_markdown(shown())
    assert "~~" not in draft_markdown(shown(draft={"flags": []}))


def test_each_numbered_statement_has_a_line_and_numbers_stay_whole() -> None:
    assert "1. 左肺上叶结节，约8.5mm。  \n2. 左侧胸腔积液。" in draft_markdown(shown())


def test_findings_are_a_table_with_a_dash_where_nothing_is_known() -> None:
    text = draft_markdown(shown())
    assert "| 1 | 结节 | 左肺 | 上叶 | 实性 | 8 |" in text
    assert "| — | 胸腔积液 | 左侧 | — | — | — |" in text
    assert "结构化所见" not in draft_markdown(shown(draft={"findings": []}))


def test_margin_inside_and_surroundings_have_columns_where_a_finding_has_them() -> None:
    assert "| 候选 | 类型 | 侧别 | 肺叶 | 密度 | 大小 mm |\n" in draft_markdown(shown())
    place = {"candidate": 1, "kind": "结节", "side": "左肺", "lobe": "上叶", "density": "实性", "size_mm": 8}
    node = {"candidate": 2, "kind": "淋巴结", "side": "纵隔", "lobe": None, "density": None, "size_mm": 14}
    text = draft_markdown(shown(draft={"findings": [place | {"margin": "毛刺", "internal": "均匀", "surround": "胸膜牵拉"}, node]}))
    assert "| 候选 | 类型 | 侧别 | 肺叶 | 密度 | 大小 mm | 边缘 | 内部结构 | 周围改变 |" in text
    assert "| 1 | 结节 | 左肺 | 上叶 | 实性 | 8 | 毛刺 | 均匀 | 胸膜牵拉 |" in text
    assert "| 2 | 淋巴结 | 纵隔 | — | — | 14 | — | — | — |" in text


def test_with_positions_the_acceptance_is_theirs_and_lookup_is_named() -> None:
    made = {"tokens": 120, "verify_count": 40, "accepted_histogram": [10, 0, 30], "seconds": 1.25}
    more = {"forced": 50, "positions": [[40, 36], [20, 12]], "sections": {}, "sources": {"mtp": [40, 34], "lookup": [20, 14]}}
    assert "120 词元，MTP 与查找 k≤2，接受率 80%，1.2 秒" in draft_markdown(shown(draft={"generation": made | more}))


def test_the_distance_from_validated_images_is_told_where_it_was_measured() -> None:
    assert "1.2 秒 · 图像偏离验证范围 3.25" in draft_markdown(shown(draft={"ood": 3.25}))
    assert "图像偏离" not in draft_markdown(shown(draft={"ood": None}))


def test_the_source_line_says_who_wrote_it_and_how() -> None:
    text = draft_markdown(shown())
    assert "来源：embedded · ctreport-demo · 规则第 3 版 · 120 词元，MTP k=2，接受率 75%，1.2 秒" in text
    plain = {"tokens": 120, "verify_count": 120, "accepted_histogram": [120], "seconds": 3.0}
    assert "120 词元，逐词生成，3.0 秒" in draft_markdown(shown(draft={"generation": plain}))


def test_series_are_counted_and_no_uid_is_printed() -> None:
    text = draft_markdown(shown())
    assert "序列：采用 1 个，未采用 2 个（localizer）" in text
    assert "1.3" not in text


def test_with_scores_each_series_has_a_line_the_one_that_is_read_with_its_points() -> None:
    parts = [{"rule": "kernel", "points": 15, "reason": "卷积核 B31f 软组织/标准"}, {"rule": "unbroken", "points": -4, "reason": "缺 2 层"}]
    read = {"uid": "1.2", "number": 3, "description": "Chest*", "stack": "时相 1", "images": 60, "score": 11, "refusal": "", "parts": parts}
    other: dict[str, Any] = {"uid": "1.3", "number": None, "description": "", "stack": "", "images": 2, "score": 0, "refusal": "定位像", "parts": []}
    text = draft_markdown(shown(series={"chosen": ["1.2"], "refused": [{"uid": "1.3", "reason": "定位像"}], "scores": [read, other]}))
    assert "- **采用** 第 3 序列「Chest\\*」（时相 1），60 幅，11 分：卷积核 B31f 软组织/标准 +15，缺 2 层 -4" in text
    assert "- 未采用 序列：定位像" in text
    assert "1.3" not in text
    many = draft_markdown(shown(series={"chosen": ["1.2"], "refused": [], "scores": [read, *[other] * 299]}))
    assert many.count("- 未采用 序列：定位像") == 11
    assert "- 另有 288 个序列或分组未采用" in many


def test_text_of_the_model_cannot_become_markup() -> None:
    sections = {"检查所见": "<script>alert(1)</script> [x](http://y)", "诊断意见": "# 大标题", "建议": "~~随访~~ a|b"}
    text = draft_markdown(shown(draft={"sections": sections, "flags": []}))
    assert "\\<script\\>" in text
    assert "\\[x\\](http" in text
    assert "\\# 大标题" in text
    assert "\\~\\~随访\\~\\~ a\\|b" in text


def test_a_signed_report_has_no_watermark_and_names_the_doctor() -> None:
    text = draft_markdown(shown(watermark="", status="已签发", signed_by="王医生"))
    assert WATERMARK not in text
    assert "# CT 报告 · 已签发（王医生） · 第 2 版" in text


def test_an_empty_section_says_so() -> None:
    assert "## 建议\n\n（空）" in draft_markdown(shown(draft={"sections": {"建议": ""}}))


def test_a_withdrawal_notice_names_the_draft_and_the_reason_and_repeats_no_text() -> None:
    withdrawn = shown(draft_id="d-1", withdrawn="拒绝说明 <b>*", status="已签发", signed_by="dr_a")
    text = withdrawal_markdown(withdrawn)
    assert text.startswith(f"**{WITHDRAWN}**")
    assert all(part in text for part in ("第 2 版", "2026-01-15", "A-1", "d-1", "已签发（dr_a）", r"拒绝说明 \<b\>\*"))
    assert not any(section in text for section in withdrawn["draft"]["sections"].values())


def test_only_the_sentence_that_a_block_points_at_is_struck_through_until_it_is_resolved() -> None:
    first = "1. 左肺上叶结节，约8.5mm。"
    block = flag("block", "请核对侧别", "诊断意见") | {"start": 3, "end": 7}
    text = draft_markdown(shown(draft={"flags": [block]}))
    assert f"~~{first}~~  \n2. 左侧胸腔积液。" in text
    resolved = block | {"resolved_by": "李医生", "resolved_at": "2026-01-15T08:00:00+00:00", "resolution": "侧别|已改"}
    text = draft_markdown(shown(draft={"flags": [resolved, flag("flag", "请核对大小")]}))
    assert "~~" not in text
    assert "质检：☑ 已说明 1，⚠ 请核对 1" in text
    assert "- ☑ 已说明〔诊断意见〕请核对侧别（李医生：侧别\\|已改）" in text


def test_a_struck_sentence_that_holds_tildes_stays_one() -> None:
    block = flag("block", "请核对") | {"start": 0, "end": 2}
    text = draft_markdown(shown(draft={"sections": {"检查所见": "约3~~5mm。其余正常。\n另一行。"}, "flags": [block]}))
    assert "~~约3\\~\\~5mm。~~其余正常。  \n另一行。" in text
