"""Server-sent events: each change once, the report at the end, and never a stream without an end."""

from __future__ import annotations

import json
from uuid import UUID, uuid4

import pytest

from pipeline.errors import ServiceUnavailable
from pipeline.model import RequestState
from tests.unit.web.fakes import Desk, app_of
from tests.unit.web.test_api import DRAFTS, client


def events(desk: Desk, request_id: UUID) -> list[tuple[str, dict[str, object]]]:
    """What a stream tells, until it ends."""
    answer = client(desk).get(f"{DRAFTS}/{request_id}/events")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    found = []
    for block in answer.text.replace("\r\n", "\n").strip().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
        found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_each_change_is_told_once_and_the_report_last() -> None:
    desk = Desk()
    asked = desk.add()
    desk.ticks = [
        lambda: desk.change(asked.id, state=RequestState.DRAFTING, section="描述", tokens=40),
        lambda: None,
        lambda: desk.change(asked.id, state=RequestState.DRAFTED, section="", draft_id=uuid4(), step=None),
    ]
    told = events(desk, asked.id)
    assert [name for name, _ in told] == ["state", "state", "state", "report"]
    assert [(one["state"], one["section"], one["tokens"]) for _, one in told[:3]] == [
        ("waiting", None, 0),
        ("drafting", "描述", 40),
        ("drafted", None, 40),
    ]
    assert told[3][1]["department"] == "oncology"


def test_no_word_of_the_report_is_told_before_it_is_checked_and_saved() -> None:
    desk = Desk()
    asked = desk.add(state=RequestState.DRAFTING, section="诊断意见", tokens=70)
    assert "右肺" not in json.dumps(events(desk, asked.id), ensure_ascii=False)


def test_a_failure_ends_the_stream_with_its_reason() -> None:
    desk = Desk()
    asked = desk.add(state=RequestState.FAILED, reason="the text says what the findings do not")
    [(name, told)] = events(desk, asked.id)
    assert (name, told["state"], told["reason"]) == ("state", "failed", "the text says what the findings do not")


def test_a_draft_that_is_barred_is_not_sent() -> None:
    desk = Desk()
    asked = desk.add(state=RequestState.DRAFTED, draft_id=uuid4(), barred="the study was withdrawn; its drafts are void")
    assert [name for name, _ in events(desk, asked.id)] == ["state"]


def test_a_stream_ends_after_its_looks_though_nothing_happens() -> None:
    desk = Desk()
    assert len(events(desk, desk.add().id)) == 1


def test_a_database_that_is_away_for_a_moment_does_not_end_the_stream() -> None:
    desk = Desk()
    asked = desk.add()

    def away() -> None:
        desk.fault = ServiceUnavailable("the database does not answer")

    def back() -> None:
        desk.fault = None
        desk.change(asked.id, state=RequestState.FAILED)

    desk.ticks = [away, back]
    assert [told["state"] for _, told in events(desk, asked.id)] == ["waiting", "failed"]


@pytest.mark.parametrize("streams", [0])
def test_too_many_streams_are_refused_for_now(streams: int) -> None:
    desk = Desk()
    answer = client(desk, streams=streams).get(f"{DRAFTS}/{desk.add().id}/events")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")
    assert app_of(desk) is not None
