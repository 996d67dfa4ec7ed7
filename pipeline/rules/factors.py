"""Effective dose from DLP: which factor k fits a region, an age and a phantom, and what had to be assumed (AAPM 96; the rows name their sources)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from pipeline.errors import BadInput
from pipeline.irradiation import DoseFactor, Irradiation, WeighedDose

ADULT = 18
HEAD_PHANTOM_REGIONS = frozenset({"head", "neck", "head-neck"})
HEAD_PHANTOM_CM, BODY_PHANTOM_CM = 16, 32
REGION_NAMES = {
    "head": "头部",
    "neck": "颈部",
    "head-neck": "头颈部",
    "chest": "胸部",
    "abdomen": "腹部",
    "pelvis": "盆腔",
    "abdomen-pelvis": "腹盆部",
    "trunk": "躯干",
    "": "部位不明",
}


def weigh(event: Irradiation, age_years: float | None, factors: Sequence[DoseFactor]) -> WeighedDose:
    """k and mSv of one event. Raises BadInput where the table is empty."""
    if event.dlp_mgy_cm is None:
        return WeighedDose(event, None, None, event.notes)
    k, assumed = factor_of(event.region, age_years, event.phantom_cm, factors)
    return WeighedDose(event, k, k * event.dlp_mgy_cm, (*event.notes, *(assumed if event.dlp_mgy_cm else ())))


def years_between(born: date | None, day: date | None) -> float | None:
    """Age at an examination; None where a date is unknown or the birth lies after it."""
    if born is None or day is None or day < born:
        return None
    return (day - born).days / 365.2425


def factor_of(region: str, age_years: float | None, phantom_cm: int | None, factors: Sequence[DoseFactor]) -> tuple[float, tuple[str, ...]]:
    """k in mSv per mGy cm. Unknown age: adult. Unknown phantom: that of the region. Unknown region: the largest k of the age group."""
    notes = [] if age_years is not None else ["年龄不明，按成人"]
    rows = [row for row in factors if row.region == region]
    if phantom_cm is None:
        phantom_cm = HEAD_PHANTOM_CM if region in HEAD_PHANTOM_REGIONS else BODY_PHANTOM_CM
        notes.append(f"模体不明，按 {phantom_cm} cm")
    fitting = [row for row in rows if row.phantom_cm == phantom_cm]
    if not fitting:
        notes.append("部位不明，按最大的 k" if not rows else "该模体没有 k，按最大的 k")
        fitting = [row for row in factors if row.phantom_cm == phantom_cm] or list(factors)
    if not fitting:
        raise BadInput("the table of dose factors is empty; `ctreport rules set factors FILE` fills it")
    return max(row.k for row in _of_age(fitting, ADULT if age_years is None else age_years)), tuple(notes)


def _of_age(rows: Sequence[DoseFactor], age_years: float) -> list[DoseFactor]:
    """Per region and phantom the row of the age group: the oldest that is not older than the patient, else the youngest."""
    groups: dict[tuple[str, int], list[DoseFactor]] = {}
    for row in rows:
        groups.setdefault((row.region, row.phantom_cm), []).append(row)
    chosen = []
    for group in groups.values():
        reached = [row for row in group if row.age_years <= age_years]
        chosen.append(max(reached, key=lambda row: row.age_years) if reached else min(group, key=lambda row: row.age_years))
    return chosen
