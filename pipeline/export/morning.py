"""The morning report as Markdown: what is ready, what is not and why, how long it took; times in the site's zone, no patient data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from pipeline.export.inline import inline
from pipeline.model import DEPARTMENTS

PRIORITIES = {"all": "全部", "stat": "急诊", "inpatient": "住院", "routine": "常规", "night": "夜间"}
TIMES = {"arrival_to_draft_s": "到达→草稿", "draft_to_opened_s": "草稿→打开", "opened_to_signed_s": "打开→签发"}
KINDS = {"unread": "待读", "prior": "既往", "backlog": "积压"}
SEVERITIES = {"block": "须处理", "flag": "请核对", "replaced": "已替换"}
CHARTS = {"jump": "当夜突变", "trend": "持续变化"}
FIGURES = {
    "fields": "字段齐全",
    "terms": "非规范用语",
    "sides": "侧别相符",
    "repetition": "重复语句",
    "length": "报告字数",
    "acceptance": "草稿接受率",
}
STATES = {"failed": "失败", "unsupported": "不支持"}
NONE = "—"
LISTED = 20  # studies that are named; the JSON names all


def morning_markdown(facts: Mapping[str, Any], zone: ZoneInfo) -> str:
    """The report of `flow.morning.morning` for people."""
    blocks = [
        _head(facts, zone),
        _counts(facts),
        _not_ready(facts["not_ready"], zone),
        _failed(facts["failed"]),
        _flags(facts["flags"]),
        _drift(facts["drift"]),
        _times(facts),
        _departments(facts["departments"]),
    ]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _head(facts: Mapping[str, Any], zone: ZoneInfo) -> str:
    window = facts["window"]
    span = f"{_time(window['opens'], zone)} 至 {_time(window['closes'], zone)}"
    return f"# 夜班晨报\n\n时段 {span}；首位阅片 {_time(facts['first_reader'], zone)}；生成于 {_time(facts['made_at'], zone)}"


def _counts(facts: Mapping[str, Any]) -> str:
    studies, planned, hours = facts["studies"], facts["planned"], facts["hours"]
    kinds = "，".join(f"{KINDS[kind]} {planned['kinds'][kind]}" for kind in KINDS if kind in planned["kinds"])
    rows = [
        ("计划", f"{studies['planned']}" + (f"（{kinds}）" if kinds else "")),
        ("计划外到达", str(studies["arrived"])),
        ("已有草稿", str(studies["ready"])),
        ("其中资料不完整", str(studies["partial"])),
        ("失败", str(studies["failed"])),
        ("未完成", str(studies["open"])),
        ("草稿接受率", _share(facts["acceptance"])),
        ("计算时间", f"CPU {hours['cpu']:.2f} 小时，GPU {hours['gpu']:.2f} 小时"),
    ]
    pace = (facts["plan"] or {}).get("pace")
    if pace:
        basis = f"据 {pace['measured_on']} 例实测" if pace["measured_on"] else "尚无实测，为估计"
        rows.append(("每例用时", f"编码 {pace['encode_s']:.1f} 秒，撰写 {pace['draft_s']:.1f} 秒（{basis}）"))
    return "\n".join(["| 项目 | 数 |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows)])


def _not_ready(rows: Sequence[Mapping[str, Any]], zone: ZoneInfo) -> str:
    if not rows:
        return "## 首位阅片时均已就绪"
    lines = [
        f"- {row['id']} {PRIORITIES[row['priority']]}：{STATES.get(row['state'], row['step'] or row['state'])}"
        + (f"，预计 {_time(row['expected_at'], zone)}" if row["expected_at"] and row["state"] not in STATES else "")
        + (f"，{inline(row['reason'])}" if row["reason"] else "")
        for row in rows[:LISTED]
    ]
    more = [f"- 另有 {len(rows) - LISTED} 例"] if len(rows) > LISTED else []
    return "\n".join([f"## 首位阅片时未就绪：{len(rows)} 例", "", *lines, *more])


def _failed(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    lines = [f"- {row['count']} 例{STATES.get(row['state'], row['state'])}：{inline(row['reason']) or NONE}" for row in rows]
    return "\n".join(["## 失败原因", "", *lines])


def _flags(flags: Mapping[str, Any]) -> str:
    if not flags["drafts"]:
        return ""
    severities = "，".join(f"{SEVERITIES.get(name, name)} {count}" for name, count in flags["severity"].items())
    rules = "，".join(f"{inline(name)} {count}" for name, count in flags["rule"].items())
    return f"## 标记\n\n{flags['drafts']} 份草稿有标记：{severities}。规则：{rules}"


def _drift(sample: Mapping[str, Any] | None) -> str:
    """Alarms of the nightly sample; that there was none is said as well, and that nobody could tell yet."""
    if sample is None:
        return "## 质量抽样\n\n本夜尚未抽样"
    learning = f"；基线尚缺 {sample['learning']} 份，暂不能判断" if sample["learning"] else ""
    head = f"## 质量抽样\n\n抽查 {sample['sampled']} / {sample['drafts']} 份草稿{learning}"
    if not sample["alarms"]:
        return head if learning else f"{head}；无漂移"
    return "\n".join([f"{head}；漂移 {len(sample['alarms'])} 项", "", *map(_alarm, sample["alarms"])])


def _alarm(alarm: Mapping[str, str]) -> str:
    figure, chart = FIGURES.get(alarm["figure"], alarm["figure"]), CHARTS.get(alarm["chart"], alarm["chart"])
    departments = "、".join(DEPARTMENTS.get(name, name) for name in alarm["department"].split(", "))
    where = f"设备 {inline(alarm['scanner'])}；科室 {inline(departments)}；模型 {inline(alarm['model'])}；规则 {alarm['rules']}"
    fresh = f"；新出现：{inline(alarm['fresh'])}" if alarm["fresh"] else ""
    return f"- {figure}（{chart}）：{alarm['value']}，预期 {alarm['expected']}，界限 {alarm['limit']}；{where}{fresh}"


def _times(facts: Mapping[str, Any]) -> str:
    lines = ["## 用时（中位数 / P95，分钟）", "", f"| 优先级 | {' | '.join(TIMES.values())} |", "|---|---|---|---|"]
    for key, name in PRIORITIES.items():
        cells = [_spread(facts[time].get(key)) for time in TIMES]
        if any(cell != NONE for cell in cells):
            lines.append(f"| {name} | {' | '.join(cells)} |")
    article = facts["reading_minutes_of_the_source_article"]
    return "\n".join([*lines, "", f"来源文章：每份报告 {article['before']} → {article['with_drafts']} 分钟。阅片用时取最近 24 小时内打开的报告。"])


def _departments(rows: Mapping[str, Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    lines = ["## 科室", "", f"| 科室 | 草稿 | 不完整 | 未生成 | 标记 | 接受率 | {' | '.join(TIMES.values())} | CPU / GPU 小时 |"]
    lines.append("|---|---|---|---|---|---|---|---|---|---|")
    for name, row in rows.items():
        times = " | ".join(_spread(row[time].get("all")) for time in TIMES)
        counts = f"{row['ready']} | {row['partial']} | {row['unwritten']} | {row['flags']['drafts']} | {_share(row['acceptance'])}"
        hours = f"{row['hours']['cpu']:.2f} / {row['hours']['gpu']:.2f}"
        lines.append(f"| {DEPARTMENTS.get(name, name)} | {counts} | {times} | {hours} |")
    return "\n".join(lines)


def _spread(figures: Mapping[str, float] | None) -> str:
    return NONE if figures is None else f"{figures['median'] / 60:.1f} / {figures['p95'] / 60:.1f}（{figures['n']:.0f}）"


def _share(value: float | None) -> str:
    return NONE if value is None else f"{100 * value:.0f} %"


def _time(moment: str | None, zone: ZoneInfo) -> str:
    return NONE if moment is None else datetime.fromisoformat(moment).astimezone(zone).strftime("%m-%d %H:%M")
