"""Structured findings as Markdown: the table of what they are, then for each where it is seen, how it is graded, what is advised and from where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.export.inline import inline

COLUMNS = {"candidate": "候选", "kind": "类型", "side": "侧别", "lobe": "肺叶", "density": "密度", "size_mm": "大小 mm"}
# shown where a finding has it
MORE = {"segment": "肺段", "margin": "边缘", "shape": "形态", "internal": "内部结构", "surround": "周围改变", "enhancement": "强化方式"}
ELEMENTS = {"site": "部位", "size_mm": "大小", "density": "密度", **MORE}
FROM = {"measured": "图像测得", "draft": "仅草稿", "text": "描述文字"}
INPUTS = {
    "age_years": "年龄",
    "female": "女性",
    "family_history": "肺癌家族史",
    "emphysema": "肺气肿",
    "size_mm": "长径 mm",
    "density": "密度",
    "upper_lobe": "上叶",
    "nodules": "结节数",
    "spiculated": "毛刺",
}
NONE = "—"


def findings_markdown(findings: Sequence[Mapping[str, Any]]) -> str:
    """Table and details; empty where nothing is listed."""
    if not findings:
        return ""
    columns = COLUMNS | {field: title for field, title in MORE.items() if any(finding.get(field) for finding in findings)}
    rows = [[_cell(finding.get(field)) for field in columns] for finding in findings]
    table = "\n".join(f"| {' | '.join(row)} |" for row in [columns.values(), ("---",) * len(columns), *rows])
    details = "\n".join(line for number, finding in enumerate(findings, start=1) for line in _details(number, finding))
    return "\n\n".join(part for part in ("## 结构化所见", table, details) if part)


def _details(number: int, finding: Mapping[str, Any]) -> Iterator[str]:
    told = [text for text in (_evidence(finding), _grading(finding), _advice(finding), _malignancy(finding), _sources(finding)) if text]
    if told:
        yield f"- 第 {number} 项 {inline(str(finding['kind']))}"
        yield from (f"  - {text}" for text in told)


def _evidence(finding: Mapping[str, Any]) -> str:
    seen = finding.get("evidence")
    if not seen:
        return ""
    series = f"第 {seen['series_number']} 序列" if seen.get("series_number") is not None else ""
    image = f"第 {seen['image_number']} 幅" if seen.get("image_number") is not None else ""
    frame = f"第 {seen['frame']} 帧" if (seen.get("frame") or 1) > 1 else ""
    where = "".join((series, image, frame))
    return f"证据：候选 {seen['candidate']}" + (f"，{where}" if where else "")


def _grading(finding: Mapping[str, Any]) -> str:
    graded = finding.get("grading")
    if not graded:
        return ""
    category = f" {graded['category']} 类" if graded["category"] else ""
    reasons = f"依据：{inline(graded['used'])}；出处：{inline(graded['source'])}"
    return f"分级：{inline(graded['guideline'])}{category}，{inline(graded['advice'])}（{reasons}）"


def _advice(finding: Mapping[str, Any]) -> str:
    text = finding.get("advice")
    by_guideline = (finding.get("sources") or {}).get("advice") == "guideline"
    return f"建议：{inline(text)}（{'指南' if by_guideline else '草稿'}）" if text else ""


def _malignancy(finding: Mapping[str, Any]) -> str:
    """The formula's figure with every input, so that it can be checked by hand."""
    found = finding.get("malignancy")
    if not found:
        return ""
    inputs = "，".join(f"{INPUTS.get(name, name)} {_input(value)}" for name, value in found["inputs"].items())
    return f"恶性概率：{found['probability']:.1%}，{inline(found['formula'])}（输入：{inline(inputs)}；出处：{inline(found['source'])}）"


def _input(value: object) -> str:
    if isinstance(value, bool):
        return "是" if value else "否"
    return f"{value:g}" if isinstance(value, int | float) else str(value)


def _sources(finding: Mapping[str, Any]) -> str:
    sources = finding.get("sources") or {}
    groups = {word: [ELEMENTS[name] for name, source in sources.items() if source == by and name in ELEMENTS] for by, word in FROM.items()}
    return "；".join(f"{word}：{'、'.join(names)}" for word, names in groups.items() if names)


def _cell(value: object) -> str:
    return NONE if value is None else inline(str(value))
