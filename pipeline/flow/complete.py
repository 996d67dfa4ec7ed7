"""Complete: has everything of a study arrived? Evidence in, verdict out; the clock is in the evidence.

Nothing is complete while an association that brought images is open, however long it pauses. Then the study must stay quiet: for
`settle_s` where MPPS named every image and all are here, for `quiet_s` without any sign of trouble, for `patience_s` while something
is missing (then it goes on as partial, with the reasons). `force_after_s` after the arrival began it goes on in any case, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pipeline.evidence import Evidence, Gap, Patience, RequiredSeries, StepEvidence, Verdict, VerdictKind
from pipeline.flow.choose import fits, volumes
from pipeline.flow.places import gaps
from pipeline.model import Study

LOOK_AGAIN_S = 1.0
TOLD_GAPS = 3
OPEN = "仍有 {n} 个发送连接未关闭"
QUIET = "仍在收图"
FORCED = "等待超过上限（{limit:.0f} 秒），按现有图像继续"
ABORTED = "有 {n} 个发送连接被中断或有图像未能收下，之后没有补传"
LOST = "有 {n} 个发送连接断线（或接收服务曾重启），之后没有补传"
IN_PROGRESS = "检查步骤（MPPS）尚未结束"
DISCONTINUED = "检查步骤（MPPS）被中止"
SHORT = "检查步骤（MPPS）列出 {expected} 幅图像，还缺 {missing} 幅"
REQUIRED = "缺少必需序列：{names}"
GAP = "{number}序列「{series}」{place}缺 {missing} 层（{after_mm:.1f} mm 处）"
PLACE, SHOWN = "第 {after} 层后", "图像 {0} 与 {1} 之间"
NUMBER = "第 {number} "
MORE_GAPS = "另有 {n} 处缺层"
UNNAMED = "未命名"


def judge(evidence: Evidence, patience: Patience) -> Verdict:
    """What the evidence comes to. Never complete or partial while an association is open, but for a forced one; never wait past the limit."""
    broken = (*_missing(evidence), *_cut_short(evidence))
    left_s = patience.force_after_s - evidence.age_s
    pending: tuple[str, ...]
    if evidence.associations_open:
        pending, waits_s = (OPEN.format(n=evidence.associations_open),), max(patience.settle_s, LOOK_AGAIN_S)
    else:
        pending, waits_s = _missing(evidence) or (QUIET,), _needed_s(evidence, patience) - evidence.quiet_s
    if waits_s <= 0:
        return Verdict(VerdictKind.PARTIAL if broken else VerdictKind.COMPLETE, evidence, broken)
    if left_s <= 0:
        forced = FORCED.format(limit=patience.force_after_s)
        return Verdict(VerdictKind.PARTIAL, evidence, tuple(dict.fromkeys((forced, *pending, *broken))), forced=True)
    return Verdict(VerdictKind.WAIT, evidence, pending, wait_s=min(waits_s, left_s))


def _needed_s(evidence: Evidence, patience: Patience) -> float:
    """How long the study must have been quiet."""
    if _missing(evidence):
        return max(patience.patience_s, patience.quiet_s)
    return min(patience.settle_s, patience.quiet_s) if is_confirmed(evidence) else patience.quiet_s


def is_confirmed(evidence: Evidence) -> bool:
    """True when MPPS is over, named images, and every one of them is here."""
    over = not any(step.in_progress or step.discontinued for step in evidence.steps)
    return over and any(step.expected for step in evidence.steps) and not any(step.missing for step in evidence.steps)


def _missing(evidence: Evidence) -> tuple[str, ...]:
    """Why more images may still come. What MPPS confirms as whole is not doubted for its gaps, nor for how its sender hung up."""
    reasons = list(_steps(evidence.steps))
    if not is_confirmed(evidence):
        if evidence.associations_aborted:
            reasons.append(ABORTED.format(n=evidence.associations_aborted))
        if evidence.associations_lost:
            reasons.append(LOST.format(n=evidence.associations_lost))
        reasons += _told(evidence.gaps)
    if evidence.missing_series:
        reasons.append(REQUIRED.format(names="、".join(evidence.missing_series)))
    return tuple(reasons)


def _cut_short(evidence: Evidence) -> tuple[str, ...]:
    """Why the study is not whole although nothing more will come."""
    return (DISCONTINUED,) if any(step.discontinued for step in evidence.steps) else ()


def _steps(steps: Sequence[StepEvidence]) -> Iterator[str]:
    if any(step.in_progress for step in steps):
        yield IN_PROGRESS
    if missing := sum(step.missing for step in steps):
        yield SHORT.format(expected=sum(step.expected for step in steps), missing=missing)


def _told(found: Sequence[Gap]) -> list[str]:
    sentences = [_gap(gap) for gap in found[:TOLD_GAPS]]
    return sentences if len(found) <= TOLD_GAPS else [*sentences, MORE_GAPS.format(n=len(found) - TOLD_GAPS)]


def _gap(gap: Gap) -> str:
    number = "" if gap.number is None else NUMBER.format(number=gap.number)
    place = PLACE.format(after=gap.after) if gap.shown is None else SHOWN.format(*gap.shown)
    return GAP.format(number=number, series=gap.series or UNNAMED, place=place, missing=gap.missing, after_mm=gap.after_mm)


def with_series(evidence: Evidence, study: Study, required: Sequence[RequiredSeries], min_slices: int) -> Evidence:
    """The evidence with what the images themselves say: gaps of each volume, and required series that are not here."""
    found = tuple(gap for series in volumes(study, min_slices) for gap in gaps(series))
    return replace(evidence, gaps=found, missing_series=missing_series(study, required))


def missing_series(study: Study, required: Sequence[RequiredSeries]) -> tuple[str, ...]:
    """Names of the rules that apply to the study and find no series with enough images."""
    return tuple(rule.name for rule in required if _applies(rule, study) and not _is_here(rule, study))


def _applies(rule: RequiredSeries, study: Study) -> bool:
    return fits(rule.station, study.station) and fits(rule.study, study.description)


def _is_here(rule: RequiredSeries, study: Study) -> bool:
    return any(fits(rule.series, series.description) and len(series.instances) >= rule.images for series in study.series)
