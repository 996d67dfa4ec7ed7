"""Alembic's environment: one transaction, one migrator at a time per database, and no statement that waits for ever."""

from __future__ import annotations

from alembic import context
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import NullPool

from pipeline.errors import ServiceUnavailable
from pipeline.settings import settings
from pipeline.store.session import driver_url
from pipeline.store.tables import Base

ADVISORY_LOCK = 0x6374_7265_706F_7274  # "ctreport"


def database_url() -> str:
    """The URL of the caller (`schema.migrate`), else of the settings. Raises ServiceUnavailable without either."""
    given = context.config.attributes.get("url")
    if isinstance(given, str):
        return given
    url = settings().store.url
    if url is None:
        raise ServiceUnavailable("no database to migrate: set CTREPORT_DATABASE_URL, or let `ctreport up` migrate its own")
    return url.get_secret_value()


def take_turns(connection: Connection) -> None:
    """Wait up to a minute for another migrator, then let no statement wait long for a lock or run for ever."""
    connection.execute(text("SET LOCAL lock_timeout = '60s'"))
    connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})
    connection.execute(text("SET LOCAL lock_timeout = '5s'"))
    connection.execute(text("SET LOCAL statement_timeout = '300s'"))


def run() -> None:
    """Migrate over a connection of our own."""
    engine = create_engine(driver_url(database_url()), poolclass=NullPool, hide_parameters=True)
    try:
        with engine.connect() as connection:
            context.configure(connection=connection, target_metadata=Base.metadata, compare_type=True, compare_server_default=True)
            with context.begin_transaction():
                take_turns(connection)
                context.run_migrations()
    finally:
        engine.dispose()


def print_sql() -> None:
    """`alembic upgrade --sql`: the statements for somebody else to run."""
    context.configure(dialect_name="postgresql", target_metadata=Base.metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    print_sql()
else:
    run()
