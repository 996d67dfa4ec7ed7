"""A draft as Markdown: short enough for three o'clock at night, the watermark first and last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.export.changes import changes_markdown
from pipeline.export.elements import findings_markdown
from pipeline.export.inline import inline
from pipeline.model import DEPARTMENTS, Generation

SEVERITY = {"block": "⛔ 须处理", "flag": "⚠ 请核对", "replaced": "✎ 已替换"}  # most urgent first
RESOLVED = "☑ 已说明"
NONE = "—"
REPORT = "radiology"  # the department whose text is the report, and not one for a ward
SCORED = 12  # series or parts of one that are listed, best first
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
        changes_markdown(shown.get("changes", ())),
        findings_markdown(draft["findings"]),
        _source(draft),
        series_markdown(shown.get("series", {})),
        mark,
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def withdrawal_markdown(shown: Mapping[str, Any]) -> str:
    """The notice to whoever has a draft that it must not be used any more; it names the draft and repeats none of its text."""
    study = [f"检查日期 {shown['study_date']}"] if shown.get("study_date") else []
    study += [f"检查号 {inline(shown['accession'])}"] if shown.get("accession") else []
    lines = [
        f"**{WITHDRAWN}**",
        f"# CT 报告草稿撤回通知 · 第 {shown['revision']} 版",
        " · ".join(study),
        f"草稿编号：{shown['draft_id']}",
        f"撤回原因：{inline(str(shown.get('withdrawn') or NONE))}",
        f"报告状态：{shown.get('status') or NONE}" + (f"（{inline(str(shown['signed_by']))}）" if shown.get("signed_by") else ""),
        "请停止使用此前收到的草稿；如已据此书写或签发报告，请由医师核对后处理。",
    ]
    return "\n\n".join(line for line in lines if line) + "\n"


def _head(shown: Mapping[str, Any]) -> str:
    title = ("CT 报告草稿" if shown.get("watermark") else "CT 报告") + _for(shown.get("department"))
    signed = f"（{inline(shown['signed_by'])}）" if shown.get("signed_by") else ""
    study = [f"检查日期 {shown['study_date']}"] if shown.get("study_date") else []
    study += [f"检查号 {inline(shown['accession'])}"] if shown.get("accession") else []
    line = f"# {title} · {shown.get('status') or '待审'}{signed} · 第 {shown['revision']} 版"
    return f"{line}\n\n{' · '.join(study)}" if study else line


def _for(department: object) -> str:
    """Whom the text is for, where it is not the radiology report itself."""
    return f"（{DEPARTMENTS[department]}）" if isinstance(department, str) and department in DEPARTMENTS and department != REPORT else ""


def _flags(flags: Sequence[Mapping[str, Any]]) -> str:
    """Every hit in one line, most urgent first."""
    if not flags:
        return "质检：无提示"
    order = [SEVERITY["block"], RESOLVED, SEVERITY["flag"], SEVERITY["replaced"]]
    ranked = sorted(flags, key=lambda flag: order.index(_mark(flag)))
    counts = "，".join(f"{mark} {n}" for mark in order if (n := sum(_mark(flag) == mark for flag in flags)))
    lines = [f"- {_mark(flag)}〔{flag['section']}〕{inline(flag['message'])}{_answer(flag)}" for flag in ranked]
    return "\n".join([f"质检：{counts}", "", *lines])


def _mark(flag: Mapping[str, Any]) -> str:
    return RESOLVED if flag.get("resolved_at") else SEVERITY[flag["severity"]]


def _answer(flag: Mapping[str, Any]) -> str:
    """Who answers for what blocked, and why."""
    return f"（{inline(flag['resolved_by'])}：{inline(flag['resolution'])}）" if flag.get("resolved_at") else ""


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
        yield line + (f"~~{inline(words)}~~" if struck and words else inline(words)) + found[0][len(words) :]


def _source(draft: Mapping[str, Any]) -> str:
    source, generation = draft["source"], _generation(draft["generation"])
    k = len(generation.accepted_histogram) - 1
    how = "MTP 与查找 k≤" if "lookup" in generation.sources else "MTP k="
    speed = f"{how}{k}，接受率 {generation.acceptance:.0%}" if k > 0 else "逐词生成"
    line = (
        f"来源：{_rung(source)} · {inline(source['model'])} · 规则第 {source['rules_version']} 版 · "
        f"{generation.tokens} 词元，{speed}，{generation.seconds:.1f} 秒"
    )
    edited = [name for name, by in draft.get("section_sources", {}).items() if "rules" in by]
    line += f" · 规则改动：{'、'.join(edited)}" if edited else ""
    return line if draft.get("ood") is None else f"{line} · 图像偏离验证范围 {draft['ood']:.2f}"


def _rung(source: Mapping[str, Any]) -> str:
    """Which rung wrote, and which server where one did."""
    server = source.get("server")
    return f"{source['rung']}（{inline(server)}）" if server else str(source["rung"])


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
        reasons = "；".join(dict.fromkeys(inline(str(one["reason"])) for one in refused))
        return head + (f"（{reasons}）" if reasons else "")
    more = [f"- 另有 {len(scores) - SCORED} 个序列或分组未采用"] if len(scores) > SCORED else []
    return "\n".join([head, "", *(f"- {_scored(one)}" for one in scores[:SCORED]), *more])


def _scored(one: Mapping[str, Any]) -> str:
    """One series, or one stack of it, in a line."""
    name = "".join(
        (
            "序列" if one["number"] is None else f"第 {one['number']} 序列",
            f"「{inline(one['description'])}」" if one["description"] else "",
            f"（{inline(one['stack'])}）" if one["stack"] else "",
        )
    )
    if one["refusal"]:
        return f"未采用 {name}：{inline(one['refusal'])}"
    parts = "，".join(f"{inline(part['reason'])} {part['points']:+d}" for part in one["parts"])
    return f"**采用** {name}，{one['images']} 幅，{one['score']} 分：{parts}"
