"""A drafter's answer → a report, or BadDraft: the grammar constrained it, it is validated anyway."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NoReturn

from pipeline.drafting.schema import report_schema
from pipeline.drafting.validate import faults
from pipeline.errors import BadDraft
from pipeline.model import Finding, Report

MAX_CHARACTERS = 20_000
NO_EFFUSION, EFFUSION = "无", "胸腔积液"
NEXT_STEP = "`ctreport retry` drafts the study again"


def parse(text: str) -> Report:
    """The report in `text`. Raises BadDraft, whose message names place and expectation and holds nothing of the text."""
    value = _loads(text)
    fault = next(faults(value, _schema()), None)
    if fault is not None:
        raise BadDraft(f"the model's answer does not fit the report schema: {fault}; {NEXT_STEP}")
    findings = value["检查所见"]
    return Report(
        findings_text=findings["描述"],
        impression=value["诊断意见"],
        advice=value["建议"],
        findings=(*(_lesion(item) for item in findings["病灶"]), *_effusion(findings["胸腔积液"])),
    )


def _loads(text: str) -> Any:
    if len(text) > MAX_CHARACTERS:
        raise BadDraft(f"the model's answer has {len(text)} characters, at most {MAX_CHARACTERS} are read; {NEXT_STEP}")
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        how = "is cut" if error.pos >= len(text.rstrip()) else "is not JSON"
        raise BadDraft(f"the model's answer {how} at character {error.pos} of {len(text)}; {NEXT_STEP}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or nesting without end
        raise BadDraft(f"the model's answer is JSON that no report can be: its numbers or its nesting are too long; {NEXT_STEP}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise BadDraft(f"the model's answer gives {len(pairs) - len(value)} keys twice in one object; {NEXT_STEP}")
    return value


def _no_constant(_: str) -> NoReturn:
    raise BadDraft(f"the model's answer holds NaN or Infinity where a whole number belongs; {NEXT_STEP}")


@lru_cache(maxsize=1)
def _schema() -> dict[str, Any]:
    return report_schema()


def _lesion(item: dict[str, Any]) -> Finding:
    return Finding(item["候选"], item["类型"], item["侧别"], item["肺叶"], item["密度"], item["大小mm"])


def _effusion(side: str) -> tuple[Finding, ...]:
    return () if side == NO_EFFUSION else (Finding(None, EFFUSION, side, None, None, None),)
