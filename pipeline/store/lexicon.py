"""The lexicon and the replaced terms as rows of one rule version."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from sqlalchemy import delete, insert, select
from sqlalchemy.orm import Session

from pipeline.entry import Entry, Kind, Level, Scope
from pipeline.store.repository import plain, plain_list
from pipeline.store.tables import LexiconEntryRow, RuleTermRow


def set_lexicon(session: Session, rows: Sequence[Entry], version: int) -> None:
    """Put these entries in the place of those that this version holds so far."""
    session.execute(delete(LexiconEntryRow).where(LexiconEntryRow.version == version))
    if rows:
        session.execute(insert(LexiconEntryRow), [_row(entry, version) for entry in rows])


def set_terms(session: Session, rows: Mapping[str, str], version: int) -> None:
    """Put these pairs (forbidden form → standard term) in the place of those that this version holds so far."""
    session.execute(delete(RuleTermRow).where(RuleTermRow.version == version))
    if rows:
        session.execute(insert(RuleTermRow), [{"version": version, "forbidden": plain(bad), "standard": plain(good)} for bad, good in rows.items()])


def lexicon(session: Session, version: int) -> tuple[Entry, ...]:
    """The entries of a version, by term."""
    query = select(LexiconEntryRow).where(LexiconEntryRow.version == version).order_by(LexiconEntryRow.term)
    return tuple(_entry(row) for row in session.scalars(query))


def terms(session: Session, version: int) -> Mapping[str, str]:
    """Forbidden form → standard term of a version, by form."""
    query = select(RuleTermRow.forbidden, RuleTermRow.standard).where(RuleTermRow.version == version).order_by(RuleTermRow.forbidden)
    return MappingProxyType({row.forbidden: row.standard for row in session.execute(query)})


def _row(entry: Entry, version: int) -> dict[str, object]:
    return {
        "version": version,
        "term": plain(entry.term),
        "kind": entry.kind.value,
        "source": plain(entry.source),
        "synonyms": plain_list(entry.synonyms),
        "forbidden": plain_list(entry.forbidden),
        "side": entry.side,
        "parent": plain(entry.parent),
        "organ": plain(entry.organ),
        "level": entry.level.value if entry.level else None,
        "scope": entry.scope.value if entry.scope else None,
        "tags": plain_list(entry.tags),
        "english": plain(entry.english),
    }


def _entry(row: LexiconEntryRow) -> Entry:
    return Entry(
        term=row.term,
        kind=Kind(row.kind),
        source=row.source,
        synonyms=tuple(row.synonyms),
        forbidden=tuple(row.forbidden),
        side=row.side,
        parent=row.parent,
        organ=row.organ,
        level=Level(row.level) if row.level else None,
        scope=Scope(row.scope) if row.scope else None,
        tags=tuple(row.tags),
        english=row.english,
    )
