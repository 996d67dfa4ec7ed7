"""A draft as Markdown: short enough for three o'clock at night, the watermark first and last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.model import Generation

SEVERITY = {"block": "⛔ 须处理", "flag": "⚠ 请核对", "replaced": "✎ 已替换"}  # most urgent first
RESOLVED = "☑ 已说明"
COLUMNS = {"candidate": "候选", "kind": "类型", "side": "侧别", "lobe": "肺叶", "density": "密度", "size_mm": "大小 mm"}
MORE = {"margin": "边缘", "internal": "内部结构", "surround": "周围改变"}  # shown where a finding has it
NONE = "—"
SCORED = 12  # series or parts of one that are listed, best first
_MARKUP = re.compile(r"[\\`*|<>\[\]]|~(?=~)|(?<=~)~|^#")
_NEXT_NUMBER = re.compile(r"(?<=[。；])(?=\d{1,2}[.、] ?\D)")
_SENTENCE = re.compile(r"[^。；！!？?\n]*(?:[。；！!？?\n]+\s*|\Z)")
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
        series_markdown(shown.get("series", {})),
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
    order = [SEVERITY["block"], RESOLVED, SEVERITY["flag"], SEVERITY["replaced"]]
    ranked = sorted(flags, key=lambda flag: order.index(_mark(flag)))
    counts = "，".join(f"{mark} {n}" for mark in order if (n := sum(_mark(flag) == mark for flag in flags)))
    lines = [f"- {_mark(flag)}〔{flag['section']}〕{_inline(flag['message'])}{_answer(flag)}" for flag in ranked]
    return "\n".join([f"质检：{counts}", "", *lines])


def _mark(flag: Mapping[str, Any]) -> str:
    return RESOLVED if flag.get("resolved_at") else SEVERITY[flag["severity"]]


def _answer(flag: Mapping[str, Any]) -> str:
    """Who answers for what blocked, and why."""
    return f"（{_inline(flag['resolved_by'])}：{_inline(flag['resolution'])}）" if flag.get("resolved_at") else ""


def _section(name: str, text: str, flags: Sequence[Mapping[str, Any]]) -> str:
    """One section, each numbered statement on its own line; sentences that are blocked are struck through."""
    if not text.strip():
        return f"## {name}\n\n（空）"
    body = "".join(_pieces(text, [flag for flag in flags if flag["section"] == name and _blocks(flag)]))
    return f"## {name}\n\n" + "  \n".join(line.strip() for line in body.splitlines() if line.strip())


def _blocks(flag: Mapping[str, Any]) -> bool:
    """Nobody has answered for it yet."""
    return flag["severity"] == "block" and not flag.get("resolved_at")


def _pieces(text: str, blocking: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Sentences with what stands between them; one that a hit which blocks touches is struck through, by a hit without a span each is."""
    numbered = {found.start() for found in _NEXT_NUMBER.finditer(text)}
    for found in _SENTENCE.finditer(text):
        words = found[0].rstrip()
        struck = any(flag["end"] == 0 or (flag["start"] < found.end() and found.start() < flag["end"]) for flag in blocking)
        line = "\n" if found.start() in numbered else ""
        yield line + (f"~~{_inline(words)}~~" if struck and words else _inline(words)) + found[0][len(words) :]


def _findings(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return ""
    columns = COLUMNS | {field: title for field, title in MORE.items() if any(finding.get(field) for finding in findings)}
    rows = [[_cell(finding.get(field)) for field in columns] for finding in findings]
    table = [columns.values(), ("---",) * len(columns), *rows]
    return "## 结构化所见\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in table)


def _source(draft: Mapping[str, Any]) -> str:
    source, generation = draft["source"], _generation(draft["generation"])
    k = len(generation.accepted_histogram) - 1
    how = "MTP 与查找 k≤" if "lookup" in generation.sources else "MTP k="
    speed = f"{how}{k}，接受率 {generation.acceptance:.0%}" if k > 0 else "逐词生成"
    line = (
        f"来源：{source['rung']} · {_inline(source['model'])} · 规则第 {source['rules_version']} 版 · "
        f"{generation.tokens} 词元，{speed}，{generation.seconds:.1f} 秒"
    )
    return line if draft.get("ood") is None else f"{line} · 图像偏离验证范围 {draft['ood']:.2f}"


def _generation(made: Mapping[str, Any]) -> Generation:
    positions = tuple((drafted, accepted) for drafted, accepted in made.get("positions", ()))
    steps = (made["tokens"], made["verify_count"], tuple(made["accepted_histogram"]), made["seconds"])
    return Generation(*steps, positions=positions, sources=made.get("sources", {}))


def series_markdown(series: Mapping[str, Any]) -> str:
    """Which series was read and why, and why each other one was not. Series go by their number: UIDs help nobody who reads."""
    refused = series.get("refused", ())
    head = f"序列：采用 {len(series.get('chosen', ()))} 个，未采用 {len(refused)} 个"
    scores = series.get("scores") or ()
    if not scores:  # of a job assembled before scores were kept
        reasons = "；".join(dict.fromkeys(_inline(str(one["reason"])) for one in refused))
        return head + (f"（{reasons}）" if reasons else "")
    more = [f"- 另有 {len(scores) - SCORED} 个序列或分组未采用"] if len(scores) > SCORED else []
    return "\n".join([head, "", *(f"- {_scored(one)}" for one in scores[:SCORED]), *more])


def _scored(one: Mapping[str, Any]) -> str:
    """One series, or one stack of it, in a line."""
    name = "".join(
        (
            "序列" if one["number"] is None else f"第 {one['number']} 序列",
            f"「{_inline(one['description'])}」" if one["description"] else "",
            f"（{_inline(one['stack'])}）" if one["stack"] else "",
        )
    )
    if one["refusal"]:
        return f"未采用 {name}：{_inline(one['refusal'])}"
    parts = "，".join(f"{_inline(part['reason'])} {part['points']:+d}" for part in one["parts"])
    return f"**采用** {name}，{one['images']} 幅，{one['score']} 分：{parts}"


def _cell(value: object) -> str:
    return NONE if value is None else _inline(str(value))


def _inline(text: str) -> str:
    """Text that cannot become markup: what Markdown or HTML would read as such is escaped."""
    return _MARKUP.sub(r"\\\g<0>", text.replace("\n", " "))
