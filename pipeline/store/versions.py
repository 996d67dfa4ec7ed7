"""Versions of the rules: a change copies the version in force whole, changes one kind in the copy and says so in the trail, in one transaction."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Table, func, insert, literal, select
from sqlalchemy.orm import Session

from pipeline.errors import BadInput
from pipeline.store.audit import PgAudit
from pipeline.store.repository import plain
from pipeline.store.tables import Base, RuleVersionRow

LOCK = 7_012_000  # two people who change rules at the same moment take turns


@dataclass(frozen=True, slots=True)
class RuleVersion:
    """One version: who made it, when, and why."""

    version: int
    actor: str
    note: str
    created_at: datetime


def in_force(session: Session) -> int:
    """The highest version; 0 where there is none."""
    return session.scalar(select(func.max(RuleVersionRow.version))) or 0


def take_turn(session: Session) -> None:
    """Wait until nobody else changes rules, and keep it so until the end of the transaction: before what is in force is read to be added to."""
    session.execute(select(func.pg_advisory_xact_lock(LOCK)))


def changed(session: Session, kind: str, actor: str, note: str, write: Callable[[Session, int], None], rows: int | None) -> int:
    """A new version in which `write` has set one kind; everything else is as it was. Returns its number. Raises BadInput without an actor.

    The trail gets who, what and how many rows; `rows` is None where `write` tells the trail itself.
    """
    if not actor.strip():
        raise BadInput("a change of the rules needs the name of who makes it; give --by NAME")
    take_turn(session)
    before = in_force(session)
    version = before + 1
    session.add(RuleVersionRow(version=version, actor=plain(actor), note=plain(note)))
    session.flush()
    for table in _versioned():
        _copy(session, table, before, version)
    write(session, version)
    if rows is not None:
        PgAudit(session).append("rules", actor=actor, kind=kind, version=str(version), before=str(before), note=note, rows=str(rows))
    return version


def history(session: Session) -> tuple[RuleVersion, ...]:
    """Every version, the newest first."""
    query = select(RuleVersionRow).order_by(RuleVersionRow.version.desc())
    return tuple(RuleVersion(row.version, row.actor, row.note, row.created_at) for row in session.scalars(query))


def _versioned() -> tuple[Table, ...]:
    """Every table whose rows belong to a rule version."""
    mine = RuleVersionRow.__tablename__
    keyed = ((table, table.c.get("version")) for table in Base.metadata.sorted_tables)
    return tuple(table for table, column in keyed if column is not None and any(key.column.table.name == mine for key in column.foreign_keys))


def _copy(session: Session, table: Table, before: int, version: int) -> None:
    others = [column for column in table.c if column.name != "version"]
    rows = select(literal(version), *others).where(table.c.version == before)
    session.execute(insert(table).from_select([table.c.version, *others], rows))
