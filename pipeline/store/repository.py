"""What the repositories share: the session of one transaction, the database's clock, and text that PostgreSQL can hold."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, any_, func, literal, literal_column
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session


class Repository:
    """Works inside the transaction of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session


def in_seconds(seconds: float) -> ColumnElement[datetime]:
    """The database's now() plus `seconds`; negative looks back."""
    moment: ColumnElement[datetime] = func.now() + func.make_interval(0, 0, 0, 0, 0, 0, seconds)
    return moment


def fixed(state: StrEnum) -> ColumnElement[str]:
    """A state written into the statement itself: a prepared statement's generic plan can then use the partial indexes on states."""
    return literal_column(f"'{state.value}'", Text)


def looked_up(rows: Select[Any]) -> ColumnElement[bool]:
    """True where a correlated query finds a row, by that query's index for each row on its own. Of EXISTS in a column or beside OR, PostgreSQL
    may make a hash table of every row of the other table, which grows with the years."""
    return rows.limit(1).scalar_subquery().is_not(None)


def any_of(texts: Iterable[str]) -> ColumnElement[bool]:
    """One array parameter, however many texts: `column == any_of(texts)`."""
    return any_(literal(sorted(texts), ARRAY(Text)))


def plain(text: str) -> str:
    """Text without what PostgreSQL refuses: NUL characters and lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()


def plain_list(texts: Iterable[str]) -> list[str]:
    """A list of plain texts."""
    return [plain(text) for text in texts]
