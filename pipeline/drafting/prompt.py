"""The prompt: `[CT影像特征][临床指征][检查所见][诊断意见][建议]`, with one placeholder token per feature row."""

from __future__ import annotations

import unicodedata

PLACEHOLDER = "<ct>"
NOT_GIVEN = "未提供"
MAX_INDICATION = 64


def clean_indication(indication: str) -> str:
    """One line of at most 64 characters without control characters or markup; 未提供 when nothing is left."""
    text = unicodedata.normalize("NFKC", indication)
    kept = "".join(c for c in text if unicodedata.category(c)[0] != "C" and c not in '<>[]{}"\\')
    return " ".join(kept.split())[:MAX_INDICATION] or NOT_GIVEN


def render(indication: str, feature_count: int) -> str:
    """Prompt text for `feature_count` feature rows; the model's JSON answer follows directly."""
    image = PLACEHOLDER * feature_count
    return f"[CT影像特征]{image}[临床指征]{clean_indication(indication)}[检查所见][诊断意见][建议]"
