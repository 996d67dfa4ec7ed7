"""The report's JSON schema, version 2: what the grammar constrains, what the parser validates and what the corpus is written in."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from pipeline.drafting.vocabulary import (
    DENSITIES,
    INTERNALS,
    KINDS,
    LIVER_KINDS,
    LOBES,
    LUNGS,
    MARGINS,
    NODE_SITES,
    PACKAGED,
    SPREADS,
    SURROUNDS,
    Vocabulary,
)

__all__ = ["DENSITIES", "INTERNALS", "KINDS", "LIVER_KINDS", "LOBES", "LUNGS", "MARGINS", "NODE_SITES", "SPREADS", "SURROUNDS"]

VERSION = 2
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


def lesion_schema(words: Vocabulary = PACKAGED) -> dict[str, Any]:
    """One lung lesion: the candidate that it is, and each element that a radiologist describes."""
    return _closed(
        {
            "候选": _whole(MAX_CANDIDATES),
            "类型": _one_of(words.kinds),
            "侧别": _one_of(words.lungs),
            "肺叶": _one_of(words.lobes),
            "密度": _one_of(words.densities),
            "大小mm": _whole(MAX_SIZE_MM),
            "边缘": _one_of(words.margins),
            "内部结构": _one_of(words.internals),
            "周围改变": _one_of(words.surrounds),
        }
    )


def _findings(words: Vocabulary) -> dict[str, Any]:
    """The properties of the frozen findings, which every department's text is written from."""
    node = _closed({"候选": _whole(MAX_CANDIDATES), "部位": _one_of(words.node_sites), "短径mm": _whole(MAX_SIZE_MM)})
    liver = _closed({"候选": _whole(MAX_CANDIDATES), "类型": _one_of(words.liver_kinds), "大小mm": _whole(MAX_SIZE_MM)})
    return {
        "病灶": _list(lesion_schema(words), MAX_LESIONS),
        "淋巴结": _list(node, MAX_NODES),
        "肝脏": _list(liver, MAX_LIVER),
        "胸腔积液": _one_of(words.spreads),
        "肺气肿": _one_of(words.spreads),
        "纤维化": _one_of(words.spreads),
    }


def report_schema(words: Vocabulary = PACKAGED) -> dict[str, Any]:
    """JSON schema of one whole report; property order is the order of generation."""
    findings = _closed({**_findings(words), DESCRIPTION: _text(DESCRIPTION)})
    return _closed({FINDINGS: findings, IMPRESSION: _text(IMPRESSION), ADVICE: _text(ADVICE)})


def answer_schema(section: str, words: Vocabulary = PACKAGED) -> dict[str, Any]:
    """JSON schema of one section's answer when a report is written in sections: the findings without words, then each text on its own."""
    return _closed(_findings(words)) if section == FINDINGS else _closed({section: _text(section)})


@cache
def schema_text(words: Vocabulary = PACKAGED) -> str:
    """The whole report's schema as the byte-identical string that grammar caches are keyed on."""
    return json.dumps(report_schema(words), ensure_ascii=False)


@cache
def section_schema(section: str, words: Vocabulary = PACKAGED) -> str:
    """The schema of one section's answer (one of SECTIONS) as the string that grammar caches are keyed on."""
    return json.dumps(answer_schema(section, words), ensure_ascii=False)


def dumps(value: dict[str, Any]) -> str:
    """Serialise a report, or one section's answer, exactly as models are trained to write it: `", "` and `": "`, no escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))
