"""The dose warning: the draft asks for more CT although the past window's effective dose exceeds the threshold."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache

from pipeline.checking import CheckContext, Hit, RuleSet
from pipeline.irradiation import DoseEvent, DoseRule
from pipeline.model import Report, Severity
from pipeline.rules.factors import REGION_NAMES
from pipeline.rules.outcome import Outcome
from pipeline.rules.spans import Span, clauses, find_pattern, folded, recommended

ID, VERSION = "dose.cumulative", 1
PREFIX = "dose."  # of the hits that are not named after a rule's row
DOUBT_ID = "dose.identity"
ADVICE = "建议"
LISTED_DAYS = 6
HOLDS_NO_LONGER = "按最新剂量记录，此剂量预警已不成立，请核对。"
_NOT_CT = re.compile(r"MR|磁共振|核磁|超声")


@dataclass(frozen=True, slots=True)
class Day:
    """What the examinations of one day gave."""

    when: date
    regions: tuple[str, ...]
    msv: float


@dataclass(frozen=True, slots=True)
class Cumulated:
    """Effective dose of a window: each event once. `unreadable` events have no usable dose; doubtful ones may be another patient's."""

    msv: float
    events: int
    days: tuple[Day, ...]
    factors: tuple[float, ...]
    unreadable: int
    doubtful: int
    doubtful_msv: float

    @property
    def dates(self) -> tuple[date, ...]:
        """The days of examinations with dose."""
        return tuple(day.when for day in self.days)


def warn(report: Report, ruleset: RuleSet, context: CheckContext) -> Outcome:
    """Put the message of each rule that fires at the beginning of 建议, in place of those of an earlier run."""
    body = without_warnings(report.advice, ruleset.dose)
    asking = replace(report, advice=body)
    totals = [(rule, cumulated(context, rule)) for rule in sorted(ruleset.dose, key=lambda rule: rule.id) if applies(rule, context)]
    totals = [(rule, total) for rule, total in totals if total.msv + total.doubtful_msv > rule.threshold_msv and asks_for_ct(asking, rule.triggers)]
    fired = [(rule, total) for rule, total in totals if total.msv > rule.threshold_msv]
    warnings = [_warning(rule, total, context) for rule, total in fired]
    hits = [_hit(rule, total, context, span) for (rule, total), span in zip(fired, _spans(warnings), strict=True)]
    hits += [_doubt(rule, total) for rule, total in totals if total.doubtful]
    advice = "".join(warnings) + body
    return Outcome(replace(report, advice=advice), tuple(hits), len(advice) - len(report.advice))


def warn_again(report: Report, hits: Sequence[Hit], ruleset: RuleSet, context: CheckContext, *, untouched: bool) -> tuple[Report, tuple[Hit, ...]]:
    """A draft and its hits when more is known of the dose. What a reader has touched keeps its text: a new warning is then only a flag, and one that
    holds no longer says so."""
    mine = [hit for hit in hits if hit.rule.startswith(PREFIX) or any(hit.rule == rule.id for rule in ruleset.dose)]
    others = [hit for hit in hits if hit not in mine]
    old_end = max((hit.end for hit in mine), default=0)
    outcome = warn(replace(report, advice=report.advice[old_end:]), ruleset, context)
    if untouched:
        shift = len(outcome.report.advice) - len(report.advice)
        return outcome.report, (*outcome.hits, *(_moved(hit, shift) for hit in others))
    places = {hit.rule: hit for hit in mine}
    return report, (*(_where_it_stood(hit, places) for hit in outcome.hits), *_gone(mine, outcome.hits), *others)


def _where_it_stood(hit: Hit, places: dict[str, Hit]) -> Hit:
    """The new message at the old one's span, or at none."""
    old = places.get(hit.rule)
    return replace(hit, start=old.start, end=old.end) if old is not None else replace(hit, start=0, end=0)


def _gone(old: Sequence[Hit], new: Sequence[Hit]) -> list[Hit]:
    """A warning that holds no longer, but whose text somebody may have read: it says so."""
    rules = {hit.rule for hit in new}
    return [replace(hit, message=HOLDS_NO_LONGER) for hit in old if hit.rule not in rules]


def _moved(hit: Hit, by: int) -> Hit:
    return replace(hit, start=hit.start + by, end=hit.end + by) if hit.section == ADVICE and hit.end > 0 else hit


def applies(rule: DoseRule, context: CheckContext) -> bool:
    """Is the rule for a patient of this age? An unknown age is not left out."""
    age = context.age_years
    if age is None:
        return True
    return (rule.min_age_years is None or age >= rule.min_age_years) and (rule.max_age_years is None or age < rule.max_age_years)


def months_before(day: date, months: int) -> date:
    """The same day `months` calendar months earlier, or the last day of that month."""
    years, month = divmod(day.year * 12 + day.month - 1 - months, 12)
    last = calendar.monthrange(years, month + 1)[1]
    return date(years, month + 1, min(day.day, last))


def cumulated(context: CheckContext, rule: DoseRule) -> Cumulated:
    """Dose by examination date: after the window's first day, up to the study's own day; never later examinations. The order changes nothing.

    Of several records of one event the largest counts; by how much a doubtful record exceeds that is doubtful.
    """
    since = months_before(context.study_date, rule.window_months)
    inside = [event for event in context.doses if since < event.when <= context.study_date and (not rule.region or event.region == rule.region)]
    counted = _largest(event for event in inside if _usable(event) and not event.doubt)
    doubted = _largest(event for event in inside if _usable(event) and event.doubt)
    excess = {uid: event.msv - (counted[uid].msv if uid in counted else 0.0) for uid, event in doubted.items()}
    doubtful = [msv for uid, msv in excess.items() if msv > 0 or uid not in counted]
    return Cumulated(
        msv=math.fsum(event.msv for event in counted.values()),
        events=len(counted),
        days=_days(counted.values()),
        factors=tuple(sorted({event.k for event in counted.values() if event.k is not None and event.msv > 0})),
        unreadable=len({event.event_uid for event in inside} - counted.keys() - doubted.keys()),
        doubtful=len(doubtful),
        doubtful_msv=math.fsum(doubtful),
    )


def _largest(events: Iterable[DoseEvent]) -> dict[str, DoseEvent]:
    """By UID the record with the largest dose; the newest of equal ones."""
    found: dict[str, DoseEvent] = {}
    for event in events:
        other = found.get(event.event_uid)
        found[event.event_uid] = event if other is None else max(event, other, key=_rank)
    return found


def _rank(event: DoseEvent) -> tuple[float, date, str, float]:
    return event.msv, event.when, event.region, event.k or 0.0


def _days(events: Iterable[DoseEvent]) -> tuple[Day, ...]:
    by_day: dict[date, list[DoseEvent]] = {}
    for event in events:
        by_day.setdefault(event.when, []).append(event)
    return tuple(
        Day(when, tuple(sorted({REGION_NAMES.get(event.region, event.region) for event in group if event.msv > 0})), math.fsum(e.msv for e in group))
        for when, group in sorted(by_day.items())
    )


def _usable(event: DoseEvent) -> bool:
    return math.isfinite(event.msv) and event.msv >= 0


def asks_for_ct(report: Report, triggers: Sequence[str]) -> bool:
    """建议 asks by naming a trigger without negating it; 诊断意见 only where a word of recommendation stands before it."""
    return any(_asked(report.advice, triggers, needs_cue=False)) or any(_asked(report.impression, triggers, needs_cue=True))


def _asked(text: str, triggers: Sequence[str], needs_cue: bool) -> Iterable[bool]:
    whole = folded(text)
    patterns = _folded(tuple(triggers))
    for span in clauses(whole):
        clause = whole[span.start : span.end]
        if _NOT_CT.search(clause) and "CT" not in clause:
            continue
        for pattern in patterns:
            place = find_pattern(clause, pattern)
            if place is not None:
                cue = recommended(clause, place)
                yield cue is True or (cue is None and not needs_cue)


@lru_cache(maxsize=64)
def _folded(triggers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(folded, triggers))


def _warning(rule: DoseRule, total: Cumulated, context: CheckContext) -> str:
    """`message（…）。` in one form, so that a later run finds it."""
    parts = [f"近{rule.window_months}个月累积有效剂量 {total.msv:.1f} mSv，超过阈值 {rule.threshold_msv:g} mSv"]
    parts.append(f"{len(total.days)} 个检查日、{total.events} 次照射：{_listed(total.days)}")
    if total.factors:
        parts.append(f"k={'、'.join(f'{k:g}' for k in total.factors)} mSv/(mGy·cm)")
    parts += _missing(total, context)
    return f"{rule.message}（{'；'.join(parts)}）。"


def _listed(days: Sequence[Day]) -> str:
    """The newest days, each with its regions and dose."""
    listed = "、".join(f"{day.when:%Y-%m-%d} {'+'.join(day.regions)} {day.msv:.1f}" for day in days[-LISTED_DAYS:])
    return listed + (f" 等 {len(days)} 日" if len(days) > LISTED_DAYS else "")


def _missing(total: Cumulated, context: CheckContext) -> list[str]:
    parts = [f"另有 {context.doses_missing} 次检查缺剂量记录，未计入"] if context.doses_missing else []
    parts += [f"另有 {total.unreadable} 次照射无可用剂量，未计入"] if total.unreadable else []
    parts += [f"另有 {total.doubtful} 次照射身份存疑，未计入"] if total.doubtful else []
    return parts


def _hit(rule: DoseRule, total: Cumulated, context: CheckContext, span: Span) -> Hit:
    without = context.missing_dates[-LISTED_DAYS:]
    missing = f"缺剂量的检查：{'、'.join(f'{day:%Y-%m-%d}' for day in without)}{'等' if len(context.missing_dates) > len(without) else ''}。"
    message = f"{_warning(rule, total, context)}{missing if without else ''}"
    return Hit(rule.id, rule.version, Severity.FLAG, ADVICE, span.start, span.end, message)


def _doubt(rule: DoseRule, total: Cumulated) -> Hit:
    """What was left out of the sum because the names do not agree: a person must look, for with it the threshold is exceeded."""
    message = (
        f"【剂量核对】近{rule.window_months}个月有 {total.doubtful} 次照射（{total.doubtful_msv:.1f} mSv）的患者姓名、出生日期或归属存疑，"
        f"未计入累积剂量 {total.msv:.1f} mSv；请核对患者身份。"
    )
    return Hit(DOUBT_ID, VERSION, Severity.FLAG, ADVICE, 0, 0, message)


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
    return _warnings(tuple(rule.message for rule in rules)).sub("", text) if rules else text


@lru_cache(maxsize=64)
def _warnings(messages: tuple[str, ...]) -> re.Pattern[str]:
    """Any of the messages in the form of `_warning`, at the beginning of a text."""
    return re.compile(rf"\A(?:(?:{'|'.join(map(re.escape, messages))})（[^（）]*）。)+")
