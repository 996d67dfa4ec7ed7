"""Killed workers, an emptied Redis, a killed listener: the draft still arrives, once, and no acknowledged image is lost."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import redis

from pipeline.engine.checkpoint import PACKAGED
from tests.journeys.conftest import RunningStack, eventually, running

STATE = "SELECT state FROM jobs"


def kill(stack: RunningStack, part: str) -> None:
    """SIGKILL one process of the stack, as it runs now."""
    pid = stack.info.part(part).pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)


def empty_redis(stack: RunningStack) -> None:
    with redis.Redis.from_url(stack.info.redis_url) as client:
        client.flushall()


def test_workers_killed_in_encode_and_in_draft_with_redis_emptied_between_still_give_one_draft(tmp_path: Path, test_data: Path) -> None:
    with running(tmp_path / "stack") as stack:
        stack.json("send", str(test_data / "chest_lidc_0314"))
        eventually(lambda: stack.query(STATE) == [("encoding",)])
        kill(stack, "worker-encode")
        assert stack.query("SELECT count(*) FROM drafts") == [(0,)]
        empty_redis(stack)
        eventually(lambda: stack.query(STATE) == [("drafting",)])
        kill(stack, "worker-draft")
        assert stack.query("SELECT count(*) FROM drafts") == [(0,)]
        empty_redis(stack)
        eventually(lambda: stack.query(STATE) == [("drafted",)])
        assert stack.read("SELECT count(*) FROM finished_reports") == [(1,)]
        assert stack.query("SELECT count(*) FROM drafts") == [(1,)]
        assert stack.query("SELECT count(*) FROM jobs WHERE lease_owner IS NOT NULL") == [(0,)]
        assert stack.json("verify")["clean"] is True


def test_a_listener_killed_in_the_middle_of_a_send_loses_no_acknowledged_image(tmp_path: Path, test_data: Path) -> None:
    with running(tmp_path / "stack") as stack:
        port = stack.info.ports["listener"]
        sending = stack.start("send", str(test_data / "chest_lidc_0314"), "--port", str(port), "--json", str(tmp_path / "sent.json"))
        eventually(lambda: stack.query("SELECT count(*) >= 5 FROM instances") == [(True,)])
        kill(stack, "listener")
        sending.wait(timeout=60)
        report = stack.json("verify")
        assert (report["missing"], report["changed"]) == ([], [])
        assert report["acknowledged"] >= 5
        eventually(lambda: stack.info.part("listener").restarts >= 1)
        assert stack.resend(test_data / "chest_lidc_0314")["succeeded"] == 28
        eventually(lambda: stack.read("SELECT count(*) FROM finished_reports") == [(1,)])
        assert stack.query("SELECT count(*) FROM instances") == [(28,)]
        assert stack.json("verify")["clean"] is True


def test_a_database_killed_in_the_middle_of_a_send_loses_nothing_and_work_goes_on(tmp_path: Path, test_data: Path) -> None:
    with running(tmp_path / "stack") as stack:
        sending = stack.start("send", str(test_data / "chest_lidc_0314"), "--json", str(tmp_path / "sent.json"))
        eventually(lambda: stack.query("SELECT count(*) >= 3 FROM instances") == [(True,)])
        kill(stack, "postgres")
        sending.wait(timeout=60)
        sent = json.loads((tmp_path / "sent.json").read_text())
        assert {failure["status"] for failure in sent["failed"]} <= {"0xA700"}
        eventually(lambda: stack.info.part("postgres").restarts == 1)
        assert stack.resend(test_data / "chest_lidc_0314")["succeeded"] == 28
        eventually(lambda: stack.read("SELECT count(*) FROM finished_reports") == [(1,)])
        assert stack.json("verify")["clean"] is True


def test_a_missing_model_fails_the_job_with_a_sentence_and_retry_starts_it_again(tmp_path: Path, test_data: Path) -> None:
    weights = tmp_path / "no-such-model"
    with running(tmp_path / "stack", CTREPORT_DRAFT_WEIGHTS=str(weights)) as stack:
        stack.json("send", str(test_data / "chest_lidc_0314"))
        eventually(lambda: stack.query(STATE) == [("failed",)])
        (study,) = stack.json("status")["studies"]
        assert weights.name in study["reason"]
        assert "ctreport retry" in study["reason"]
        assert study["state"] == "failed"
        weights.symlink_to(PACKAGED)
        answer = stack.json("retry", study["study_uid"])
        assert (answer["before"], answer["after"]) == ("failed", "ready")
        eventually(lambda: stack.query(STATE) == [("drafted",)])


def test_a_launcher_killed_at_work_leaves_nothing_running_and_the_next_start_goes_on(tmp_path: Path, test_data: Path) -> None:
    data = tmp_path / "stack"
    with running(data) as stack:
        stack.json("send", str(test_data / "chest_lidc_0314"))
        pids = [part.pid for part in stack.info.parts] + [stack.info.pid]
        families = [child.pid for pid in pids if pid and psutil.pid_exists(pid) for child in psutil.Process(pid).children(recursive=True)]
        os.kill(stack.info.pid, signal.SIGKILL)
        eventually(lambda: not [pid for pid in (*pids, *families) if pid and running_now(pid)], 30.0)
    with running(data) as stack:
        eventually(lambda: stack.read("SELECT count(*) FROM finished_reports") == [(1,)])
        assert stack.json("verify")["clean"] is True


def running_now(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
