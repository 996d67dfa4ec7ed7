"""The report's JSON schema, version 2: what the grammar constrains, what the parser validates and what the corpus is written in."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

VERSION = 2
KINDS = ("结节", "实变")
LUNGS = ("左肺", "右肺")
LOBES = ("上叶", "中叶", "下叶")
DENSITIES = ("实性", "磨玻璃", "部分实性")
MARGINS = ("光滑", "分叶", "毛刺", "模糊")
INTERNALS = ("均匀", "钙化")
SURROUNDS = ("无", "胸膜牵拉")
NODE_SITES = ("纵隔",)
LIVER_KINDS = ("囊肿", "血管瘤", "低密度灶")
SPREADS = ("无", "左侧", "右侧", "双侧")  # where something lies that both sides can have
EFFUSIONS = SPREADS  # of the pleural fluid
MAX_CANDIDATES = 8
MAX_LESIONS, MAX_NODES, MAX_LIVER = 6, 2, 2
MAX_SIZE_MM = 140

FINDINGS, DESCRIPTION, IMPRESSION, ADVICE = SECTIONS = ("检查所见", "描述", "诊断意见", "建议")
TEXT_LIMITS = {DESCRIPTION: 800, IMPRESSION: 400, ADVICE: 200}  # characters


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these properties, in this order."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _text(section: str) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": TEXT_LIMITS[section]}


def _whole(limit: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": limit}


def _list(item: dict[str, Any], limit: int) -> dict[str, Any]:
    return {"type": "array", "items": item, "maxItems": limit}


def _one_of(terms: tuple[str, ...]) -> dict[str, Any]:
    return {"enum": list(terms)}


def lesion_schema() -> dict[str, Any]:
    """One lung lesion: the candidate that it is, and each element that a radiologist describes."""
    return _closed(
        {
            "候选": _whole(MAX_CANDIDATES),
            "类型": _one_of(KINDS),
            "侧别": _one_of(LUNGS),
            "肺叶": _one_of(LOBES),
            "密度": _one_of(DENSITIES),
            "大小mm": _whole(MAX_SIZE_MM),
            "边缘": _one_of(MARGINS),
            "内部结构": _one_of(INTERNALS),
            "周围改变": _one_of(SURROUNDS),
        }
    )


def _findings() -> dict[str, Any]:
    """The properties of the frozen findings, which every department's text is written from."""
    node = _closed({"候选": _whole(MAX_CANDIDATES), "部位": _one_of(NODE_SITES), "短径mm": _whole(MAX_SIZE_MM)})
    liver = _closed({"候选": _whole(MAX_CANDIDATES), "类型": _one_of(LIVER_KINDS), "大小mm": _whole(MAX_SIZE_MM)})
    return {
        "病灶": _list(lesion_schema(), MAX_LESIONS),
        "淋巴结": _list(node, MAX_NODES),
        "肝脏": _list(liver, MAX_LIVER),
        "胸腔积液": _one_of(SPREADS),
        "肺气肿": _one_of(SPREADS),
        "纤维化": _one_of(SPREADS),
    }


def report_schema() -> dict[str, Any]:
    """JSON schema of one whole report; property order is the order of generation."""
    findings = _closed({**_findings(), DESCRIPTION: _text(DESCRIPTION)})
    return _closed({FINDINGS: findings, IMPRESSION: _text(IMPRESSION), ADVICE: _text(ADVICE)})


def answer_schema(section: str) -> dict[str, Any]:
    """JSON schema of one section's answer when a report is written in sections: the findings without words, then each text on its own."""
    return _closed(_findings()) if section == FINDINGS else _closed({section: _text(section)})


@cache
def schema_text() -> str:
    """The whole report's schema as the byte-identical string that grammar caches are keyed on."""
    return json.dumps(report_schema(), ensure_ascii=False)


@cache
def section_schema(section: str) -> str:
    """The schema of one section's answer (one of SECTIONS) as the string that grammar caches are keyed on."""
    return json.dumps(answer_schema(section), ensure_ascii=False)


def dumps(value: dict[str, Any]) -> str:
    """Serialise a report, or one section's answer, exactly as models are trained to write it: `", "` and `": "`, no escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
