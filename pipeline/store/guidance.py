"""Critical findings, guidelines, cues of history and the growth rule as rows of one rule version."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from pipeline.guidance import Count, Course, CriticalRule, Density, GrowthRule, Guidance, Guideline, GuidelineRow, HistoryCue, Population, Risk
from pipeline.store.repository import plain, plain_list
from pipeline.store.tables import CriticalRuleRow, GrowthRuleRow, GuidelineLineRow, GuidelineTableRow, HistoryCueRow


def set_guidance(session: Session, rows: Guidance, version: int) -> None:
    """All of it, in the place of what this version holds so far."""
    set_critical(session, rows.critical, version)
    set_guidelines(session, rows.guidelines, version)
    set_cues(session, rows.cues, version)
    set_growth(session, () if rows.growth is None else (rows.growth,), version)


def set_critical(session: Session, rows: Sequence[CriticalRule], version: int) -> None:
    """Put these rules in the place of those that this version holds so far. Alerts that were raised keep what they were raised with."""
    session.execute(delete(CriticalRuleRow).where(CriticalRuleRow.version == version))
    if rows:
        session.execute(insert(CriticalRuleRow), [_critical(rule, version, position) for position, rule in enumerate(rows)])


def critical_rules(session: Session, version: int) -> tuple[CriticalRule, ...]:
    """The rules of a version, in their order."""
    query = select(CriticalRuleRow).where(CriticalRuleRow.version == version).order_by(CriticalRuleRow.position)
    return tuple(
        CriticalRule(
            id=row.id,
            finding=row.finding,
            words=tuple(row.words),
            severity=row.severity,
            minutes=row.minutes,
            source=row.source,
            qualifiers=tuple(row.qualifiers),
            unless=tuple(row.unless),
            percent=row.percent,
            levels=row.levels,
        )
        for row in session.scalars(query)
    )


def set_guidelines(session: Session, rows: Sequence[Guideline], version: int) -> None:
    """Put these tables, with their rows, in the place of those that this version holds so far."""
    session.execute(delete(GuidelineLineRow).where(GuidelineLineRow.version == version))
    session.execute(delete(GuidelineTableRow).where(GuidelineTableRow.version == version))
    if not rows:
        return
    session.execute(insert(GuidelineTableRow), [_table(one, version, position) for position, one in enumerate(rows)])
    lines = [_line(one.id, row, version, position) for one in rows for position, row in enumerate(one.rows)]
    session.execute(insert(GuidelineLineRow), lines)


def guidelines(session: Session, version: int) -> tuple[Guideline, ...]:
    """The tables of a version with their rows, in their order."""
    lines: dict[str, list[GuidelineRow]] = {}
    query = select(GuidelineLineRow).where(GuidelineLineRow.version == version).order_by(GuidelineLineRow.guideline, GuidelineLineRow.position)
    for row in session.scalars(query):
        lines.setdefault(row.guideline, []).append(_row(row))
    tables = select(GuidelineTableRow).where(GuidelineTableRow.version == version).order_by(GuidelineTableRow.position)
    return tuple(
        Guideline(
            id=row.id,
            name=row.name,
            source=row.source,
            enabled=row.enabled,
            population=Population(row.population) if row.population else None,
            round_mm=row.round_mm,
            rows=tuple(lines.get(row.id, ())),
            min_age_years=row.min_age_years,
            excludes=tuple(row.excludes),
            growth_mm=row.growth_mm,
            first_only=row.first_only,
        )
        for row in session.scalars(tables)
    )


def set_cues(session: Session, rows: Sequence[HistoryCue], version: int) -> None:
    """Put these cues in the place of those that this version holds so far."""
    session.execute(delete(HistoryCueRow).where(HistoryCueRow.version == version))
    if rows:
        values = [{"version": version, "input": cue.input, "answer": cue.answer, "words": plain_list(cue.words)} for cue in rows]
        session.execute(insert(HistoryCueRow), values)


def cues(session: Session, version: int) -> tuple[HistoryCue, ...]:
    """The cues of a version."""
    query = select(HistoryCueRow).where(HistoryCueRow.version == version).order_by(HistoryCueRow.input, HistoryCueRow.answer)
    return tuple(HistoryCue(row.input, row.answer, tuple(row.words)) for row in session.scalars(query))


def set_growth(session: Session, rows: Sequence[GrowthRule], version: int) -> None:
    """Put this rule (one, or none: nothing is compared) in the place of the one that this version holds so far."""
    session.execute(delete(GrowthRuleRow).where(GrowthRuleRow.version == version))
    for rule in rows:
        values = {name: getattr(rule, name) for name in GROWTH_NUMBERS}
        session.execute(insert(GrowthRuleRow).values(version=version, id=plain(rule.id), source=plain(rule.source), **values))


GROWTH_NUMBERS = ("min_growth_mm", "repeatability_mm", "thickness_factor", "match_mm", "place_mm", "clear_ratio")


def growth_rules(session: Session, version: int) -> tuple[GrowthRule, ...]:
    """The rule of a version, if it has one."""
    rows = session.scalars(select(GrowthRuleRow).where(GrowthRuleRow.version == version))
    return tuple(GrowthRule(row.id, row.source, **{name: getattr(row, name) for name in GROWTH_NUMBERS}) for row in rows)


def _critical(rule: CriticalRule, version: int, position: int) -> dict[str, object]:
    return {
        "version": version,
        "id": plain(rule.id),
        "position": position,
        "finding": plain(rule.finding),
        "words": plain_list(rule.words),
        "severity": rule.severity,
        "minutes": rule.minutes,
        "source": plain(rule.source),
        "qualifiers": plain_list(rule.qualifiers),
        "unless": plain_list(rule.unless),
        "percent": rule.percent,
        "levels": rule.levels,
    }


def _table(one: Guideline, version: int, position: int) -> dict[str, object]:
    return {
        "version": version,
        "id": plain(one.id),
        "position": position,
        "name": plain(one.name),
        "source": plain(one.source),
        "enabled": one.enabled,
        "population": one.population.value if one.population else None,
        "round_mm": one.round_mm,
        "min_age_years": one.min_age_years,
        "excludes": plain_list(one.excludes),
        "growth_mm": one.growth_mm,
        "first_only": one.first_only,
    }


def _line(guideline: str, row: GuidelineRow, version: int, position: int) -> dict[str, object]:
    return {
        "version": version,
        "guideline": plain(guideline),
        "id": plain(row.id),
        "position": position,
        "source": plain(row.source),
        "advice": plain(row.advice),
        "densities": [density.value for density in row.densities],
        "count": row.count.value if row.count else None,
        "risk": row.risk.value if row.risk else None,
        "courses": [course.value for course in row.courses],
        "from_mm": row.from_mm,
        "below_mm": row.below_mm,
        "solid_from_mm": row.solid_from_mm,
        "solid_below_mm": row.solid_below_mm,
        "category": plain(row.category),
    }


def _row(row: GuidelineLineRow) -> GuidelineRow:
    return GuidelineRow(
        id=row.id,
        source=row.source,
        advice=row.advice,
        densities=tuple(map(Density, row.densities)),
        count=Count(row.count) if row.count else None,
        risk=Risk(row.risk) if row.risk else None,
        courses=tuple(map(Course, row.courses)),
        from_mm=row.from_mm,
        below_mm=row.below_mm,
        solid_from_mm=row.solid_from_mm,
        solid_below_mm=row.solid_below_mm,
        category=row.category,
    )
