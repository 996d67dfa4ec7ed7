"""The kinds of rules that a site edits: how each is read from TOML, written as a new version, and shown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.errors import BadInput

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from pipeline.choosing import ChoiceRule
    from pipeline.entry import Entry
    from pipeline.guidance import CriticalRule, GrowthRule, Guideline
    from pipeline.irradiation import DoseFactor, DoseRule

TABLES = {"dose rule": "rule", "dose factor": "factor", "series rule": "series"}
_NUMBERED = re.compile(r"(dose rule|dose factor|series rule) (\d+)")
Rows = Any  # what a kind's own functions hand to each other: entries, pairs, rules


@dataclass(frozen=True, slots=True)
class RuleKind:
    """One kind. `current` reads the rows of a version, `lines` shows them to people, `toml` prints what `read` reads."""

    name: str
    what: str
    read: Callable[[str, str], Rows]  # text and file name → rows; raises BadInput
    current: Callable[[Session, int], Rows]
    write: Callable[[Session, Rows, int, str], None]  # session, rows, version, actor
    lines: Callable[[Rows], list[str]]
    toml: Callable[[Rows], str]
    merged: Callable[[Rows, Rows], Rows] | None = None  # with --add: present rows and the file's
    tells_trail: bool = False  # `write` writes the audit line itself


def kinds() -> Mapping[str, RuleKind]:
    """Every kind by name."""
    return {kind.name: kind for kind in (_terms(), _lexicon(), _dose(), _factors(), _series(), _critical(), _guidelines(), _history(), _growth())}


def kind_of(name: str) -> RuleKind:
    """Raises BadInput with the names there are."""
    found = kinds().get(name)
    if found is None:
        raise BadInput(f"there is no kind of rules '{name}'; known are {', '.join(kinds())}")
    return found


def change(session: Session, kind: RuleKind, path: Path, actor: str, note: str, *, add: bool) -> int:
    """Write the rows of a file as a new version; returns its number. Raises BadInput with the line and the reason, and then nothing is written."""
    from pipeline.store import versions

    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path.name} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    try:
        rows = kind.read(text, path.name)
        if add:
            rows = _added(session, kind, rows)
        told = None if kind.tells_trail else len(rows)
        return versions.changed(session, kind.name, actor, note, lambda now, version: kind.write(now, rows, version, actor), told)
    except BadInput as error:
        raise _with_line(error, text, path.name) from None


def _added(session: Session, kind: RuleKind, rows: Rows) -> Rows:
    from pipeline.store import versions

    if kind.merged is None:
        raise BadInput(f"--add is for terms, lexicon, critical and guidelines; a file of kind '{kind.name}' holds all of its rules")
    versions.take_turn(session)
    return kind.merged(kind.current(session, versions.in_force(session)), rows)


def _with_line(error: BadInput, text: str, name: str) -> BadInput:
    """What a room says of the n-th row, with the line where that stands."""
    from pipeline.rules.reading import line_of

    numbered = _NUMBERED.search(str(error))
    if numbered is None or str(error).startswith(name):
        return error
    return BadInput(f"{name}, line {line_of(text, TABLES[numbered[1]], int(numbered[2]))}: {error}")


def _terms() -> RuleKind:
    from pipeline.rules.reading import read_terms
    from pipeline.rules.writing import tables_toml
    from pipeline.store import lexicon

    def pairs(rows: Mapping[str, str]) -> list[dict[str, object]]:
        return [{"forbidden": form, "standard": standard} for form, standard in rows.items()]

    return RuleKind(
        "terms",
        "forbidden form → standard term",
        read_terms,
        lexicon.terms,
        lambda session, rows, version, actor: lexicon.set_terms(session, rows, version),
        lambda rows: [f"{form} → {standard}" for form, standard in rows.items()],
        lambda rows: tables_toml("term", pairs(rows)),
        lambda present, more: {**present, **more},
    )


def _lexicon() -> RuleKind:
    from pipeline.rules.reading import checked, read_lexicon
    from pipeline.rules.writing import lexicon_toml
    from pipeline.store import lexicon

    def merged(present: Sequence[Entry], more: Sequence[Entry]) -> tuple[Entry, ...]:
        return checked({entry.term: entry for entry in (*present, *more)}.values())

    def write(session: Session, rows: Sequence[Entry], version: int, actor: str) -> None:
        from pipeline.checking import RuleSet
        from pipeline.drafting.vocabulary import vocabulary
        from pipeline.rules.critical import refuse_unreadable
        from pipeline.store.guidance import critical_rules

        entries = checked(rows)  # a critical finding whose words or organs go with them would never be found again
        vocabulary(entries)  # words of the report schema that no schema can hold are refused here, not at the next draft
        refuse_unreadable(RuleSet(version, {}, lexicon=entries, critical=critical_rules(session, version)))
        lexicon.set_lexicon(session, entries, version)

    return RuleKind(
        "lexicon",
        "standard terms with synonyms, trees and cues",
        read_lexicon,
        lexicon.lexicon,
        write,
        lambda rows: list(map(_entry_line, rows)),
        lexicon_toml,
        merged,
    )


def _entry_line(entry: Entry) -> str:
    where = f" ({entry.organ or entry.parent})" if entry.organ or entry.parent else ""
    same = f" = {'、'.join(entry.synonyms)}" if entry.synonyms else ""
    wrong = f" ← {'、'.join(entry.forbidden)}" if entry.forbidden else ""
    return f"{entry.term} [{entry.kind}]{where}{same}{wrong}"


def _dose() -> RuleKind:
    from pipeline.rules.reading import read_tables
    from pipeline.rules.seed.dose import dose_rules as parsed
    from pipeline.rules.writing import tables_toml
    from pipeline.store import doses

    def fields(rule: DoseRule) -> dict[str, object]:
        return {key: value for key, value in asdict(rule).items() if key != "version"}

    return RuleKind(
        "dose",
        "when a draft warns of the cumulative dose",
        lambda text, name: parsed(read_tables(text, "rule", name), 0),
        doses.dose_rules,
        lambda session, rows, version, actor: doses.set_dose(session, rows, version),
        lambda rows: [f"{rule.id}: > {rule.threshold_msv:g} mSv in {rule.window_months} months: {rule.message}" for rule in rows],
        lambda rows: tables_toml("rule", map(fields, rows)),
    )


def _factors() -> RuleKind:
    from pipeline.rules.reading import read_tables
    from pipeline.rules.seed.dose import dose_factors as parsed
    from pipeline.rules.writing import tables_toml
    from pipeline.store import doses

    def fields(factor: DoseFactor) -> dict[str, object]:
        return {
            "region": factor.region,
            "phantom_cm": factor.phantom_cm,
            "ages": [factor.age_years],
            "k": [factor.k],
            "source": factor.source,
        }

    return RuleKind(
        "factors",
        "effective dose per DLP (k), by region, age and phantom",
        lambda text, name: parsed(read_tables(text, "factor", name)),
        lambda session, version: doses.DoseHistory(session).factors(),
        lambda session, rows, version, actor: doses.set_factors(session, rows, version),
        lambda rows: [f"{f.region}, from {f.age_years} years, {f.phantom_cm} cm: k = {f.k:g} ({f.source})" for f in rows],
        lambda rows: tables_toml("factor", map(fields, rows)),
    )


def _series() -> RuleKind:
    from pipeline.rules.reading import read_tables
    from pipeline.rules.writing import tables_toml
    from pipeline.store import series_rules

    def fields(rule: ChoiceRule) -> dict[str, object]:
        return {key: value or None for key, value in asdict(rule).items() if key != "version"} | {"effect": rule.effect.value}

    def line(rule: ChoiceRule) -> str:
        where = ", ".join(f"{name} ~ {pattern}" for name in series_rules.PATTERNS if (pattern := getattr(rule, name)))
        return f"{rule.effect.value}{f' {rule.points:+d}' if rule.points else ''}: {where} ({rule.reason})"

    return RuleKind(
        "series",
        "which series is read, before the built-in rules",
        lambda text, name: read_tables(text, "series", name),
        lambda session, version: series_rules.current_series(session),
        lambda session, rows, version, actor: series_rules.set_series(session, rows, version, actor),
        lambda rows: list(map(line, rows)),
        lambda rows: tables_toml("series", map(fields, rows)),
        tells_trail=True,
    )


def _critical() -> RuleKind:
    from pipeline.rules.guidelines_reading import critical_toml, read_critical
    from pipeline.store import guidance

    def line(rule: CriticalRule) -> str:
        said = "".join(f" {name} {'、'.join(words)}" for name in ("qualifiers", "unless") if (words := getattr(rule, name)))
        return f"{rule.id}: {rule.finding} = {'、'.join(rule.words)}{said}; {rule.severity}, {rule.minutes} min"

    return RuleKind(
        "critical",
        "critical findings (危急值) that raise an alert",
        read_critical,
        guidance.critical_rules,
        _write_critical,
        lambda rows: list(map(line, rows)),
        critical_toml,
        lambda present, more: tuple({rule.id: rule for rule in (*present, *more)}.values()),
    )


def _write_critical(session: Session, rows: Sequence[CriticalRule], version: int, actor: str) -> None:
    """Raises BadInput for a word that could never be found."""
    from pipeline.checking import RuleSet
    from pipeline.rules.critical import refuse_unreadable
    from pipeline.store import guidance
    from pipeline.store.lexicon import lexicon

    refuse_unreadable(RuleSet(version, {}, lexicon=lexicon(session, version), critical=tuple(rows)))
    guidance.set_critical(session, rows, version)


def _guidelines() -> RuleKind:
    from pipeline.rules.guidelines_reading import guidelines_toml, read_guidelines
    from pipeline.store import guidance

    def line(one: Guideline) -> str:
        return f"{one.id} ({'on' if one.enabled else 'off'}): {one.name}, {len(one.rows)} rows; {one.source}"

    return RuleKind(
        "guidelines",
        "published tables of what follows from a lung nodule",
        read_guidelines,
        guidance.guidelines,
        lambda session, rows, version, actor: guidance.set_guidelines(session, rows, version),
        lambda rows: list(map(line, rows)),
        guidelines_toml,
        lambda present, more: tuple({one.id: one for one in (*present, *more)}.values()),
    )


def _history() -> RuleKind:
    from pipeline.rules.guidelines_reading import cues_toml, read_cues
    from pipeline.store import guidance

    return RuleKind(
        "history",
        "what words of an indication tell of the patient",
        read_cues,
        guidance.cues,
        lambda session, rows, version, actor: guidance.set_cues(session, rows, version),
        lambda rows: [f"{cue.input} {cue.answer}: {'、'.join(cue.words)}" for cue in rows],
        cues_toml,
    )


def _growth() -> RuleKind:
    from pipeline.rules.guidelines_reading import growth_toml, read_growth
    from pipeline.store import guidance

    def line(rule: GrowthRule) -> str:
        return f"{rule.id}: more than {rule.min_growth_mm:g} mm and than the uncertainty (readers {rule.repeatability_mm:g} mm; {rule.source})"

    return RuleKind(
        "growth",
        "what counts as growth between two examinations",
        read_growth,
        guidance.growth_rules,
        lambda session, rows, version, actor: guidance.set_growth(session, rows, version),
        lambda rows: list(map(line, rows)),
        growth_toml,
    )
