from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psycopg
import pytest

from pipeline.model import DEMO_WATERMARK, WATERMARK, ReportState, Step
from pipeline.ports import ReportRow
from pipeline.store import operator, schema
from pipeline.store.session import PgStore
from tests.integration.store import rows
from workers.embedded.postgres import Postgres

TABLES = "SELECT relname FROM pg_class WHERE relkind IN ('r', 'S') AND relnamespace = 'public'::regnamespace"
TEXTS = ("findings", "impression", "advice", "text")


def move(store: PgStore, *states: ReportState) -> ReportRow:
    """Move the one report through states in the name of 李医生."""
    report_id: UUID = rows.one(store, "SELECT id FROM reports ORDER BY revision DESC LIMIT 1")["id"]
    for state in states:
        with store.begin() as work:
            work.reports.move(work.reports.get(report_id), state, "李医生")
    with store.begin() as work:
        return work.reports.get(report_id)


def test_the_reader_reads_the_view_and_no_table(store: PgStore, url: str) -> None:
    rows.drafted(store)
    with psycopg.connect(url, autocommit=True) as connection:
        everything = connection.execute(TABLES).fetchall()
        assert len(everything) > 15
        connection.execute("SET ROLE ctreport_reader")
        assert connection.execute("SELECT count(*) FROM finished_reports").fetchone() == (1,)
        for (name,) in everything:
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(f'SELECT * FROM "{name}"')
        with pytest.raises(psycopg.errors.Error):
            connection.execute("DELETE FROM finished_reports")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE mine (id int)")


def test_every_text_of_an_unsigned_report_begins_with_the_watermark(store: PgStore) -> None:
    rows.drafted(store)
    for state in (None, ReportState.REVIEWING, ReportState.WRITTEN):
        move(store, *([state] if state else []))
        row = rows.one(store, "SELECT * FROM finished_reports")
        assert row["watermark"] == WATERMARK
        assert all(str(row[name]).startswith(WATERMARK) for name in TEXTS)


def test_a_demo_watermark_comes_first_too(store: PgStore) -> None:
    rows.drafted(store, phantom_only=True, watermark=f"{DEMO_WATERMARK}；{WATERMARK}")
    assert str(rows.one(store, "SELECT text FROM finished_reports")["text"]).startswith(DEMO_WATERMARK)


def test_a_signed_report_has_no_watermark_and_names_its_doctor(store: PgStore) -> None:
    rows.drafted(store)
    move(store, ReportState.REVIEWING, ReportState.WRITTEN, ReportState.SIGNED)
    row = rows.one(store, "SELECT * FROM finished_reports")
    assert (row["status"], row["state"], row["signed_by"], row["watermark"]) == ("已签发", "signed", "李医生", "")
    assert row["signed_at"] is not None
    assert row["text"] == "检查所见：右肺上叶见磨玻璃结节\n诊断意见：右肺上叶结节\n建议：建议随访"


def test_status_is_told_in_the_words_of_the_design(store: PgStore) -> None:
    rows.drafted(store)
    told = [rows.one(store, "SELECT status FROM finished_reports")["status"]]
    for state in (ReportState.REVIEWING, ReportState.WRITTEN, ReportState.SIGNED, ReportState.AMENDED):
        move(store, state)
        told.append(rows.one(store, "SELECT status FROM finished_reports")["status"])
    assert told == ["待审", "审阅中 李医生", "已书写，待审核", "已签发", "已修订"]


def test_flags_keep_the_original_words(store: PgStore) -> None:
    rows.drafted(store)
    (flag,) = rows.one(store, "SELECT flags FROM finished_reports")["flags"]
    assert flag == {
        "rule": "term",
        "version": 1,
        "severity": "replaced",
        "section": "检查所见",
        "start": 2,
        "end": 5,
        "message": "毛玻璃 → 磨玻璃",
        "original": "毛玻璃",
        "resolved_by": None,
        "resolved_at": None,
        "resolution": None,
    }


def test_a_late_image_hides_an_untouched_draft_until_the_next_is_there(store: PgStore) -> None:
    rows.drafted(store)
    rows.send(store, rows.header(9))
    rows.freeze(store)
    assert rows.count(store, "finished_reports") == 0


def test_a_late_image_never_hides_what_a_reader_has_touched(store: PgStore) -> None:
    rows.drafted(store)
    move(store, ReportState.REVIEWING)
    rows.send(store, rows.header(9))
    rows.freeze(store)
    row = rows.one(store, "SELECT revision, state FROM finished_reports")
    assert (row["revision"], row["state"]) == (1, "reviewing")
    draft_again(store)
    newest = rows.one(store, "SELECT revision, state FROM finished_reports WHERE revision = 2")
    touched = rows.one(store, "SELECT revision, state FROM finished_reports WHERE revision = 1")
    assert (newest["state"], touched["state"]) == ("waiting", "reviewing")


def draft_again(store: PgStore) -> None:
    """Encode and draft the job that is ready."""
    (job,) = rows.claim(store)
    with store.begin() as work:
        work.studies.encoded(job, "f", "e", "1", rows.ME)
    (job,) = rows.claim(store, Step.DRAFT)
    with store.begin() as work:
        work.studies.save_draft(job, rows.draft(job), rows.ME)


def test_only_the_newest_revision_is_shown(store: PgStore) -> None:
    rows.drafted(store)
    rows.send(store, rows.header(9))
    rows.freeze(store)
    draft_again(store)
    assert rows.one(store, "SELECT revision FROM finished_reports")["revision"] == 2
    assert rows.one(store, "SELECT state FROM reports WHERE revision = 1")["state"] == "rejected"


def test_a_superseded_draft_is_not_delivered_any_more(store: PgStore) -> None:
    draft_id = rows.drafted(store)
    with store.begin() as work:
        work.deliveries.ask(draft_id, "markdown")
    rows.send(store, rows.header(9))
    rows.freeze(store)
    with store.begin() as work:
        assert work.deliveries.claim(5, rows.ME) == ()
    assert rows.one(store, "SELECT state FROM deliveries")["state"] == "failed"


def test_a_withdrawn_study_shows_no_draft(store: PgStore) -> None:
    rows.drafted(store)
    assert operator.withdraw(store, "1.2.3") == ("complete", "withdrawn")
    assert rows.count(store, "finished_reports") == 0
    assert rows.one(store, "SELECT state FROM reports")["state"] == "rejected"
    assert rows.one(store, "SELECT state FROM jobs")["state"] == "superseded"


def test_a_password_lets_the_reader_in_and_downgrade_keeps_the_role(postgres_server: Postgres, database_url: str, url: str) -> None:
    secret = "p'a\"s%s word"
    schema.migrate(database_url, reader_password=secret)
    schema.migrate(database_url, reader_password=secret)
    with psycopg.connect(database_url, user=schema.READER, password=secret) as connection:
        assert connection.execute("SELECT count(*) FROM finished_reports").fetchone() == (0,)
    schema.downgrade(database_url)
    with psycopg.connect(url, user=schema.READER, password=secret) as connection:
        assert connection.execute("SELECT count(*) FROM finished_reports").fetchone() == (0,)
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("ALTER ROLE ctreport_reader NOLOGIN PASSWORD NULL")


def test_two_databases_of_one_cluster_open_the_role_at_once(postgres_server: Postgres, database_url: str, url: str) -> None:
    def migrate(target: str) -> None:
        schema.migrate(target, reader_password="same for both")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(migrate, [database_url, url, database_url, url]))
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        row = connection.execute("SELECT rolcanlogin, rolsuper FROM pg_roles WHERE rolname = 'ctreport_reader'").fetchone()
        assert row == (True, False)
        connection.execute("ALTER ROLE ctreport_reader NOLOGIN PASSWORD NULL")
