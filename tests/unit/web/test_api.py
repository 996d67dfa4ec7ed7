"""The HTTP API: what is asked for, what is told, and what is refused, with the next step."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from starlette.testclient import TestClient

from pipeline.errors import NotAllowed, ServiceUnavailable
from pipeline.model import WATERMARK, RequestState, Step
from tests.unit.web.fakes import STUDY, TOKEN, Desk, app_of

HOST = "127.0.0.1"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
DRAFTS = "/api/v1/drafts"


@pytest.fixture
def desk() -> Desk:
    return Desk()


def client(desk: Desk, *, peer: str = HOST, headers: dict[str, str] = BEARER, base: str = f"http://{HOST}", **more: Any) -> TestClient:
    return TestClient(app_of(desk, **more), base_url=base, headers=headers, client=(peer, 50000), raise_server_exceptions=False)


def written(desk: Desk, **changes: Any) -> str:
    """The address of a request whose draft stands."""
    asked = desk.add(state=RequestState.DRAFTED, draft_id=uuid4(), revision=1, step=None, **changes)
    return f"{DRAFTS}/{asked.id}"


def test_asking_answers_202_with_a_link_and_rings_for_who_drafts(desk: Desk) -> None:
    answer = client(desk).post(DRAFTS, json={"study": STUDY, "department": "oncology", "num_speculative_tokens": {"描述": 5, "建议": 0}})
    assert answer.status_code == 202
    told = answer.json()
    assert answer.headers["Location"] == told["links"]["self"] == f"{DRAFTS}/{told['id']}"
    assert STUDY not in answer.headers["Location"]
    assert (told["state"], told["num_speculative_tokens"], told["links"]["report"]) == ("waiting", {"描述": 5, "建议": 0}, None)
    assert client(desk).get(answer.headers["Location"]).json() == told
    assert desk.bell.rung == [Step.DRAFT]


def test_asking_again_answers_with_the_same_request_and_rings_nobody(desk: Desk) -> None:
    first, second = (client(desk).post(DRAFTS, json={"study": STUDY}) for _ in range(2))
    assert (first.json()["id"], second.status_code) == (second.json()["id"], 202)
    assert desk.bell.rung == [Step.DRAFT]


def test_the_header_names_the_department_and_the_site_where_nobody_does(desk: Desk) -> None:
    asked = client(desk).post(DRAFTS, json={"study": STUDY}, headers={"X-Dept": "pulmonology"})
    assert asked.json()["department"] == "pulmonology"
    assert client(desk).post(DRAFTS, json={"study": STUDY}).json()["department"] == "radiology"
    assert client(desk).post(DRAFTS, json={"study": STUDY, "department": "oncology"}, headers={"X-Dept": "oncology"}).status_code == 202
    differing = client(desk).post(DRAFTS, json={"study": STUDY, "department": "oncology"}, headers={"X-Dept": "radiology"})
    assert (differing.status_code, "differ" in differing.json()["detail"]) == (409, True)


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        {"study": 3},
        {"study": "1.2.3; DROP"},
        {"study": "1" * 65},
        {"study": STUDY, "department": "dentistry"},
        {"study": STUDY, "more": 1},
        {"study": STUDY, "num_speculative_tokens": 17},
        {"study": STUDY, "num_speculative_tokens": -1},
        {"study": STUDY, "num_speculative_tokens": True},
        {"study": STUDY, "num_speculative_tokens": "5"},
        {"study": STUDY, "num_speculative_tokens": 2.5},
        {"study": STUDY, "num_speculative_tokens": {}},
        {"study": STUDY, "num_speculative_tokens": {"描述": None}},
        {"study": STUDY, "num_speculative_tokens": {"结论": 2}},
    ],
)
def test_a_value_that_cannot_be_is_422_and_nothing_is_asked(desk: Desk, body: Any) -> None:
    answer = client(desk).post(DRAFTS, json=body)
    assert (answer.status_code, answer.headers["content-type"]) == (422, "application/problem+json")
    assert len(answer.json()["detail"]) > 20
    assert (desk.rows, desk.bell.rung) == ({}, [])


@pytest.mark.parametrize("body", [b"", b"{", b'{"study": "1.2", "study": "1.3"}', b'{"study": NaN}', b"\xff\xfe", b"[" * 100_00])
def test_what_is_no_json_is_400(desk: Desk, body: bytes) -> None:
    assert client(desk).post(DRAFTS, content=body, headers={"Content-Type": "application/json"}).status_code == 400


def test_another_media_type_is_415_and_a_huge_body_413(desk: Desk) -> None:
    assert client(desk).post(DRAFTS, content=b"study=1.2.3").status_code == 415
    huge = json.dumps({"study": STUDY, "x": "y" * 70_000}).encode()
    assert client(desk).post(DRAFTS, content=huge, headers={"Content-Type": "application/json"}).status_code == 413


def test_an_unknown_study_or_request_is_404_and_says_no_uid(desk: Desk) -> None:
    unknown = client(desk).post(DRAFTS, json={"study": "9.9.9"})
    assert (unknown.status_code, "9.9.9" in unknown.text) == (404, False)
    for path in ("", "/report", "/events"):
        assert client(desk).get(f"{DRAFTS}/{uuid4()}{path}").status_code == 404
    assert client(desk).get(f"{DRAFTS}/1.2.3").status_code == 404


def test_a_study_that_nothing_is_written_for_is_409_and_a_silent_database_503(desk: Desk) -> None:
    desk.fault = NotAllowed("study 7 is withdrawn")
    answer = client(desk).post(DRAFTS, json={"study": STUDY})
    assert (answer.status_code, answer.json()["detail"]) == (409, "study 7 is withdrawn")
    desk.fault = ServiceUnavailable("the database does not answer")
    answer = client(desk).post(DRAFTS, json={"study": STUDY})
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "5")


def test_without_a_bell_the_request_stands_all_the_same(desk: Desk) -> None:
    class Silent:
        def ring(self, _: Step) -> None:
            raise ServiceUnavailable("no broker")

    desk.bell = Silent()  # type: ignore[assignment]  # a bell that cannot ring
    assert client(desk).post(DRAFTS, json={"study": STUDY}).status_code == 202
    assert len(desk.rows) == 1


def test_a_written_draft_is_told_with_the_k_that_was_used_and_given_as_json_or_markdown(desk: Desk) -> None:
    at = written(desk, lengths=4)
    told = client(desk).get(at).json()
    assert (told["num_speculative_tokens"], told["written"]["num_speculative_tokens"]) == (4, {"描述": 5})
    assert (told["written"]["rung"], told["written"]["watermark"], told["links"]["report"]) == ("embedded", WATERMARK, f"{at}/report")
    as_json = client(desk).get(f"{at}/report")
    assert as_json.json()["draft"]["sections"]["诊断意见"] == "右肺上叶结节。"
    markdown = client(desk).get(f"{at}/report", headers={"Accept": "text/markdown"})
    assert markdown.headers["content-type"] == "text/markdown; charset=utf-8"
    assert markdown.text.startswith(f"**{WATERMARK}**")
    refused = client(desk).get(f"{at}/report", headers={"Accept": "application/pdf"})
    assert (refused.status_code, "text/markdown" in refused.json()["detail"]) == (406, True)


def test_before_it_is_written_there_is_no_report_and_afterwards_it_may_be_voided(desk: Desk) -> None:
    asked = desk.add(reason="the draft server does not answer")
    early = client(desk).get(f"{DRAFTS}/{asked.id}/report")
    assert early.status_code == 409
    assert "'waiting' (the draft server does not answer)" in early.json()["detail"]
    voided = written(desk, barred="the study was withdrawn; its drafts are void")
    assert client(desk).get(f"{voided}/report").status_code == 410
    told = client(desk).get(voided).json()
    assert (told["written"], told["links"]["report"], told["barred"]) == (None, None, "the study was withdrawn; its drafts are void")


def test_requests_are_listed_newest_first_up_to_a_limit(desk: Desk) -> None:
    ids = [str(desk.add().id) for _ in range(3)]
    listed = client(desk).get(DRAFTS, params={"limit": 2}).json()["drafts"]
    assert [one["id"] for one in listed] == ids[:0:-1]
    for limit in ("0", "101", "-1", "x", "1_0", "", "９"):
        assert client(desk).get(DRAFTS, params={"limit": limit}).status_code == 422
    for query in ("limt=2", "limit=2&limit=3", "limit=2&=1"):
        assert client(desk).get(f"{DRAFTS}?{query}").status_code == 422


def test_no_answer_is_kept_by_a_cache_or_read_as_another_type(desk: Desk) -> None:
    for answer in (client(desk).get(written(desk)), client(desk).get("/api/v1/nowhere"), client(desk, headers={}).get(DRAFTS)):
        assert (answer.headers["cache-control"], answer.headers["x-content-type-options"]) == ("no-store", "nosniff")


def test_an_unknown_path_or_method_is_a_problem_too(desk: Desk) -> None:
    for path in ("/api/v1/nowhere", f"{DRAFTS}/%0A/events", f"{DRAFTS}/a%0D%0Ab", "/nowhere"):
        nowhere = client(desk).get(path)
        assert (nowhere.status_code, nowhere.headers["content-type"]) == (404, "application/problem+json"), path
    deleted = client(desk).delete(DRAFTS)
    assert (deleted.status_code, deleted.headers["content-type"]) == (405, "application/problem+json")
    assert {"GET", "POST"} <= set(deleted.headers["allow"].split(", "))


def test_what_nobody_expected_is_500_without_its_words(desk: Desk) -> None:
    desk.fault = ValueError("张^小东")  # type: ignore[assignment]  # not one of ours
    answer = client(desk).get(DRAFTS)
    assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
    assert "张" not in answer.text
    assert "ValueError" in answer.json()["detail"]


def test_the_health_page_knows_nothing_of_the_token(desk: Desk) -> None:
    assert client(desk, headers={}, peer="10.0.0.9").get("/healthz").text == "ok"
