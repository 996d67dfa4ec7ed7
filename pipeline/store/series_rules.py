"""A site's rules of which series is read: versions that retire each other, read anew at every assembly."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from pipeline.choosing import ChoiceRule, RuleEffect
from pipeline.errors import BadInput
from pipeline.store.audit import PgAudit
from pipeline.store.repository import Repository, plain
from pipeline.store.tables import SeriesRuleRow

PATTERNS = ("station", "study", "series")
KNOWN = frozenset({*PATTERNS, "effect", "points", "reason"})
MOST_POINTS = 500  # the built-in rules give about 150; more than `prefer` gives would take its place
LONGEST_PATTERN = 200


class SeriesRules(Repository):
    """The assemble step's part of the rules."""

    def choice_rules(self) -> tuple[ChoiceRule, ...]:
        """The rules in force, in their order; see the Studies port."""
        return current_series(self.session)


def current_series(session: Session) -> tuple[ChoiceRule, ...]:
    """The rules in force, in their order; none where a site has none."""
    query = select(SeriesRuleRow).where(SeriesRuleRow.retired_at.is_(None)).order_by(SeriesRuleRow.version, SeriesRuleRow.position)
    return tuple(
        ChoiceRule(RuleEffect(row.effect), row.reason, row.station, row.study, row.series, row.points, row.version) for row in session.scalars(query)
    )


def set_series(session: Session, rows: Sequence[Mapping[str, object]], version: int, actor: str = "system") -> None:
    """Put these rules in the place of those in force, as one version with an audit line; none at all leaves the built-in ones alone in force.

    A row is a TOML table: `effect` (prefer, refuse or points), `reason`, at least one pattern of `station`, `study`, `series`, and `points`.
    Raises BadInput with the row and what is wrong with it, before anything is written.
    """
    rules = [_rule(row, number, version) for number, row in enumerate(rows, start=1)]
    session.execute(update(SeriesRuleRow).where(SeriesRuleRow.retired_at.is_(None)).values(retired_at=func.now()))
    if rules:
        session.execute(insert(SeriesRuleRow), [_values(rule, position) for position, rule in enumerate(rules)])
    PgAudit(session).append("rules", actor=actor, kind="series", version=str(version), rows=str(len(rules)))


def _rule(row: Mapping[str, object], number: int, version: int) -> ChoiceRule:
    where = f"series rule {number}"
    if unknown := sorted(row.keys() - KNOWN):
        raise BadInput(f"{where} has the unknown key '{unknown[0]}'; known ones are {', '.join(sorted(KNOWN))}")
    if row.get("effect") not in list(RuleEffect):
        raise BadInput(f"{where} needs effect = 'prefer', 'refuse' or 'points', not '{row.get('effect', '')}'")
    effect, points = RuleEffect(str(row["effect"])), row.get("points", 0)
    if isinstance(points, bool) or not isinstance(points, int) or abs(points) > MOST_POINTS or (points != 0) != (effect is RuleEffect.POINTS):
        raise BadInput(f"{where}: `points` is a whole number from -{MOST_POINTS} to {MOST_POINTS}, not 0, and stands with effect = 'points' only")
    reason = str(row.get("reason", "")).strip()
    patterns = {name: _pattern(row.get(name, ""), name, where) for name in PATTERNS}
    if not reason or not any(patterns.values()):
        raise BadInput(f"{where} needs a `reason` for the reader, and a pattern in `station`, `study` or `series`")
    return ChoiceRule(effect, plain(reason), **patterns, points=points, version=version)


def _pattern(value: object, name: str, where: str) -> str:
    """A regular expression. Python's takes exponential time with nested repetition, so that is refused."""
    if not isinstance(value, str) or len(value) > LONGEST_PATTERN or "\x00" in value:
        raise BadInput(f"{where}: `{name}` is a pattern of up to {LONGEST_PATTERN} characters")
    try:
        re.compile(value)
    except re.error as error:
        raise BadInput(
            f"{where}: `{name}` is no regular expression ({error.msg} at {error.pos}); write a backslash before ( ) [ ] + * ? . |"
        ) from error
    if re.search(r"[+*}]\)[+*{]", value):
        raise BadInput(f"{where}: `{name}` repeats a repetition, which can take for ever on some text; write it without the outer + or *")
    return value


def _values(rule: ChoiceRule, position: int) -> dict[str, object]:
    names = ("station", "study", "series", "points", "reason", "version")
    return {"position": position, "effect": rule.effect.value} | {name: getattr(rule, name) for name in names}
