"""A migrated database per test, copied from a template that is migrated once."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from pipeline.store import schema
from pipeline.store.session import PgStore
from workers.embedded.postgres import Postgres


@pytest.fixture(scope="session")
def template(postgres_server: Postgres) -> str:
    """Name of a database at the newest revision."""
    name = f"template_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    schema.migrate(postgres_server.url_of(name))
    return name


@pytest.fixture
def url(postgres_server: Postgres, template: str) -> Iterator[str]:
    """postgresql:// URL of a migrated, empty database."""
    name = f"store_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        yield postgres_server.url_of(name)
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def store(url: str) -> Iterator[PgStore]:
    """A store on a migrated, empty database."""
    made = PgStore(url, pool_size=8)
    yield made
    made.dispose()
