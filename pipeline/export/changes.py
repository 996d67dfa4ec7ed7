"""What is new in a draft, sentence by sentence, as readers see it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from pipeline.export.inline import inline

CAUSES = {"images": "图像有更新", "order": "申请单已更正", "rerun": "重新生成", "rules": "规则已更新"}
NOT_APPLIED = "医师已打开报告，原文未改"
_SENTENCE = re.compile(r"[^。；！？\n]*[。；！？\n]+|[^。；！？\n]+")


def changes_markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The differences of `ctreport show`; empty where there is none."""
    if not rows:
        return ""
    return "\n".join(["## 变更", *(line for row in rows for line in _lines(row))])


def _lines(row: Mapping[str, Any]) -> list[str]:
    why = CAUSES[row["cause"]] + ("" if row["applied"] else f"；{NOT_APPLIED}")
    return ["", f"{row['section']}（{why}）：", *(f"- {mark}：{inline(text)}" for mark, text in differences(row["before"], row["after"]))]


def differences(before: str, after: str) -> list[tuple[str, str]]:
    """Sentences that have gone (原) and that are new (新), in reading order."""
    old, new = _SENTENCE.findall(before), _SENTENCE.findall(after)
    found = []
    for kind, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal":
            found += [("原", text) for text in ("".join(old[a:b]).strip(),) if text]
            found += [("新", text) for text in ("".join(new[c:d]).strip(),) if text]
    return found
