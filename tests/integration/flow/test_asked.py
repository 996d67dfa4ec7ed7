"""Drafts that somebody asked for, written from the frozen findings of a study that is drafted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast
from uuid import UUID

import pytest
from sqlalchemy import text

from pipeline.asking import Asked
from pipeline.drafting.fake import FakeDrafter, FakeGenerator
from pipeline.drafting.sections import SectionDrafter
from pipeline.errors import ModelMissing, PipelineError, ServiceUnavailable
from pipeline.flow.asked import by_section, draft_asked
from pipeline.flow.draft import Drafting, draft
from pipeline.model import RequestState, Step
from pipeline.store import operator, queries
from pipeline.store.session import PgStore
from tests.builders import Bell
from tests.integration.flow.test_drafting import drafting, encoded
from tests.integration.store.rows import ME, count, freeze, one

STUDY = "1.2.3"


def ask(store: PgStore, department: str = "oncology", lengths: Any = None) -> UUID:
    with store.begin() as work:
        return work.requests.ask_for(STUDY, department, lengths, "api")[0].id


def state(store: PgStore, request_id: UUID) -> Asked:
    with store.begin() as work:
        return work.requests.get(request_id)


def step(store: PgStore, generator: FakeGenerator, bell: Bell | None = None) -> Drafting:
    """The draft step on the real sections over a scripted generator."""
    return drafting(store, cast(FakeDrafter, SectionDrafter(generator)), bell=bell)


def sections(generator: FakeGenerator) -> list[str]:
    return [asked.section for asked in generator.asked]


def drafted(store: PgStore, failures: Sequence[PipelineError] = (), bell: Bell | None = None) -> tuple[Drafting, FakeGenerator]:
    """A study whose own draft stands, and the step with a generator that will fail so."""
    encoded(store)
    assert draft(step(store, FakeGenerator()), 4, ME) == 1
    generator = FakeGenerator(failures=failures)
    return step(store, generator, bell), generator


def test_a_further_department_is_written_from_the_frozen_findings_and_never_finds_anew(store: PgStore) -> None:
    bell = Bell()
    ports, generator = drafted(store, bell=bell)
    request_id = ask(store, lengths={"描述": 5})
    assert draft_asked(ports, 4, ME) == 1
    assert sections(generator) == ["描述", "诊断意见", "建议"]
    assert [asked.k for asked in generator.asked] == [5, None, None]
    seen = state(store, request_id)
    assert (seen.state, seen.department, seen.revision) == (RequestState.DRAFTED, "oncology", 1)
    assert bell.rung == [Step.DELIVER]
    with store.begin() as work:
        assert seen.draft_id is not None
        assert work.reports.shown(seen.draft_id)["department"] == "oncology"
    assert count(store, "reports") == 2


def test_one_number_is_for_every_section(store: PgStore) -> None:
    ports, generator = drafted(store)
    ask(store, lengths=2)
    draft_asked(ports, 4, ME)
    assert {asked.k for asked in generator.asked} == {2}
    assert by_section(3) == {"": 3}
    assert by_section(None) is None


def test_the_departments_own_draft_is_handed_out_without_writing_it_again(store: PgStore) -> None:
    ports, generator = drafted(store)
    request_id = ask(store, "radiology")
    assert draft_asked(ports, 4, ME) == 1
    assert generator.asked == []
    assert str(state(store, request_id).draft_id) == queries.show(store, STUDY)["draft_id"]
    assert count(store, "drafts") == 1


def test_before_the_studys_own_draft_stands_nothing_is_written(store: PgStore) -> None:
    encoded(store)
    request_id, generator = ask(store), FakeGenerator()
    assert draft_asked(step(store, generator), 4, ME) == 0
    assert (generator.asked, state(store, request_id).state) == ([], RequestState.WAITING)


def test_how_far_it_is_can_be_seen_while_it_is_written(store: PgStore) -> None:
    ports, _ = drafted(store)
    request_id, seen = ask(store), list[tuple[str, bool]]()

    class Watched(FakeGenerator):
        def generate(self, ask: Any, features: Any) -> Any:
            asked = state(store, request_id)
            seen.append((asked.section, asked.tokens > 0))
            assert asked.state is RequestState.DRAFTING
            return super().generate(ask, features)

    assert draft_asked(step(store, Watched()), 4, ME) == 1
    assert seen == [("", False), ("描述", True), ("诊断意见", True)]
    assert ports.department == "radiology"


def test_a_server_that_stumbles_is_tried_again_and_at_last_given_up_with_its_reason(store: PgStore) -> None:
    ports, _ = drafted(store, [ServiceUnavailable("the draft server does not answer")] * 9)
    request_id = ask(store)
    for attempt in range(3):
        assert draft_asked(ports, 1, ME) == 1, attempt
    seen = state(store, request_id)
    assert seen.state is RequestState.FAILED
    assert seen.reason == "the draft server does not answer (tried 3 times; ask for the draft again)"
    assert draft_asked(ports, 1, ME) == 0
    assert one(store, "SELECT count(*) AS n FROM audit WHERE action = 'draft_unwritten'")["n"] == 1


def test_what_no_retry_changes_fails_at_once_and_the_study_keeps_its_own_draft(store: PgStore) -> None:
    ports, _ = drafted(store, [ModelMissing("no folder 'x'; run `ctreport train`")])
    request_id = ask(store)
    draft_asked(ports, 4, ME)
    assert (state(store, request_id).state, state(store, request_id).reason) == (RequestState.FAILED, "no folder 'x'; run `ctreport train`")
    assert one(store, "SELECT state FROM jobs")["state"] == "drafted"
    assert count(store, "drafts") == 1


def test_a_text_of_a_revision_that_is_superseded_meanwhile_is_dropped_and_written_for_the_next(store: PgStore) -> None:
    ports, _ = drafted(store)
    request_id = ask(store)

    class Late(FakeGenerator):
        def generate(self, ask: Any, features: Any) -> Any:
            if not self.asked:
                operator.rerun(store, STUDY)
                freeze(store)
            return super().generate(ask, features)

    assert draft_asked(step(store, Late()), 1, ME) == 1
    assert count(store, "drafts") == 1
    seen = state(store, request_id)
    assert (seen.state, seen.step, seen.revision) == (RequestState.WAITING, "encode", None)
    assert draft_asked(ports, 4, ME) == 0


@pytest.mark.parametrize("limit", [1, 3])
def test_no_more_are_claimed_than_the_limit(store: PgStore, limit: int) -> None:
    ports, _ = drafted(store)
    for department in ("oncology", "pulmonology", "radiology"):
        ask(store, department)
    assert draft_asked(ports, limit, ME) == limit
    with store.begin() as work:
        assert sum(asked.state is RequestState.DRAFTED for asked in work.requests.recent(9)) == limit


def test_a_worker_that_lost_its_lease_changes_nothing(store: PgStore) -> None:
    drafted(store)
    request_id = ask(store)

    class Robbed(FakeGenerator):
        def generate(self, ask: Any, features: Any) -> Any:
            with store.begin() as work:
                work.session.execute(text("UPDATE draft_requests SET lease_owner = 'somebody else'"))
            return super().generate(ask, features)

    assert draft_asked(step(store, Robbed()), 1, ME) == 1
    assert (state(store, request_id).state, one(store, "SELECT lease_owner FROM draft_requests")["lease_owner"]) == (
        RequestState.DRAFTING,
        "somebody else",
    )
