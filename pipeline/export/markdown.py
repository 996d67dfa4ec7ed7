"""A draft as Markdown: short enough for three o'clock at night, the watermark first and last."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.model import Generation

SEVERITY = {"block": "⛔ 须处理", "flag": "⚠ 请核对", "replaced": "✎ 已替换"}  # most urgent first
COLUMNS = ("候选", "类型", "侧别", "肺叶", "密度", "大小 mm")
FIELDS = ("candidate", "kind", "side", "lobe", "density", "size_mm")
NONE = "—"
_MARKUP = re.compile(r"[\\`*|<>\[\]]|~(?=~)|(?<=~)~|^#")
_NEXT_NUMBER = re.compile(r"(?<=[。；])(?=\d{1,2}[.、] ?\D)")
WITHDRAWN = "本检查已撤回，此前的 AI 草稿作废"
NO_WATERMARK = "（已由医师签发）"


def draft_markdown(shown: Mapping[str, Any]) -> str:
    """What `ctreport show` prints: flags, sections, findings, source. `shown` holds the keys of DESIGN section 7."""
    draft: Mapping[str, Any] = shown["draft"]
    mark = f"**{shown['watermark']}**" if shown.get("watermark") else NO_WATERMARK
    blocks = [
        mark,
        _head(shown),
        _flags(draft["flags"]),
        *(_section(name, text, draft["flags"]) for name, text in draft["sections"].items()),
        _findings(draft["findings"]),
        _source(draft),
        _series(shown.get("series", {})),
        mark,
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def withdrawal_markdown(shown: Mapping[str, Any]) -> str:
    """The notice to whoever has a draft that it must not be used any more; it names the draft and repeats none of its text."""
    study = [f"检查日期 {shown['study_date']}"] if shown.get("study_date") else []
    study += [f"检查号 {_inline(shown['accession'])}"] if shown.get("accession") else []
    lines = [
        f"**{WITHDRAWN}**",
        f"# CT 报告草稿撤回通知 · 第 {shown['revision']} 版",
        " · ".join(study),
        f"草稿编号：{shown['draft_id']}",
        f"撤回原因：{_inline(str(shown.get('withdrawn') or NONE))}",
        f"报告状态：{shown.get('status') or NONE}" + (f"（{_inline(str(shown['signed_by']))}）" if shown.get("signed_by") else ""),
        "请停止使用此前收到的草稿；如已据此书写或签发报告，请由医师核对后处理。",
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def _head(shown: Mapping[str, Any]) -> str:
    title = "CT 报告草稿" if shown.get("watermark") else "CT 报告"
    signed = f"（{_inline(shown['signed_by'])}）" if shown.get("signed_by") else ""
    study = [f"检查日期 {shown['study_date']}"] if shown.get("study_date") else []
    study += [f"检查号 {_inline(shown['accession'])}"] if shown.get("accession") else []
    line = f"# {title} · {shown.get('status') or '待审'}{signed} · 第 {shown['revision']} 版"
    return f"{line}\n\n{' · '.join(study)}" if study else line


def _flags(flags: Sequence[Mapping[str, Any]]) -> str:
    """Every hit in one line, most urgent first."""
    if not flags:
        return "质检：无提示"
    order = list(SEVERITY)
    ranked = sorted(flags, key=lambda flag: order.index(flag["severity"]))
    counts = "，".join(f"{SEVERITY[name]} {n}" for name in order if (n := sum(flag["severity"] == name for flag in flags)))
    lines = [f"- {SEVERITY[flag['severity']]}〔{flag['section']}〕{_inline(flag['message'])}" for flag in ranked]
    return "\n".join([f"质检：{counts}", "", *lines])


def _section(name: str, text: str, flags: Sequence[Mapping[str, Any]]) -> str:
    """One section, each numbered statement on its own line; a blocked one is struck through."""
    blocked = any(flag["severity"] == "block" and flag["section"] == name for flag in flags)
    if not text.strip():
        return f"## {name}\n\n（空）"
    paragraphs = [_inline(line.strip()) for line in _NEXT_NUMBER.sub("\n", text).splitlines() if line.strip()]
    body = [f"~~{line}~~" for line in paragraphs] if blocked else paragraphs
    return f"## {name}\n\n" + "  \n".join(body)


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return ""
    rows = [[_cell(finding.get(field)) for field in FIELDS] for finding in findings]
    table = [COLUMNS, ("---",) * len(COLUMNS), *rows]
    return "## 结构化所见\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in table)


def _source(draft: Mapping[str, Any]) -> str:
    source, made = draft["source"], draft["generation"]
    generation = Generation(made["tokens"], made["verify_count"], tuple(made["accepted_histogram"]), made["seconds"])
    k = len(generation.accepted_histogram) - 1
    speed = f"MTP k={k}，接受率 {generation.acceptance:.0%}" if k > 0 else "逐词生成"
    return (
        f"来源：{source['rung']} · {_inline(source['model'])} · 规则第 {source['rules_version']} 版 · "
        f"{generation.tokens} 词元，{speed}，{generation.seconds:.1f} 秒"
    )


def _series(series: Mapping[str, Any]) -> str:
    """How many series were read, and why the others were not. Series are counted, not named: UIDs help nobody who reads."""
    refused = series.get("refused", ())
    reasons = "；".join(dict.fromkeys(_inline(str(one["reason"])) for one in refused))
    return f"序列：采用 {len(series.get('chosen', ()))} 个，未采用 {len(refused)} 个" + (f"（{reasons}）" if reasons else "")


def _cell(value: object) -> str:
    return NONE if value is None else _inline(str(value))


def _inline(text: str) -> str:
    """Text that cannot become markup: what Markdown or HTML would read as such is escaped."""
    return _MARKUP.sub(r"\\\g<0>", text.replace("\n", " "))
