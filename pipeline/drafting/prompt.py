"""The prompts: a whole report at once, or section after section as one text that goes on.

Whole: `[CT影像特征]<ct>…[临床指征]X[科室]放射科[检查所见][诊断意见][建议]`, then the report's JSON.
In sections: `[CT影像特征]<ct>…[临床指征]X[检查所见]`, then the findings, made once and for no department; then `[科室]放射科[描述]`,
`[诊断意见]` and `[建议]`, each behind the answers before it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from pipeline.drafting.departments import RADIOLOGY, control_word
from pipeline.drafting.schema import ADVICE, DESCRIPTION, FINDINGS, IMPRESSION, SECTIONS, section_schema

__all__ = ["NOT_GIVEN", "PLACEHOLDER", "SECTIONS", "clean_indication", "mark", "render", "section_prompt", "section_schema"]

PLACEHOLDER = "<ct>"
NOT_GIVEN = "未提供"
MAX_INDICATION = 64


def clean_indication(indication: str) -> str:
    """One line of at most 64 characters without control characters or markup; 未提供 when nothing is left."""
    text = unicodedata.normalize("NFKC", indication)
    kept = "".join(c for c in text if unicodedata.category(c)[0] != "C" and c not in '<>[]{}"\\')
    return " ".join(kept.split())[:MAX_INDICATION] or NOT_GIVEN


def render(indication: str, feature_count: int, department: str = RADIOLOGY) -> str:
    """Prompt of a whole report for `feature_count` feature rows; the model's JSON answer follows directly."""
    return f"{_head(indication, feature_count)}[科室]{control_word(department)}[{FINDINGS}][{IMPRESSION}][{ADVICE}]"


def section_prompt(section: str, indication: str, feature_count: int, answers: Sequence[str] = (), department: str = RADIOLOGY) -> str:
    """Prompt of one section behind the JSON `answers` of those before it, in the order of SECTIONS; each prompt begins with the one before."""
    before = SECTIONS[: SECTIONS.index(section)]
    marks = (mark(name, department) for name in (*before, section))
    return _head(indication, feature_count) + "".join(f"{text}{answer}" for text, answer in zip(marks, (*answers, ""), strict=True))


def mark(section: str, department: str = RADIOLOGY) -> str:
    """What stands in the prompt before one section's answer."""
    return f"[科室]{control_word(department)}[{section}]" if section == DESCRIPTION else f"[{section}]"


def _head(indication: str, feature_count: int) -> str:
    return f"[CT影像特征]{PLACEHOLDER * feature_count}[临床指征]{clean_indication(indication)}"
