import socket
from collections.abc import Callable

import psycopg
import pytest
from sqlalchemy import text

from pipeline.errors import ServiceUnavailable
from pipeline.ports import Filing
from pipeline.store.session import PgStore, PgWork
from tests.integration.store import rows


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def test_a_dead_database_is_unavailable_and_its_message_keeps_the_password() -> None:
    store = PgStore(f"postgresql://app:hunter2@127.0.0.1:{free_port()}/x", connect_timeout_s=2)
    with pytest.raises(ServiceUnavailable) as caught:
        store.ping()
    assert "hunter2" not in str(caught.value)
    assert "does not answer" in str(caught.value)
    store.dispose()


def test_a_wrong_password_is_told_without_the_password(url: str) -> None:
    parts = psycopg.conninfo.conninfo_to_dict(url)
    store = PgStore(f"postgresql://{parts['user']}:hunter2@{parts['host']}:{parts['port']}/{parts['dbname']}")
    with pytest.raises(ServiceUnavailable) as caught:
        store.ping()
    assert "hunter2" not in str(caught.value)
    store.dispose()


def register_and(store: PgStore, then: Callable[[PgWork], None]) -> None:
    with store.begin() as work:
        work.studies.register([(rows.header(1), None)])
        then(work)


def test_a_killed_connection_leaves_nothing_and_the_next_transaction_works(store: PgStore, url: str) -> None:
    def killed(work: PgWork) -> None:
        backend = work.session.execute(text("SELECT pg_backend_pid()")).scalar_one()
        with psycopg.connect(url, autocommit=True) as killer:
            killer.execute("SELECT pg_terminate_backend(%s)", (backend,))
        work.studies.register([(rows.header(2), None)])

    with pytest.raises(ServiceUnavailable):
        register_and(store, killed)
    assert rows.count(store, "instances") == rows.count(store, "studies") == 0
    assert rows.send(store, rows.header(1)) == [Filing.NEW]


def test_a_connection_killed_while_idle_costs_nothing(store: PgStore, url: str) -> None:
    store.ping()
    with psycopg.connect(url, autocommit=True) as killer:
        killer.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
    store.ping()


def test_an_exception_rolls_back(store: PgStore) -> None:
    def broken(_: PgWork) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        register_and(store, broken)
    assert rows.count(store, "studies") == 0


def test_a_statement_that_hangs_is_cancelled(url: str) -> None:
    store = PgStore(url, statement_timeout_ms=100)
    with pytest.raises(ServiceUnavailable, match="QueryCanceled"):
        rows.one(store, "SELECT pg_sleep(10)")
    store.dispose()


def test_refused_values_are_not_repeated(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    with pytest.raises(Exception, match="uq_patients_patient_id_issuer") as caught:
        rows.one(store, "INSERT INTO patients (patient_id, issuer, name, name_guess, sex) SELECT patient_id, issuer, name, false, '' FROM patients")
    assert rows.NAME not in str(caught.value)
    assert "P-1" not in str(caught.value)
    assert caught.value.__suppress_context__
