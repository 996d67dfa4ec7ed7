"""How a real worker ends and how it wakes: ordered, with nothing lost, and never deaf."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.store.session import PgStore
from tests.integration.store import rows
from workers.hearing import EXIT_DEAF

PATIENCE_S = 150.0
ROW = "SELECT state, attempts, lease_owner FROM jobs WHERE study_id = (SELECT id FROM studies WHERE study_uid = '1.2.3')"


@contextmanager
def worker(tmp_path: Path, database_url: str, redis_url: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """The encode worker; killed at the end if it still runs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CTREPORT_")}
    urls = {"CTREPORT_DATABASE_URL": database_url, "CTREPORT_REDIS_URL": redis_url, "CTREPORT_MODE": "demo", "CTREPORT_DATA": str(tmp_path)}
    command = [sys.executable, "-m", "tests.integration.platform.slow_worker", str(tmp_path / "word")]
    with (tmp_path / "worker.log").open("wb") as output:
        started = subprocess.Popen(command, env=kept | urls | env, stdout=output, stderr=output)
    try:
        yield started
    finally:
        if started.poll() is None:
            started.kill()
        started.wait(timeout=30)


def until(true: Callable[[], bool], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, log.read_text(errors="replace")
        time.sleep(0.05)


def works(store: PgStore) -> Callable[[], bool]:
    return lambda: rows.one(store, "SELECT count(*) AS n FROM jobs WHERE state = 'encoding'")["n"] == 1


def test_a_worker_told_to_end_finishes_what_it_works_on_within_the_grace_and_takes_no_more(
    store: PgStore, url: str, redis_url: str, tmp_path: Path
) -> None:
    rows.ready_job(store, "1.2.3")
    rows.ready_job(store, "1.2.4")
    with worker(tmp_path, url, redis_url, CTREPORT_WORK_GRACE_S="120") as process:
        until(works(store), tmp_path / "worker.log")
        process.send_signal(signal.SIGTERM)
        until(lambda: b"Warm shutdown" in (tmp_path / "worker.log").read_bytes(), tmp_path / "worker.log")
        (tmp_path / "word").touch()
        assert process.wait(PATIENCE_S) == 0
    states = rows.one(store, "SELECT array_agg(state ORDER BY state) AS s, count(lease_owner) AS held FROM jobs")
    assert states == {"s": ["failed", "ready"], "held": 0}


def test_a_worker_that_cannot_finish_within_the_grace_hands_its_job_back_at_no_cost(store: PgStore, url: str, redis_url: str, tmp_path: Path) -> None:
    rows.ready_job(store)
    with worker(tmp_path, url, redis_url, CTREPORT_WORK_GRACE_S="0.2") as process:
        until(works(store), tmp_path / "worker.log")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert rows.one(store, ROW) == {"state": "ready", "attempts": 0, "lease_owner": None}
    assert rows.one(store, "SELECT count(*) AS n FROM audit WHERE action = 'handed_back'")["n"] == 1


def test_a_worker_that_no_bell_reaches_while_rows_wait_ends_so_that_it_is_started_again(
    store: PgStore, url: str, redis_url: str, tmp_path: Path
) -> None:
    """Nobody rings here but the worker itself, once, when it starts."""
    log = tmp_path / "worker.log"
    with worker(tmp_path, url, redis_url, CTREPORT_WORK_DEAF_S="2") as process:
        until((tmp_path / "word.heard").exists, log)
        rows.ready_job(store)
        assert process.wait(PATIENCE_S) == EXIT_DEAF
    assert rows.one(store, ROW)["state"] == "ready"
