"""The marker: nothing is struck without it, and no database of patients gets it."""

from __future__ import annotations

import psycopg
import pytest
from sqlalchemy import text

from pipeline.errors import NotAllowed, ServiceUnavailable
from pipeline.store.session import PgStore
from tests.integration.store import rows
from workers.chaos.mark import is_marked, mark, refuse_unmarked, unmark


def test_a_database_is_refused_until_somebody_marks_it_and_again_once_the_marker_is_gone(url: str) -> None:
    assert not is_marked(url)
    with pytest.raises(NotAllowed, match="ctreport chaos mark"):
        refuse_unmarked(url)
    mark(url)
    refuse_unmarked(url)
    unmark(url)
    assert not is_marked(url)


def test_a_setting_of_the_callers_own_session_is_no_marker(url: str) -> None:
    assert not is_marked(f"{url}?options=-c%20ctreport.test_database%3Dyes")


def test_a_database_with_a_study_of_a_patient_is_never_marked(store: PgStore, url: str) -> None:
    rows.ready_job(store)
    with pytest.raises(NotAllowed, match="holds 1 studies"):
        mark(url)
    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET is_phantom = true"))
    mark(url)
    assert is_marked(url)


def test_only_the_owner_may_mark(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS chaos_guest")
        connection.execute("CREATE ROLE chaos_guest LOGIN PASSWORD 'guest'")
        connection.execute("GRANT SELECT ON studies, jobs TO chaos_guest")
        try:
            with pytest.raises(NotAllowed, match="owner"):
                mark(_as("chaos_guest", url))
        finally:
            connection.execute("DROP OWNED BY chaos_guest")
            connection.execute("DROP ROLE chaos_guest")


def test_a_database_that_does_not_answer_is_named_without_its_password() -> None:
    with pytest.raises(ServiceUnavailable) as raised:
        is_marked("postgresql://app:sesame@127.0.0.1:1/x")
    assert "sesame" not in str(raised.value)


def _as(role: str, url: str) -> str:
    """The same database for another role, whose password is guest."""
    return f"postgresql://{role}:guest@{url.rpartition('@')[2]}"
