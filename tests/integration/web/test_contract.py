"""openapi.json against the running application: schemathesis makes requests of every operation, right ones and wrong ones, and checks each answer."""

from __future__ import annotations

import json
from collections import Counter
from importlib.resources import files
from typing import Any
from uuid import UUID

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, GenerationMode
from schemathesis.core.result import Ok

from pipeline.drafting.schema import SECTIONS
from pipeline.model import DEPARTMENTS, RequestState
from pipeline.store.session import PgStore
from pipeline.web.asking import HEADER, MAX_LENGTH, MAX_UID
from pipeline.web.telling import FORMS
from tests.integration.store.rows import ME, drafted, ready_job
from tests.integration.web.serving import app_on, served
from tests.unit.web.fakes import TOKEN

CONTRACT: dict[str, Any] = json.loads(files("pipeline.web").joinpath("openapi.json").read_text(encoding="utf-8"))
READ = [found.ok() for found in schemathesis.openapi.from_dict(CONTRACT).get_all_operations() if isinstance(found, Ok)]
OPERATIONS = {one.label: one for one in READ}
ASK, ONE = "POST /api/v1/drafts", "GET /api/v1/drafts/{request_id}"
INPUTS = [label for label in OPERATIONS if label != "GET /api/v1/openapi.json"]  # which takes none that could be wrong
CHECKED = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
BEARER = {"Authorization": f"Bearer {TOKEN}"}
STUDY = "1.2.3"


def asked(store: PgStore, department: str) -> UUID:
    """A request for the one study."""
    with store.begin() as work:
        return work.requests.ask_for(STUDY, department, {"描述": 5}, "api")[0].id


def in_every_state(store: PgStore) -> dict[RequestState, UUID]:
    """One request that is written, one that failed, one that is being written and one that waits."""
    draft_id = drafted(store)
    made = [asked(store, department) for department in ("radiology", "oncology", "pulmonology")]
    with store.begin() as work:
        first, second, _ = work.requests.claim(3, ME)
        work.requests.drafted(first, draft_id, ME)
        work.requests.end(second, "the text says what the findings do not", ME)
    return dict(zip((RequestState.DRAFTED, RequestState.FAILED, RequestState.DRAFTING), made, strict=True)) | {
        RequestState.WAITING: asked(store, "oncology")
    }


@pytest.mark.parametrize("mode", list(GenerationMode), ids=str)
def test_every_answer_to_every_request_is_one_that_the_contract_names(store: PgStore, mode: GenerationMode) -> None:
    drafted(store)
    with served(app_on(store, looks=1)) as url:
        for label in OPERATIONS if mode is GenerationMode.POSITIVE else INPUTS:

            @given(case=OPERATIONS[label].as_strategy(generation_mode=mode))
            @CHECKED
            def answered(case: Case[Any]) -> None:
                case.call_and_validate(base_url=url, headers=BEARER)

            answered()


def test_requests_in_every_state_are_told_as_the_contract_says(store: PgStore) -> None:
    states, seen = in_every_state(store), Counter[str]()
    with served(app_on(store, looks=1)) as url:
        for label in (one for one in OPERATIONS if one.startswith(ONE)):
            for state, request_id in states.items():
                for accept in FORMS if label.endswith("report") else ("*/*",):
                    case = OPERATIONS[label].Case(path_parameters={"request_id": str(request_id)}, headers={"Accept": accept})
                    answer = case.call_and_validate(base_url=url, headers=BEARER)
                    seen[f"{label.removeprefix(ONE)} {state} {answer.status_code}"] += 1
    assert seen == {f"{path} {state} 200": 1 for path in ("", "/events") for state in states} | {
        f"/report {state} {200 if state is RequestState.DRAFTED else 409}": 2 for state in states
    }


def test_whatever_is_asked_rightly_of_a_study_that_is_here_is_accepted(store: PgStore) -> None:
    ready_job(store, STUDY)
    with served(app_on(store)) as url:

        @given(case=OPERATIONS[ASK].as_strategy(generation_mode=GenerationMode.POSITIVE))
        @CHECKED
        def accepted(case: Case[Any]) -> None:
            assert isinstance(case.body, dict)
            case.body["study"] = STUDY
            if case.body.get("department") is not None:
                case.headers.pop(HEADER, None)
            assert case.call_and_validate(base_url=url, headers=BEARER).status_code == 202

        accepted()
    with store.begin() as work:
        assert {one.state for one in work.requests.recent(100)} == {RequestState.WAITING}


def test_every_operation_of_the_contract_is_read() -> None:
    assert set(OPERATIONS) == {f"{method.upper()} {path}" for path, methods in CONTRACT["paths"].items() for method in methods}


def test_the_contract_names_what_the_program_knows() -> None:
    schemas = CONTRACT["components"]["schemas"]
    assert schemas["Department"]["enum"] == list(DEPARTMENTS)
    assert list(schemas["SectionLengths"]["properties"]) == list(SECTIONS)
    assert schemas["Length"] == {"type": "integer", "minimum": 0, "maximum": MAX_LENGTH}
    assert schemas["Wanted"]["properties"]["study"]["maxLength"] == MAX_UID
    assert schemas["Request"]["properties"]["state"]["enum"] == list(RequestState)
