"""A draft from asking to reading, over real sockets and a real database: its events are followed while the draft step writes it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest

from pipeline.drafting.fake import FakeGenerator
from pipeline.flow.asked import draft_asked
from pipeline.model import WATERMARK
from pipeline.store import operator
from pipeline.store.session import PgStore
from tests.integration.flow.test_asked import STUDY, drafted, step
from tests.integration.store.rows import ME
from tests.integration.web.serving import app_on, served
from tests.unit.web.fakes import TOKEN
from workers.embedded.ports import free_port

WAIT_S = 60.0
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def api(store: PgStore) -> Iterator[httpx2.Client]:
    """A caller with the token."""
    with (
        served(app_on(store, looks=5000)) as url,
        httpx2.Client(base_url=url, headers=BEARER, timeout=WAIT_S) as client,
    ):
        yield client


def ask(api: httpx2.Client, department: str = "oncology", **more: Any) -> dict[str, Any]:
    answer = api.post("/api/v1/drafts", json={"study": STUDY, **more}, headers={"X-Dept": department})
    assert answer.status_code == 202, answer.text
    told: dict[str, Any] = answer.json()
    return told


def follow(api: httpx2.Client, told: dict[str, Any], begun: Event) -> list[tuple[str, dict[str, Any]]]:
    """Every event until the stream ends; `begun` is set with the first."""
    found: list[tuple[str, dict[str, Any]]] = []
    with api.stream("GET", told["links"]["events"]) as answer:
        name = ""
        for line in answer.iter_lines():
            field, _, value = line.partition(": ")
            name = value if field == "event" else name
            if field == "data":
                found.append((name, json.loads(value)))
                begun.set()
    return found


class Seen(FakeGenerator):
    """Goes on only when what is shown has been looked at."""

    def __init__(self, api: httpx2.Client, told: dict[str, Any]) -> None:
        super().__init__()
        self.sections: list[str | None] = []
        self._api, self._at = api, str(told["links"]["self"])

    def generate(self, ask: Any, features: Any) -> Any:
        """Note what a caller sees at this moment."""
        now = self._api.get(self._at).json()
        assert now["state"] == "drafting"
        self.sections.append(now["section"])
        return super().generate(ask, features)


def test_a_draft_is_asked_for_followed_and_read(store: PgStore, api: httpx2.Client) -> None:
    drafted(store)
    told, begun = ask(api, num_speculative_tokens={"描述": 5}), Event()
    assert (told["state"], told["step"], told["links"]["report"]) == ("waiting", "draft", None)
    assert api.get(f"{told['links']['self']}/report").status_code == 409
    with ThreadPoolExecutor(1) as pool:
        following = pool.submit(follow, api, told, begun)
        assert begun.wait(WAIT_S)
        generator = Seen(api, told)
        assert draft_asked(step(store, generator), 1, ME) == 1
        events = following.result(WAIT_S)
    assert generator.sections == [None, "描述", "诊断意见"]
    assert [name for name, _ in events[:1] + events[-2:]] == ["state", "state", "report"]
    assert [events[0][1]["state"], events[-2][1]["state"]] == ["waiting", "drafted"]
    now = api.get(told["links"]["self"]).json()
    assert now["written"]["num_speculative_tokens"]["描述"] == 5
    assert now["num_speculative_tokens"] == {"描述": 5}
    report = api.get(now["links"]["report"])
    assert report.json() == events[-1][1]
    assert (report.json()["department"], WATERMARK in report.json()["watermark"]) == ("oncology", True)
    markdown = api.get(now["links"]["report"], headers={"Accept": "text/markdown"}).text
    assert markdown.startswith(f"**{report.json()['watermark']}**")
    assert report.json()["draft"]["sections"]["诊断意见"] in markdown


def test_a_report_of_a_withdrawn_study_is_gone(store: PgStore, api: httpx2.Client) -> None:
    drafted(store)
    told = ask(api)
    draft_asked(step(store, FakeGenerator()), 1, ME)
    report = f"{told['links']['self']}/report"
    assert api.get(report).status_code == 200
    operator.withdraw(store, STUDY)
    assert (api.get(report).status_code, api.get(report).json()["detail"]) == (410, "the study was withdrawn; its drafts are void")
    assert api.post("/api/v1/drafts", json={"study": STUDY}).status_code == 409


def test_an_open_stream_does_not_keep_the_web_process_from_ending(store: PgStore, url: str, tmp_path: Path) -> None:
    """The real process, its real wiring, and the signal that a stack sends."""
    drafted(store)
    port, begun = free_port(), Event()
    env = os.environ | {
        "CTREPORT_DATABASE_URL": url,
        "CTREPORT_REDIS_URL": "redis://127.0.0.1:1/0",
        "CTREPORT_WEB_PORT": str(port),
        "CTREPORT_WEB_TOKEN": TOKEN,
        "CTREPORT_DATA": str(tmp_path),
    }
    process = subprocess.Popen([sys.executable, "-m", "workers", "web"], env=env, stderr=subprocess.PIPE)
    try:
        base = f"http://127.0.0.1:{port}"
        assert process.stderr is not None
        with httpx2.Client(base_url=base, headers=BEARER, timeout=WAIT_S, transport=httpx2.HTTPTransport(retries=8)) as client:
            with ThreadPoolExecutor(1) as pool:
                following = pool.submit(follow, client, ask(client), begun)
                assert begun.wait(WAIT_S)
                process.send_signal(signal.SIGTERM)
                assert [name for name, _ in following.result(WAIT_S)] == ["state"]  # whole, not cut
            process.wait(WAIT_S)
        assert b"CancelledError" not in process.stderr.read()
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()
