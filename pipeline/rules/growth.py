"""Growth: each nodule of the draft against the patient's earlier examinations. Flags only: grown, new, or not comparable and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from itertools import pairwise

from pipeline.checking import CheckContext, Hit, Prior, Spot
from pipeline.guidance import GrowthRule
from pipeline.model import Frame, Report, Severity
from pipeline.rules.analysis import FINDINGS, Analysis

ID, VERSION = "growth.prior", 1
NODULE, LUNG = "结节", "肺"
OF_LUNGS = frozenset({NODULE, "实变"})  # a node or a liver lesion is no neighbour of a nodule, wherever its box lies
EXTENT_FACTOR = 1.35  # lungs of one patient that differ by more in height or width were not scanned whole, or not breathed alike
AGREE_MM = 1.0  # a stated size this near the measured one is its rounding


class Outcome(StrEnum):
    """What comparing one nodule came to."""

    GROWN = "grown"
    SAME = "same"  # not grown, or by no more than is certain
    NEW = "new"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Compared:
    """One nodule of the draft (`number`, from 1, among its findings) beside an earlier examination. Sizes in mm; `sure_mm` is their uncertainty."""

    number: int
    outcome: Outcome
    side: str
    lobe: str
    now_mm: float
    when: date
    signed: bool
    before_mm: float | None = None
    sure_mm: float = 0.0
    reason: str = ""

    @property
    def place(self) -> str:
        """As a reader reads it."""
        return f"{self.side}肺{self.lobe}"


def growth(analysis: Analysis) -> tuple[Hit, ...]:
    """One flag per grown or new nodule, and one for all that cannot be compared."""
    report, context = analysis.report, analysis.context
    found = compared(report, context, analysis.ruleset.growth)
    hits = [_hit(report, one, _grown(one, context.study_date)) for one in found if one.outcome is Outcome.GROWN]
    hits += [_hit(report, one, _new(one)) for one in found if one.outcome is Outcome.NEW]
    unclear = [one for one in found if one.outcome is Outcome.UNCLEAR]
    return (*hits, *([_hit(report, unclear[0], _not_comparable(unclear))] if unclear else ()))


def compared(report: Report, context: CheckContext, rule: GrowthRule | None) -> tuple[Compared, ...]:
    """Every nodule among the report's findings beside the examinations before it; nothing where there are none. Their order changes nothing."""
    priors = sorted((prior for prior in context.priors if prior.when < context.study_date), key=_preference)
    if rule is None or not priors:
        return ()
    now = _spots(report, context)
    numbers = [number for number, finding in enumerate(report.findings, start=1) if finding.kind == NODULE]
    return tuple(_compare(number, now.get(number), now, report, context.frame, priors, rule) for number in numbers)


def uncertainty_mm(rule: GrowthRule, before_mm: float, before_step_mm: float, now_mm: float, now_step_mm: float) -> float:
    """sqrt(r² + e(before)² + e(now)²): readers' agreement, and what slices that lie apart can make a sphere's diameter too small."""
    return math.hypot(rule.repeatability_mm, missed_mm(before_mm, before_step_mm), missed_mm(now_mm, now_step_mm))


def missed_mm(diameter_mm: float, step_mm: float) -> float:
    """A sphere's largest section lies up to half a step from the nearest slice: its diameter there is sqrt(d² − step²)."""
    return diameter_mm - math.sqrt(max(diameter_mm**2 - step_mm**2, 0.0))


def size_mm(spot: Spot) -> float:
    """As measured, unless the report says something else."""
    return spot.size_mm if spot.stated_mm is None or abs(spot.stated_mm - spot.size_mm) <= AGREE_MM else float(spot.stated_mm)


def _preference(prior: Prior) -> tuple[bool, int, str]:
    """Signed reports before drafts, then the newest."""
    return not prior.signed, -prior.when.toordinal(), repr(prior.spots)


def _spots(report: Report, context: CheckContext) -> dict[int, Spot]:
    """Number of the finding → the region that it speaks of."""
    known = {candidate.index: candidate for candidate in context.candidates}
    spots = {}
    for number, finding in enumerate(report.findings, start=1):
        candidate = known.get(finding.candidate) if finding.candidate is not None else None
        if candidate is not None and finding.kind == NODULE:
            lobe = candidate.lobe or finding.lobe or ""
            spots[number] = Spot(number, finding.kind, candidate.center_mm, candidate.side, lobe, candidate.size_mm, finding.size_mm)
    return spots


def _compare(
    number: int, spot: Spot | None, now: dict[int, Spot], report: Report, frame: Frame | None, priors: Sequence[Prior], rule: GrowthRule
) -> Compared:
    """The first examination that decides; without one, why not."""
    if spot is None:
        finding = report.findings[number - 1]
        reason = "病灶没有对应的图像位置"
        first = priors[0]
        stated = float(finding.size_mm or 0)
        return Compared(number, Outcome.UNCLEAR, finding.side[:1], finding.lobe or "", stated, first.when, first.signed, reason=reason)
    found = [_beside(number, spot, tuple(now.values()), frame, prior, rule) for prior in priors]
    decided = (one for one in found if one.outcome in (Outcome.GROWN, Outcome.SAME))
    unclear = (one for one in found if one.outcome is Outcome.UNCLEAR)
    return next(decided, None) or next(unclear, None) or found[0]


def _beside(number: int, spot: Spot, now: Sequence[Spot], frame: Frame | None, prior: Prior, rule: GrowthRule) -> Compared:
    """One nodule beside one examination."""

    def said(outcome: Outcome, reason: str = "", before: float | None = None, sure: float = 0.0) -> Compared:
        return Compared(number, outcome, str(spot.side), spot.lobe, size_mm(spot), prior.when, prior.signed, before, sure, reason)

    reason = _incomparable(frame, prior, rule)
    if reason or frame is None or prior.frame is None:
        return said(Outcome.UNCLEAR, reason)
    before, reason = _matched(spot, now, frame, prior.spots, prior.frame, rule)
    if reason:
        return said(Outcome.UNCLEAR, reason)
    if before is None:
        return said(Outcome.NEW)
    sure = uncertainty_mm(rule, size_mm(before), prior.frame.step_mm, size_mm(spot), frame.step_mm)
    delta = size_mm(spot) - size_mm(before)
    grown = delta > rule.min_growth_mm and delta > sure
    return said(Outcome.GROWN if grown else Outcome.SAME, before=size_mm(before), sure=sure)


def _incomparable(frame: Frame | None, prior: Prior, rule: GrowthRule) -> str:
    """Why two examinations cannot be compared at all; empty where they can."""
    if frame is None or prior.frame is None:
        return f"{'本次' if frame is None else '既往'}检查没有保存病灶位置"
    if prior.covers and LUNG not in prior.covers:
        return "既往检查未包括肺"
    thick = sorted((frame.thickness_mm, prior.frame.thickness_mm))
    if thick[0] <= 0 or thick[1] > rule.thickness_factor * thick[0]:
        return f"层厚不同（{prior.frame.thickness_mm:g} mm 与 {frame.thickness_mm:g} mm）"
    extents = list(zip(_extent(frame), _extent(prior.frame), strict=True))
    if any(min(pair) <= 0 or max(pair) > EXTENT_FACTOR * min(pair) for pair in (extents[0], extents[2])):
        return "两次检查的肺野范围不同"
    return ""


def _extent(frame: Frame) -> tuple[float, float, float]:
    x0, y0, z0, x1, y1, z1 = frame.lungs_mm
    return x1 - x0, y1 - y0, z1 - z0


def _matched(spot: Spot, now: Sequence[Spot], frame: Frame, before: Sequence[Spot], prior: Frame, rule: GrowthRule) -> tuple[Spot | None, str]:
    """The earlier region that this nodule is; (None, "") where there was none, and a reason where that cannot be told."""
    near = _near(spot, before, frame, prior)
    within = [pair for pair in near if pair[0] <= rule.match_mm]
    if not within:
        far = [one for distance, one in near if distance <= 2 * rule.match_mm and one.kind == NODULE]
        return None, "既往同侧同叶另有结节，是否同一病灶不明" if far else ""
    nearest = within[0][1]
    if nearest.kind != NODULE:
        return None, f"既往该处为{nearest.kind}"
    others = _near(nearest, now, prior, frame)
    if not _clear(near, rule) or not _clear(others, rule) or others[0][1] is not spot:
        return None, "附近有几个结节，对应关系不唯一"
    return nearest, ""


def _clear(near: Sequence[tuple[float, Spot]], rule: GrowthRule) -> bool:
    """Is the nearest much nearer than the next?"""
    return all(second[0] > rule.match_mm or second[0] > rule.clear_ratio * max(first[0], rule.place_mm) for first, second in [*pairwise(near)][:1])


def _near(spot: Spot, others: Sequence[Spot], mine: Frame, theirs: Frame) -> list[tuple[float, Spot]]:
    """Regions of the same side, and of the same lobe as far as both are known, nearest first."""
    lungs = (one for one in others if one.kind in OF_LUNGS and one.side == spot.side)
    same = (one for one in lungs if not one.lobe or not spot.lobe or one.lobe == spot.lobe)
    return sorted(((distance_mm(spot, one, mine, theirs), one) for one in same), key=lambda pair: (pair[0], repr(pair[1])))


def distance_mm(one: Spot, other: Spot, mine: Frame, theirs: Frame) -> float:
    """Between two places in the coordinates of the lungs (across from the midline, along depth and height of their box), in mm of the mean lungs."""
    extents = [(a + b) / 2 for a, b in zip(_extent(mine), _extent(theirs), strict=True)]
    apart = (a - b for a, b in zip(_relative(one, mine), _relative(other, theirs), strict=True))
    return math.hypot(*(difference * extent for difference, extent in zip(apart, extents, strict=True)))


def _relative(spot: Spot, frame: Frame) -> tuple[float, float, float]:
    x, y, z = spot.center_mm
    width, depth, height = _extent(frame)
    return (x - frame.midline_mm) / width, (y - frame.lungs_mm[1]) / depth, (z - frame.lungs_mm[2]) / height


def _grown(one: Compared, day: date) -> str:
    before = one.before_mm or 0.0
    return (
        f"【较前增大】{one.place}结节：{one.when:%Y-%m-%d} {before:.1f} mm → {day:%Y-%m-%d} {one.now_mm:.1f} mm，增大 {one.now_mm - before:.1f} mm，"
        f"超过测量不确定度 {one.sure_mm:.1f} mm（对照{_kind(one)}）"
    )


def _new(one: Compared) -> str:
    return f"【新增】{one.place}新增结节（{one.now_mm:.1f} mm）：{one.when:%Y-%m-%d} 检查（{_kind(one)}）包括该处而未见对应结节，请核对既往图像"


def _not_comparable(unclear: Sequence[Compared]) -> str:
    reasons = dict.fromkeys(f"{one.when:%Y-%m-%d}（{_kind(one)}）：{one.reason}" for one in unclear)
    places = "、".join(dict.fromkeys(one.place for one in unclear))
    return f"【与既往不可比】{places}结节：{'；'.join(reasons)}"


def _kind(one: Compared) -> str:
    return "已签发报告" if one.signed else "未审核草稿"


def _hit(report: Report, one: Compared, message: str) -> Hit:
    """At the first place that names the finding's side and lobe, else at no span."""
    start = report.findings_text.find(one.place)
    return Hit(ID, VERSION, Severity.FLAG, FINDINGS, max(start, 0), start + len(one.place) if start >= 0 else 0, message)
