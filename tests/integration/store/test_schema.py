import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import inspect

from pipeline.errors import BadInput, ServiceUnavailable
from pipeline.model import JobState, ReportState, StudyState
from pipeline.store import schema
from pipeline.store.session import PgStore
from tests.integration.store import rows


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        return {str(row[0]) for row in connection.execute("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace")}


def test_up_down_up_leaves_nothing_behind_and_models_match(database_url: str) -> None:
    schema.migrate(database_url)
    schema.check(database_url)
    whole = tables(database_url)
    schema.downgrade(database_url)
    assert tables(database_url) == {"alembic_version", "alembic_version_pkc"}
    schema.migrate(database_url)
    schema.check(database_url)
    assert tables(database_url) == whole


def test_each_migration_goes_up_down_and_up(database_url: str) -> None:
    for revision in sorted(path.name[:4] for path in Path(schema.SCRIPTS, "versions").glob("0*.py")):
        schema.migrate(database_url, revision)
        schema.downgrade(database_url, "-1")
        schema.migrate(database_url, revision)
    schema.check(database_url)


def test_drafts_from_before_findings_were_told_in_full_stay_and_say_that_nobody_measured(database_url: str) -> None:
    """0014 on a database with a draft: its columns are empty, and going back loses only them."""
    schema.migrate(database_url, "0013")
    ids = [f"00000000-0000-0000-0000-00000000000{number}" for number in range(1, 5)]
    with psycopg.connect(database_url) as connection:
        connection.execute("SET session_replication_role = replica")  # the draft alone, without the study that it is of
        draft = "INSERT INTO drafts VALUES (%s, %s, 'radiology', '所见', '意见', '建议', 'fake', 'm', 'd', false, 9, 3, '{1,2}', 0.5, 1, '草稿')"
        connection.execute(draft, ids[:2])
        connection.execute("INSERT INTO draft_findings VALUES (%s, 0, 1, '结节', '左肺', '上叶', '实性', 8)", ids[:1])
    schema.migrate(database_url, "0014")
    with psycopg.connect(database_url) as connection:
        found = connection.execute("SELECT forced, positions, sections, sources, ood FROM drafts").fetchone()
        assert found == (0, [], {}, {}, None)
        assert connection.execute("SELECT kind, margin, internal, surround FROM draft_findings").fetchone() == ("结节", None, None, None)
    schema.downgrade(database_url, "-1")
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT tokens, accepted_histogram FROM drafts").fetchone() == (9, [1, 2])


def test_two_migrators_at_once_take_turns(database_url: str) -> None:
    code = "import sys; from pipeline.store.schema import migrate; migrate(sys.argv[1])"
    both = [subprocess.Popen([sys.executable, "-c", code, database_url]) for _ in range(2)]
    assert [process.wait(60) for process in both] == [0, 0]
    schema.check(database_url)


def test_two_threads_of_one_process_may_migrate(database_url: str) -> None:
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(schema.migrate, [database_url] * 2))
    schema.check(database_url)


def test_migrating_twice_changes_nothing(url: str) -> None:
    schema.migrate(url)
    schema.check(url)


def test_a_database_without_schema_says_what_to_do(database_url: str) -> None:
    store = PgStore(database_url)
    with pytest.raises(ServiceUnavailable, match="migrate it first"), store.begin() as work:
        work.rules.current()
    store.dispose()


def test_every_time_has_a_zone_and_every_constraint_a_deliberate_name(store: PgStore) -> None:
    with store.begin() as work:
        inspector = inspect(work.session.connection())
        for table in inspector.get_table_names():
            naive = [c["name"] for c in inspector.get_columns(table) if getattr(c["type"], "timezone", True) is False]
            assert naive == [], table
            names = [c["name"] for c in inspector.get_check_constraints(table)] + [c["name"] for c in inspector.get_foreign_keys(table)]
            assert all(str(name).startswith(("ck_", "fk_")) for name in names), names


@pytest.mark.parametrize(
    ("table", "states"), [("studies", StudyState), ("jobs", JobState), ("reports", ReportState)], ids=["studies", "jobs", "reports"]
)
def test_states_are_exactly_those_of_the_model(store: PgStore, table: str, states: type[StudyState | JobState | ReportState]) -> None:
    rows.drafted(store)
    query = f"SELECT pg_get_constraintdef(oid) AS body FROM pg_constraint WHERE conname = 'ck_{table}_state'"
    body = str(rows.one(store, query)["body"])
    assert all(f"'{state.value}'" in body for state in states)
    with pytest.raises(BadInput, match=f"ck_{table}_state"):
        rows.one(store, f"UPDATE {table} SET state = 'lost' RETURNING 1")


def test_a_job_without_work_cannot_hold_a_lease(store: PgStore) -> None:
    rows.ready_job(store)
    with pytest.raises(BadInput, match="ck_jobs_lease_state"):
        rows.one(store, "UPDATE jobs SET lease_owner = 'x', lease_until = now() RETURNING 1")


@pytest.mark.parametrize("statement", ["UPDATE audit SET actor = 'x' RETURNING 1", "DELETE FROM audit RETURNING 1", "TRUNCATE audit"])
def test_the_trail_cannot_be_changed(store: PgStore, statement: str) -> None:
    with store.begin() as work:
        work.audit.append("assemble", images="3")
    with pytest.raises(ServiceUnavailable, match="42501"):
        rows.one(store, statement)
    assert rows.one(store, "SELECT detail FROM audit")["detail"] == {"images": "3"}


def test_migrations_stand_beside_the_package() -> None:
    assert Path(schema.SCRIPTS, "env.py").is_file()
