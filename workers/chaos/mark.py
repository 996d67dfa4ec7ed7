"""The test marker of a database: without it `ctreport chaos` touches nothing.

It is a setting of the database itself (ALTER DATABASE … SET), so it stays behind when the data are copied: neither a plain dump nor a restored
backup carries it to another one.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from pipeline.errors import NotAllowed, ServiceUnavailable

MARKER = "ctreport.test_database"
YES = "faults may be made here"
STATE = """SELECT coalesce((SELECT bool_or(entry = %s) FROM pg_db_role_setting, unnest(setconfig) AS entry
    WHERE setrole = 0 AND setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())), false), current_database()"""
STUDIES = "SELECT count(*) FROM studies"
ANYBODYS = "SELECT count(*) FROM studies s WHERE NOT EXISTS (SELECT FROM jobs j WHERE j.study_id = s.id AND j.is_phantom)"


def is_marked(database_url: str) -> bool:
    """True when somebody has marked this database as one for tests. Raises ServiceUnavailable."""
    with _connected(database_url) as connection:
        row = connection.execute(STATE, [f"{MARKER}={YES}"]).fetchone()
    return row is not None and bool(row[0])


def refuse_unmarked(database_url: str) -> None:
    """Raises NotAllowed for a database that nobody has marked."""
    if not is_marked(database_url):
        raise NotAllowed(
            "this database has no test marker, so nothing was touched: faults are made in test stacks alone. Where it is one, mark it with "
            "`ctreport chaos mark`"
        )


def mark(database_url: str) -> None:
    """Mark a database as one for tests. Raises NotAllowed where it holds studies that are not phantoms, or where the user does not own it."""
    with _connected(database_url) as connection:
        others = _count(connection, ANYBODYS)
        if others:
            raise NotAllowed(
                f"the database holds {others} studies that are not phantoms of this installation: it is no test database; take an empty one"
            )
        _set(connection, sql.SQL("SET {} TO {}").format(sql.Identifier(*MARKER.split(".")), sql.Literal(YES)))


def unmark(database_url: str) -> None:
    """Take the marker away. Raises NotAllowed where the user does not own the database."""
    with _connected(database_url) as connection:
        _set(connection, sql.SQL("RESET {}").format(sql.Identifier(*MARKER.split("."))))


def _set(connection: psycopg.Connection, change: sql.Composed) -> None:
    (name,) = connection.execute("SELECT current_database()").fetchone() or ("",)
    try:
        connection.execute(sql.SQL("ALTER DATABASE {} ").format(sql.Identifier(name)) + change)
    except psycopg.errors.InsufficientPrivilege:
        raise NotAllowed("only the database's owner can mark it; run this with its owner in CTREPORT_DATABASE_URL") from None


def _count(connection: psycopg.Connection, query: str) -> int:
    """Rows; none where the schema is not there yet."""
    try:
        row = connection.execute(query).fetchone()
    except psycopg.errors.UndefinedTable:
        return 0
    return 0 if row is None else int(row[0])


def _connected(database_url: str) -> psycopg.Connection:
    try:
        return psycopg.connect(database_url, autocommit=True, connect_timeout=10)
    except psycopg.OperationalError as error:
        raise ServiceUnavailable(f"the database does not answer ({type(error).__name__}); check that PostgreSQL runs") from None
