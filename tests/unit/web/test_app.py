"""The health page tells people and machines the same."""

from __future__ import annotations

from starlette.testclient import TestClient

from pipeline.model import WATERMARK
from pipeline.web.app import create_app


def client(**parts: str) -> TestClient:
    return TestClient(create_app(lambda: parts))


def test_ready_only_when_every_part_is() -> None:
    assert client(database="ok", broker="ok").get("/readyz").status_code == 200
    answer = client(database="ok", broker="Redis does not answer").get("/readyz")
    assert (answer.status_code, answer.json()["broker"]) == (503, "Redis does not answer")


def test_the_page_names_the_broken_part_escapes_it_and_carries_the_watermark() -> None:
    page = client(database="<b>down</b>").get("/").text
    assert "有故障" in page
    assert "&lt;b&gt;down" in page
    assert WATERMARK in page


def test_alive_and_metrics_answer_without_any_service() -> None:
    assert client().get("/healthz").text == "ok"
    assert "ctreport_instances" in client().get("/metrics").text
