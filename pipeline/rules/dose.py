"""The dose warning: the draft asks for more CT although the past window's effective dose exceeds the threshold."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date

from pipeline.model import CheckContext, DoseEvent, DoseRule, Hit, Report, RuleSet, Severity
from pipeline.rules.outcome import Outcome
from pipeline.rules.spans import Span, clauses, find_pattern, folded, recommended

ID, VERSION = "dose.cumulative", 1
ADVICE = "建议"
LISTED_DATES = 6
_NOT_CT = re.compile(r"MR|磁共振|核磁|超声")


@dataclass(frozen=True, slots=True)
class Cumulated:
    """Effective dose of a window: each event once. `unreadable` events have no usable dose."""

    msv: float
    events: int
    dates: tuple[date, ...]
    unreadable: int


def warn(report: Report, ruleset: RuleSet, context: CheckContext) -> Outcome:
    """Put the message of each rule that fires at the beginning of 建议, in place of those of an earlier run."""
    fired = [
        (rule, total)
        for rule in sorted(ruleset.dose, key=lambda rule: rule.id)
        if (total := cumulated(context, rule.window_months)).msv > rule.threshold_msv and asks_for_ct(report, rule.triggers)
    ]
    if not fired:
        return Outcome(report)
    warnings = [_warning(rule, total, context) for rule, total in fired]
    body = without_warnings(report.advice, ruleset.dose)
    advice = "".join(warnings) + body
    hits = [_hit(rule, total, context, span) for (rule, total), span in zip(fired, _spans(warnings), strict=True)]
    return Outcome(replace(report, advice=advice), tuple(hits), len(advice) - len(report.advice))


def months_before(day: date, months: int) -> date:
    """The same day `months` calendar months earlier, or the last day of that month."""
    years, month = divmod(day.year * 12 + day.month - 1 - months, 12)
    last = calendar.monthrange(years, month + 1)[1]
    return date(years, month + 1, min(day.day, last))


def cumulated(context: CheckContext, window_months: int) -> Cumulated:
    """Dose by examination date: after the window's first day, up to the study's own day; never later examinations."""
    since = months_before(context.study_date, window_months)
    inside = {event.event_uid: event for event in context.doses if since < event.when <= context.study_date}
    usable = [event for event in inside.values() if _usable(event)]
    dates = tuple(sorted({event.when for event in usable}))
    return Cumulated(math.fsum(event.msv for event in usable), len(usable), dates, len(inside) - len(usable))


def _usable(event: DoseEvent) -> bool:
    return math.isfinite(event.msv) and event.msv >= 0


def asks_for_ct(report: Report, triggers: Sequence[str]) -> bool:
    """建议 asks by naming a trigger without negating it; 诊断意见 only where a word of recommendation stands before it."""
    return any(_asked(report.advice, triggers, needs_cue=False)) or any(_asked(report.impression, triggers, needs_cue=True))


def _asked(text: str, triggers: Sequence[str], needs_cue: bool) -> Iterable[bool]:
    whole = folded(text)
    patterns = [folded(trigger) for trigger in triggers]
    for span in clauses(whole):
        clause = whole[span.start : span.end]
        if _NOT_CT.search(clause) and "CT" not in clause:
            continue
        for pattern in patterns:
            place = find_pattern(clause, pattern)
            if place is not None:
                cue = recommended(clause, place)
                yield cue is True or (cue is None and not needs_cue)


def _warning(rule: DoseRule, total: Cumulated, context: CheckContext) -> str:
    """`message（…）。` in one form, so that a later run finds it."""
    parts = [f"近{rule.window_months}个月累积有效剂量 {total.msv:.1f} mSv，超过阈值 {rule.threshold_msv:g} mSv"]
    parts.append(f"{len(total.dates)} 个检查日、{total.events} 次照射")
    missing = context.doses_missing + total.unreadable
    parts += [f"另有 {missing} 次检查缺剂量记录，未计入"] if missing else []
    return f"{rule.message}（{'；'.join(parts)}）。"


def _hit(rule: DoseRule, total: Cumulated, context: CheckContext, span: Span) -> Hit:
    listed = "、".join(f"{day:%Y-%m-%d}" for day in total.dates[-LISTED_DATES:])
    more = f"等 {len(total.dates)} 日" if len(total.dates) > LISTED_DATES else ""
    message = f"{_warning(rule, total, context)}检查日期：{listed}{more}"
    return Hit(rule.id, rule.version, Severity.FLAG, ADVICE, span.start, span.end, message)


def _spans(warnings: Sequence[str]) -> Iterable[Span]:
    start = 0
    for warning in warnings:
        yield Span(start, start + len(warning))
        start += len(warning)


def warning_spans(text: str, rules: Sequence[DoseRule]) -> tuple[Span, ...]:
    """Warnings of an earlier run at the beginning of a text, in one span."""
    end = len(text) - len(without_warnings(text, rules))
    return (Span(0, end),) if end else ()


def without_warnings(text: str, rules: Sequence[DoseRule]) -> str:
    """The text behind the warnings of an earlier run."""
    messages = "|".join(re.escape(rule.message) for rule in rules)
    return re.sub(rf"\A(?:(?:{messages})（[^（）]*）。)+", "", text) if messages else text
