"""Which series of a study is read, and why each other one is not. `scores` says what the rules are, `stacks` what a series holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pipeline import geometry
from pipeline.choosing import ChoiceRule, RuleEffect, ScorePart, SeriesChoice, SeriesScore
from pipeline.flow.places import along, by_place, places
from pipeline.flow.regions import CHEST, REGION_NAMES, elsewhere, names_chest, region_of
from pipeline.flow.scores import NAMES, Seen, parts
from pipeline.flow.stacks import CT_IMAGE, MULTI_FRAME, Stack, is_placed, kinds_of, stacks
from pipeline.model import Instance, RankedStack, Series, Study

PREFERRED = 1000  # points: before every series that no such rule fits
NAMED = 3  # rules that are named where one series was better than another
MOST_TRIED = 3  # stacks that are read, one after the other, until the pixels of one are a chest volume
# SOP class prefix → why it is not read; the first match counts.
NOT_CT: Mapping[str, str] = {
    "1.2.840.10008.5.1.4.1.1.7": "二次捕获图像，不是原始 CT",
    "1.2.840.10008.5.1.4.1.1.88.67": "剂量报告，不含图像",
    "1.2.840.10008.5.1.4.1.1.88.76": "剂量报告，不含图像",
    "1.2.840.10008.5.1.4.1.1.88.73": "剂量报告，不含图像",
    "1.2.840.10008.5.1.4.1.1.88.59": "关键图像选择对象，不含图像",
    "1.2.840.10008.5.1.4.1.1.88": "结构化报告，不含图像",
    "1.2.840.10008.5.1.4.1.1.11": "显示状态对象，不含图像",
    "1.2.840.10008.5.1.4.1.1.66": "分割、配准或原始数据，不是 CT 图像",
    "1.2.840.10008.5.1.4.1.1.104": "封装文档，不含图像",
}
LOCALIZER, DOSE_PAGE, REFORMAT = "定位像", "剂量信息页，不是 CT 图像", "重组或后处理图像，不是原始轴位"
REFORMATS = frozenset({"MPR", "CPR", "CURVED_MPR", "REFORMATTED", "RESAMPLED"})
# No slices with CT values whatever a site prefers (PS3.3 C.8.2.1.1.1, C.8.15.3.1, C.8.16.1.4).
NO_SLICES = frozenset(
    {
        *("MIP", "MINIP", "MAX_IP", "MIN_IP", "MAXIMUM", "MINIMUM", "PROJECTION IMAGE", "VRT", "3D", "VOLUME_RENDER", "SURFACE_RENDER"),
        *("REF_SURVIEW", "PERFUSION", "TTP", "CBF", "CBV", "MTT", "RCBF", "RCBV", "PARAMETRIC MAP", "QUANTITY", "SUBTRACTION", "STD_DEVIATION"),
        *("MATERIAL_REMOVED", "EFF_ATOMIC_NUM", "DOSE_INFO", "DOSE REPORT", "DOSE", "SCREEN SAVE", "SCREENSAVE"),
    }
)


@dataclass(frozen=True, slots=True)
class _Judged:
    """One stack and what was found; `refusal` is empty where it could be read."""

    series: Series
    stack: Stack
    region: str
    refusal: str
    parts: tuple[ScorePart, ...]

    @property
    def points(self) -> int:
        return sum(part.points for part in self.parts)

    @property
    def rank(self) -> tuple[bool, int, int, float, str, str]:
        """Smaller is better, and never the same for two."""
        series, stack = self.series, self.stack
        number = float("inf") if series.number is None else series.number
        return bool(self.refusal), -self.points, -len(stack.images), number, series.series_uid, stack.label


def choose_series(study: Study, min_slices: int, rules: Sequence[ChoiceRule] = ()) -> SeriesChoice:
    """The one stack of axial CT images to read, and why each other series is not. Without one, `chosen` is empty and `region` says what was scanned.

    `rules` are the site's own: they refuse, prefer (also what a reformat's header would bar) or add points. The order of series and images counts
    for nothing.
    """
    judged = sorted((found for series in study.series for found in _judge(series, study, min_slices, rules)), key=lambda found: found.rank)
    best = next((found for found in judged if not found.refusal), None)
    told = {id(found): "" if found is best else found.refusal or _outdone(found, best) for found in judged}
    refused: dict[str, str] = {}
    for found in judged:  # best first: a series is refused for what its best stack lacks
        if best is None or found.series.series_uid != best.series.series_uid:
            refused.setdefault(found.series.series_uid, told[id(found)])
    others = sorted(found.region for found in judged if found.region != CHEST and found.refusal == elsewhere(found.region))
    others = others or [region_of(series, study) for series in sorted(study.series, key=lambda series: series.series_uid)]
    return SeriesChoice(
        chosen=() if best is None else (replace(best.series, instances=best.stack.images),),
        refused=tuple(refused.items()),
        region=CHEST if best else next(iter(others), CHEST),
        scores=tuple(_score(found, told[id(found)]) for found in judged),
        ranked=tuple(_ranked(found) for found in judged if not found.refusal)[:MOST_TRIED],
    )


def volumes(study: Study, min_slices: int) -> tuple[Series, ...]:
    """The largest stack of each series that could be read as a volume, of whatever region; multi-frame objects are not placed yet."""
    largest = [(series, stack) for series in study.series for stack in stacks(series)[:1] if all(map(is_placed, stack.images))]
    found = [(series, stack) for series, stack in largest if not (_unfit(stack, min_slices) or _is_reformat(stack))]
    return tuple(replace(series, instances=stack.images) for series, stack in found)


def unsupported_because(choice: SeriesChoice) -> str | None:
    """Why nobody here reads the study, as a sentence for a person; None when a series was chosen."""
    if choice.chosen:
        return None
    if choice.region != CHEST:
        return f"检查部位为{REGION_NAMES[choice.region]}，这里只读胸部 CT；请由医师直接阅片"
    reasons = "；".join(dict.fromkeys(reason for _, reason in choice.refused)) or "未收到图像"
    return f"没有可读的胸部轴位 CT 容积（{reasons}）；请核对是否漏传序列，或由医师直接阅片"


def fits(pattern: str, text: str) -> bool:
    """True when the pattern is found in the text, whatever the case."""
    return re.search(pattern, text, re.IGNORECASE) is not None


def _judge(series: Series, study: Study, min_slices: int, rules: Sequence[ChoiceRule]) -> list[_Judged]:
    """Every stack of a series; one without images where it holds none."""
    region, own = region_of(series, study), [rule for rule in rules if _applies(rule, series, study)]
    return [_judge_one(series, stack, region, own, min_slices) for stack in stacks(series) or (Stack("", ()),)]


def _judge_one(series: Series, stack: Stack, region: str, rules: Sequence[ChoiceRule], min_slices: int) -> _Judged:
    preferred = any(rule.effect is RuleEffect.PREFER for rule in rules)
    if not stack.images:
        refusal = _no_images(series)
    elif _is_reformat(stack, preferred):
        refusal = REFORMAT
    else:
        refusal = _unfit(stack, min_slices) or _torn(stack)
    if not refusal and region != CHEST:
        refusal = elsewhere(region)
    barred = next((rule for rule in rules if rule.effect is RuleEffect.REFUSE), None)
    if not refusal and barred:
        refusal = f"站点规则（第 {barred.version} 版）：{barred.reason}"
    scored = (*parts(Seen(series, stack, names_chest(series))), *map(_site_part, rules)) if not refusal else (ScorePart("eligible", 0, refusal),)
    return _Judged(series, stack, region, refusal, scored)


def _unfit(stack: Stack, min_slices: int) -> str | None:
    """Why a stack is no axial volume, or None."""
    if stack.images[0].sop_class in MULTI_FRAME:
        frames = sum(image.frames for image in stack.images)
        return None if frames >= min_slices else f"多帧对象仅 {frames} 帧，少于 {min_slices} 帧，不构成容积"
    if not all(map(is_placed, stack.images)):
        return "图像缺少层面位置或方向"
    if abs(geometry.normal(stack.images[0].orientation or ())[2]) < geometry.AXIAL_COSINE:
        return "不是轴位图像"
    layers = places(stack.images)
    return f"不同位置的图像仅 {layers} 层，少于 {min_slices} 层，不构成容积" if layers < min_slices else None


def _torn(stack: Stack) -> str:
    """Why too much is missing between its images for a volume; empty where it is not. Such a stack still waits for what it lacks."""
    if not all(map(is_placed, stack.images)):
        return ""
    alongs = [along(group[0]) for group in by_place(stack.images)]
    return f"缺层过多（最宽间距 {max(b - a for a, b in pairwise(alongs)):.0f} mm），不构成容积" if geometry.torn(alongs) else ""


def _is_reformat(stack: Stack, preferred: bool = False) -> bool:
    """True for what was made of slices; where a site prefers it, only for what holds no CT values any more."""
    kinds = frozenset[str]().union(*map(kinds_of, stack.images))
    reformatted = kinds & REFORMATS or (kinds >= {"DERIVED", "SECONDARY"} and "AXIAL" not in kinds)
    return bool(kinds & NO_SLICES) or (bool(reformatted) and not preferred)


def _no_images(series: Series) -> str:
    """Why a series holds no CT image that could be read."""
    classes = [instance.sop_class for instance in series.instances]
    ct: list[Instance] = [image for image in series.instances if image.sop_class == CT_IMAGE or image.sop_class in MULTI_FRAME]
    if ct:
        return DOSE_PAGE if all(image.content for image in ct) else LOCALIZER
    found = (reason for sop_class in sorted(classes) for prefix, reason in NOT_CT.items() if sop_class.startswith(prefix))
    return next(found, "不是 CT 图像")


def _applies(rule: ChoiceRule, series: Series, study: Study) -> bool:
    return fits(rule.station, study.station) and fits(rule.study, study.description) and fits(rule.series, series.description)


def _site_part(rule: ChoiceRule) -> ScorePart:
    points = {RuleEffect.PREFER: PREFERRED, RuleEffect.REFUSE: 0, RuleEffect.POINTS: rule.points}[rule.effect]
    return ScorePart("site", points, f"站点规则（第 {rule.version} 版）：{rule.reason}")


def _outdone(found: _Judged, best: _Judged | None) -> str:
    """Why a stack that could be read was not: by how many points, and by which rules most."""
    assert best is not None  # a stack without a refusal ranks before all that have one
    theirs = {part.rule: part.points for part in found.parts}
    ahead = sorted(((part.points - theirs.get(part.rule, 0), part.rule) for part in best.parts), key=lambda one: (-one[0], one[1]))
    why = "、".join(NAMES[rule] for points, rule in ahead[:NAMED] if points > 0)
    return f"已选用更合适的图像（{best.points} 分，本组 {found.points} 分" + (f"；差在{why}）" if why else "）")


def _ranked(found: _Judged) -> RankedStack:
    files = tuple(image.path for image in found.stack.images)
    return RankedStack(found.series.series_uid, found.series.number, found.stack.label, files)


def _score(found: _Judged, refusal: str) -> SeriesScore:
    images = sum(image.frames for image in found.stack.images) or len(found.series.instances)
    series = found.series
    return SeriesScore(series.series_uid, series.number, series.description, found.stack.label, images, found.parts, refusal)
