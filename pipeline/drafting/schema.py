"""The report's JSON schema: what the grammar constrains, what the parser validates and what the corpus is written in."""

from __future__ import annotations

import json
from typing import Any

KINDS = ("结节", "实变")
LUNGS = ("左肺", "右肺")
LOBES = ("上叶", "中叶", "下叶")
DENSITIES = ("实性", "磨玻璃", "部分实性")
EFFUSIONS = ("无", "左侧", "右侧", "双侧")
MAX_LESIONS = 6
MAX_SIZE_MM = 140


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    """An object with exactly these properties, in this order."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _text(limit: int) -> dict[str, Any]:
    return {"type": "string", "minLength": 1, "maxLength": limit}


def report_schema() -> dict[str, Any]:
    """JSON schema of one radiology report; property order is the order of generation."""
    lesion = _closed(
        {
            "候选": {"type": "integer", "minimum": 1, "maximum": MAX_LESIONS},
            "类型": {"enum": list(KINDS)},
            "侧别": {"enum": list(LUNGS)},
            "肺叶": {"enum": list(LOBES)},
            "密度": {"enum": list(DENSITIES)},
            "大小mm": {"type": "integer", "minimum": 1, "maximum": MAX_SIZE_MM},
        }
    )
    findings = _closed(
        {
            "病灶": {"type": "array", "items": lesion, "maxItems": MAX_LESIONS},
            "胸腔积液": {"enum": list(EFFUSIONS)},
            "描述": _text(800),
        }
    )
    return _closed({"检查所见": findings, "诊断意见": _text(400), "建议": _text(200)})


def schema_text() -> str:
    """The schema as the byte-identical string that grammar caches are keyed on."""
    return json.dumps(report_schema(), ensure_ascii=False)


def dumps(report: dict[str, Any]) -> str:
    """Serialise a report exactly as models are trained to write it: `", "` and `": "`, no escapes."""
    return json.dumps(report, ensure_ascii=False, separators=(", ", ": "))
