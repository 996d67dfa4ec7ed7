"""Critical findings, guidelines, cues of history and the growth rule as TOML → values, and back. What cannot be meant is refused with its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from pipeline.errors import BadInput
from pipeline.guidance import Count, Course, CriticalRule, Density, GrowthRule, Guideline, GuidelineRow, HistoryCue, Population, Risk
from pipeline.rules.reading import line_of, read_tables
from pipeline.rules.writing import tables_toml

SEVERITIES = ("immediate", "urgent")
YES_NO = ("yes", "no")
ANSWERS = {"screening": YES_NO, "cancer": YES_NO, "immunosuppressed": YES_NO, "risk": ("high", "low"), "family": YES_NO}
EXCLUDABLE = ("cancer", "immunosuppressed")
MOST_MINUTES, MOST_LEVELS = 1440, 9
Row = TypeVar("Row")
Member = TypeVar("Member", Count, Course, Density, Population, Risk)


class Fields:
    """One TOML table, read key by key; each refusal names the table and the key."""

    def __init__(self, table: Mapping[str, Any], where: str, known: Sequence[str]) -> None:
        self._table, self._where = table, where
        unknown = sorted(set(table) - set(known))
        if unknown:
            self.refuse(f"the key '{unknown[0]}' is unknown; known are {', '.join(known)}")

    def refuse(self, reason: str) -> None:
        """Raises BadInput."""
        raise BadInput(f"{self._where}: {reason}")

    def text(self, key: str) -> str:
        """A text that is not empty."""
        value = self._table.get(key)
        if not isinstance(value, str) or not value.strip():
            raise BadInput(f"{self._where}: '{key}' must be a text that is not empty")
        return value.strip()

    def texts(self, key: str, *, least: int = 0) -> tuple[str, ...]:
        """A list of texts, each once."""
        value = self._table.get(key, [])
        if not isinstance(value, list) or not all(isinstance(one, str) and one.strip() for one in value) or len(value) < least:
            raise BadInput(f"{self._where}: '{key}' must be a list of {'at least one text' if least else 'texts'}")
        return tuple(dict.fromkeys(one.strip() for one in value))

    def number(self, key: str, low: float, high: float) -> float:
        """A number between two."""
        value = self._table.get(key)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or not low <= value <= high:
            raise BadInput(f"{self._where}: '{key}' must be a number from {low:g} to {high:g}")
        return float(value)

    def maybe(self, key: str, low: float, high: float) -> float | None:
        """The same, or None where the key is left out."""
        return self.number(key, low, high) if key in self._table else None

    def whole(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """A whole number between two."""
        if default is not None and key not in self._table:
            return default
        value = self.number(key, low, high)
        if value != int(value):
            self.refuse(f"'{key}' must be a whole number")
        return int(value)

    def flag(self, key: str, default: bool) -> bool:
        """true or false."""
        value = self._table.get(key, default)
        if not isinstance(value, bool):
            raise BadInput(f"{self._where}: '{key}' must be true or false")
        return value

    def one_of(self, key: str, allowed: Sequence[str]) -> str:
        """A text out of a few."""
        value = self.text(key)
        if value not in allowed:
            self.refuse(f"'{key}' is '{value}'; it can be {', '.join(allowed)}")
        return value

    def member(self, key: str, kind: type[Member]) -> Member | None:
        """A member of an enum, or None where the key is left out."""
        return kind(self.one_of(key, tuple(kind))) if key in self._table else None

    def members(self, key: str, kind: type[Member]) -> tuple[Member, ...]:
        """Members of an enum."""
        words = self.texts(key)
        for word in words:
            if word not in tuple(kind):
                self.refuse(f"'{key}' holds '{word}'; it can hold {', '.join(kind)}")
        return tuple(map(kind, words))


def read_critical(text: str, name: str = "critical.toml") -> tuple[CriticalRule, ...]:
    """`[[critical]]` tables. Raises BadInput."""
    return _unique(_read(text, "critical", name, _critical), name)


def read_guidelines(text: str, name: str = "guidelines.toml") -> tuple[Guideline, ...]:
    """`[[guideline]]` tables, each with its `[[guideline.row]]`. Raises BadInput."""
    return _unique(_read(text, "guideline", name, _guideline), name)


def read_cues(text: str, name: str = "history.toml") -> tuple[HistoryCue, ...]:
    """`[[cue]]` tables. Raises BadInput."""
    cues = _read(text, "cue", name, _cue)
    if len({(cue.input, cue.answer) for cue in cues}) < len(cues):
        raise BadInput(f"{name}: an input has one answer twice; put its words into one [[cue]]")
    return cues


def read_growth(text: str, name: str = "growth.toml") -> tuple[GrowthRule, ...]:
    """One `[[growth]]` table; an empty file compares nothing. Raises BadInput."""
    rules = _read(text, "growth", name, _growth)
    if len(rules) > 1:
        raise BadInput(f"{name} must hold one [[growth]] table, not {len(rules)}")
    return rules


def critical_toml(rows: Iterable[CriticalRule]) -> str:
    """What `read_critical` reads back."""
    return tables_toml("critical", map(asdict, rows))


def cues_toml(rows: Iterable[HistoryCue]) -> str:
    """What `read_cues` reads back."""
    return tables_toml("cue", map(asdict, rows))


def growth_toml(rows: Iterable[GrowthRule]) -> str:
    """What `read_growth` reads back."""
    return tables_toml("growth", map(asdict, rows))


def guidelines_toml(rows: Iterable[Guideline]) -> str:
    """What `read_guidelines` reads back."""
    parts = []
    for one in rows:
        head = {key: value for key, value in asdict(one).items() if key != "rows"}
        parts += [tables_toml("guideline", [head]), tables_toml("guideline.row", map(asdict, one.rows))]
    return "\n".join(parts)


def _read(text: str, table: str, name: str, read: Callable[[Mapping[str, Any], str], Row]) -> tuple[Row, ...]:
    if not text.strip():
        return ()
    tables = read_tables(text, table, name)
    return tuple(read(one, f"{name}, line {line_of(text, table, number)}") for number, one in enumerate(tables, start=1))


def _unique(rows: tuple[Row, ...], name: str) -> tuple[Row, ...]:
    ids = [getattr(row, "id", "") for row in rows]
    twice = next((one for one in ids if ids.count(one) > 1), None)
    if twice is not None:
        raise BadInput(f"{name} has the id '{twice}' twice; give each its own")
    return rows


def _critical(table: Mapping[str, Any], where: str) -> CriticalRule:
    known = ("id", "finding", "words", "severity", "minutes", "source", "qualifiers", "unless", "percent", "levels")
    fields = Fields(table, where, known)
    for word in fields.texts("words", least=1):
        if word.startswith("@") or word.endswith("@"):
            fields.refuse(f"'words' holds '{word}'; write finding@organ, or the finding alone")
    return CriticalRule(
        id=fields.text("id"),
        finding=fields.text("finding"),
        words=fields.texts("words", least=1),
        severity=fields.one_of("severity", SEVERITIES),
        minutes=fields.whole("minutes", 1, MOST_MINUTES),
        source=fields.text("source"),
        qualifiers=fields.texts("qualifiers"),
        unless=fields.texts("unless"),
        percent=fields.whole("percent", 1, 100) if "percent" in table else None,
        levels=fields.whole("levels", 1, MOST_LEVELS, default=3),
    )


def _guideline(table: Mapping[str, Any], where: str) -> Guideline:
    known = ("id", "name", "source", "enabled", "population", "round_mm", "min_age_years", "excludes", "growth_mm", "first_only", "row")
    fields = Fields(table, where, known)
    rows = table.get("row", [])
    if not isinstance(rows, list) or not rows:
        fields.refuse("it holds no [[guideline.row]]")
    excludes = fields.texts("excludes")
    for name in excludes:
        if name not in EXCLUDABLE:
            fields.refuse(f"'excludes' holds '{name}'; it can hold {', '.join(EXCLUDABLE)}")
    return Guideline(
        id=fields.text("id"),
        name=fields.text("name"),
        source=fields.text("source"),
        enabled=fields.flag("enabled", default=False),
        population=fields.member("population", Population),
        round_mm=fields.number("round_mm", 0.01, 5.0),
        rows=_unique(tuple(_row(row, f"{where}, row {number}") for number, row in enumerate(rows, start=1)), where),
        min_age_years=fields.maybe("min_age_years", 0, 150),
        excludes=excludes,
        growth_mm=fields.maybe("growth_mm", 0, 100),
        first_only=fields.flag("first_only", default=False),
    )


def _row(table: Mapping[str, Any], where: str) -> GuidelineRow:
    sizes = ("from_mm", "below_mm", "solid_from_mm", "solid_below_mm")
    fields = Fields(table, where, ("id", "source", "advice", "densities", "count", "risk", "courses", "category", *sizes))
    limits = {name: fields.maybe(name, 0, 1000) for name in sizes}
    for low, high in (sizes[:2], sizes[2:]):
        if limits[low] is not None and limits[high] is not None and (limits[low] or 0.0) >= (limits[high] or 0.0):
            fields.refuse(f"'{low}' must be less than '{high}'")
    return GuidelineRow(
        id=fields.text("id"),
        source=fields.text("source"),
        advice=fields.text("advice"),
        densities=fields.members("densities", Density),
        count=fields.member("count", Count),
        risk=fields.member("risk", Risk),
        courses=fields.members("courses", Course),
        category=fields.text("category") if "category" in table else "",
        **limits,
    )


def _cue(table: Mapping[str, Any], where: str) -> HistoryCue:
    fields = Fields(table, where, ("input", "answer", "words"))
    name = fields.one_of("input", tuple(ANSWERS))
    return HistoryCue(name, fields.one_of("answer", ANSWERS[name]), fields.texts("words", least=1))


def _growth(table: Mapping[str, Any], where: str) -> GrowthRule:
    limits = {
        "min_growth_mm": (0, 100),
        "repeatability_mm": (0, 100),
        "thickness_factor": (1, 100),
        "match_mm": (0, 200),
        "place_mm": (0, 200),
        "clear_ratio": (1, 100),
    }
    fields = Fields(table, where, ("id", "source", *limits))
    return GrowthRule(fields.text("id"), fields.text("source"), **{name: fields.number(name, *ends) for name, ends in limits.items()})
