"""Guideline tables: what is known of a nodule and its patient → the row that fits, or why none is suggested. Pure; it never touches the text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.guidance import Count, Course, Density, Guideline, GuidelineRow, Population, Risk

NAMES = {
    "screening": "是否肺癌筛查",
    "age_years": "年龄",
    "cancer": "恶性肿瘤病史",
    "immunosuppressed": "免疫状态",
    "risk": "肺癌风险分组（吸烟史等）",
    "density": "结节密度",
    "size_mm": "结节大小",
    "solid_mm": "实性成分大小",
    "count": "单发或多发",
    "course": "与既往检查的对比",
}
VALUES = {
    Count.SINGLE: "单发",
    Count.MULTIPLE: "多发",
    Risk.LOW: "低危",
    Risk.HIGH: "高危",
    Course.BASELINE: "首次检查",
    Course.NEW: "新发",
    Course.GROWING: "增大",
    Course.STABLE: "稳定",
}
EXCLUDED = {"cancer": "有恶性肿瘤病史", "immunosuppressed": "免疫抑制"}


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is known. None: nobody knows. `size_mm` is the mean of long and short axis where both are written (`mean`), else the one that is."""

    density: Density | None = None
    size_mm: float | None = None
    solid_mm: float | None = None
    count: Count | None = None
    course: Course | None = None
    risk: Risk | None = None
    age_years: float | None = None
    screening: bool | None = None
    cancer: bool | None = None
    immunosuppressed: bool | None = None
    mean: bool = True

    def told(self, names: tuple[str, ...]) -> str:
        """These inputs as a reader reads them."""
        return "，".join(f"{NAMES[name]} {self._told(name)}" for name in names if getattr(self, name) is not None)

    def _told(self, name: str) -> str:
        value = getattr(self, name)
        if isinstance(value, bool):
            return "是" if value else "否"
        if isinstance(value, int | float):
            unit = " 岁" if name == "age_years" else " mm"
            return f"{math.floor(value) if name == 'age_years' else value:g}{unit}" + ("（单径）" if name == "size_mm" and not self.mean else "")
        return VALUES.get(value, str(value))


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The row that fits, and the inputs that it was found by."""

    guideline: Guideline
    row: GuidelineRow
    used: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """No suggestion: the guideline is not for this patient (`reason`), inputs are missing (names of `Inputs`), or no single row answers."""

    guideline: Guideline
    missing: tuple[str, ...] = ()
    reason: str = ""


def suggest(guideline: Guideline, inputs: Inputs) -> Suggestion | Refusal | None:
    """None where the guideline is off, or is made for others (screening or not); else its row, or a refusal that names what is missing."""
    if not guideline.enabled or _for_others(guideline, inputs):
        return None
    excluded = _excluded(guideline, inputs)
    if excluded:
        return Refusal(guideline, reason=f"不适用：{excluded}")
    missing = tuple(_missing(guideline, inputs))
    rows = _fitting(guideline, inputs)
    undecided = _undecided(rows, inputs)
    if missing or undecided:
        return Refusal(guideline, tuple(name for name in NAMES if name in {*missing, *undecided}))
    if not rows:
        return Refusal(guideline, reason=f"表中没有此情形的行（{inputs.told(_asked(guideline.rows))}）")
    if len({row.advice for row in rows}) > 1:
        return Refusal(guideline, reason=f"表中几行同时相符而建议不同（{'、'.join(row.id for row in rows)}）")
    asked = {*_asked(rows), "screening", *guideline.excludes, *(("age_years",) if guideline.min_age_years is not None else ())}
    return Suggestion(guideline, rows[0], inputs.told(tuple(name for name in NAMES if name in asked)))


def _for_others(guideline: Guideline, inputs: Inputs) -> bool:
    if guideline.population is None or inputs.screening is None:
        return False
    return inputs.screening != (guideline.population is Population.SCREENING)


def _excluded(guideline: Guideline, inputs: Inputs) -> str:
    """Why the guideline is not for this patient; empty where it may be."""
    if guideline.min_age_years is not None and inputs.age_years is not None and inputs.age_years < guideline.min_age_years:
        return f"年龄小于 {guideline.min_age_years:g} 岁"
    for name in guideline.excludes:
        if getattr(inputs, name):
            return EXCLUDED[name]
    if guideline.first_only and inputs.course in (Course.STABLE, Course.GROWING):
        return "既往检查已有此结节，该表只用于首次发现的结节"
    return ""


def _missing(guideline: Guideline, inputs: Inputs) -> Iterator[str]:
    """Inputs that decide whether the guideline is for this patient at all, and the two that every row asks."""
    needed = ["density", "size_mm", *guideline.excludes]
    needed += ["screening"] if guideline.population is not None else []
    needed += ["age_years"] if guideline.min_age_years is not None else []
    needed += ["course"] if guideline.first_only else []
    return (name for name in needed if getattr(inputs, name) is None)


def _fitting(guideline: Guideline, inputs: Inputs) -> tuple[GuidelineRow, ...]:
    """Rows that may fit: what is unknown fits all."""
    size = None if inputs.size_mm is None else rounded(inputs.size_mm, guideline.round_mm)
    solid = None if inputs.solid_mm is None else rounded(inputs.solid_mm, guideline.round_mm)
    return tuple(row for row in guideline.rows if _fits(row, inputs, size, solid))


def _fits(row: GuidelineRow, inputs: Inputs, size: float | None, solid: float | None) -> bool:
    named = (
        not row.densities or inputs.density is None or inputs.density in row.densities,
        row.count is None or inputs.count is None or inputs.count is row.count,
        row.risk is None or inputs.risk is None or inputs.risk is row.risk,
        not row.courses or inputs.course is None or inputs.course in row.courses,
    )
    part = solid is not None or size is None or row.solid_from_mm is None or row.solid_from_mm <= size  # no part is larger than the whole
    return all(named) and part and _between(size, row.from_mm, row.below_mm) and _between(solid, row.solid_from_mm, row.solid_below_mm)


def _between(size: float | None, low: float | None, high: float | None) -> bool:
    return size is None or ((low is None or size >= low) and (high is None or size < high))


def _undecided(rows: tuple[GuidelineRow, ...], inputs: Inputs) -> set[str]:
    """Unknown inputs that the rows ask, unless every one of these gives the same advice whatever they are."""
    if len({row.advice for row in rows}) == 1 and _whole(rows, inputs):
        return set()
    unknown = {name for name in _asked(rows) if getattr(inputs, name) is None}
    return unknown - {"solid_mm"} if inputs.density is None else unknown  # only part-solid nodules have a solid component


def _whole(rows: tuple[GuidelineRow, ...], inputs: Inputs) -> bool:
    """Do these rows answer for every value that an unknown input could have? Only the two groups of count and risk are told apart here."""
    unknown = [name for name in _asked(rows) if getattr(inputs, name) is None]
    groups = {"count": set(Count), "risk": set(Risk)}
    return all(name in groups and {getattr(row, name) for row in rows} == groups[name] for name in unknown)


def _asked(rows: tuple[GuidelineRow, ...]) -> tuple[str, ...]:
    """Names of the inputs that the rows ask."""
    asks = {
        "density": any(row.densities for row in rows),
        "count": any(row.count for row in rows),
        "risk": any(row.risk for row in rows),
        "course": any(row.courses for row in rows),
        "size_mm": any(row.from_mm is not None or row.below_mm is not None for row in rows),
        "solid_mm": any(row.solid_from_mm is not None or row.solid_below_mm is not None for row in rows),
    }
    return tuple(name for name in NAMES if asks.get(name))


def rounded(size_mm: float, to_mm: float) -> float:
    """Half up, as people round."""
    return round(math.floor(size_mm / to_mm + 0.5 + 1e-9) * to_mm, 4)
