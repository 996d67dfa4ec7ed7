"""Drafts that somebody asked for: asked once, claimed when the study's own draft stands, given their next state only by the lease's owner."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import select, text

from pipeline.asking import Asked, Request
from pipeline.errors import LeaseLost, NotAllowed, NotFound
from pipeline.model import JobState, Lease, RequestState, Step
from pipeline.store import operator, proof
from pipeline.store.requests import claimable
from pipeline.store.session import PgStore
from pipeline.store.tables import RequestRow
from tests.integration.store.rows import ME, NOW, OTHER, claim, count, drafted, expire, freeze, header, one, ready_job, send
from tests.integration.store.test_plans import plan

STUDY = "1.2.3"


def ask(store: PgStore, department: str = "oncology", lengths: Any = None, study: str = STUDY) -> Asked:
    with store.begin() as work:
        return work.requests.ask_for(study, department, lengths, "api")[0]


def get(store: PgStore, request_id: UUID) -> Asked:
    with store.begin() as work:
        return work.requests.get(request_id)


def take(store: PgStore, lease: Lease = ME, limit: int = 5) -> tuple[Request, ...]:
    with store.begin() as work:
        return work.requests.claim(limit, lease)


def further_draft(store: PgStore, department: str = "oncology") -> UUID:
    """A second draft of the drafted job, as the draft step would save it."""
    columns = "findings_text, impression, advice, rung, model, model_digest, phantom_only, tokens, verify_count, accepted_histogram, seconds, "
    columns += "rules_version, watermark"
    with store.begin() as work:
        source = f"SELECT gen_random_uuid(), job_id, '{department}', {columns} FROM drafts LIMIT 1"
        made = work.session.execute(text(f"INSERT INTO drafts (id, job_id, department, {columns}) {source} RETURNING id")).scalar_one()
        work.session.execute(
            text(
                "INSERT INTO reports (id, study_id, revision, department, draft_id, demo_only, state) "
                f"SELECT gen_random_uuid(), j.study_id, j.revision, '{department}', d.id, false, 'waiting' "
                "FROM drafts d JOIN jobs j ON j.id = d.job_id WHERE d.id = :made"
            ),
            {"made": made},
        )
    return UUID(str(made))


def write(store: PgStore, lease: Lease = ME) -> Asked:
    """Claim the one request and end it with a draft."""
    (request,) = take(store, lease)
    draft_id = further_draft(store, request.department)
    with store.begin() as work:
        work.requests.drafted(request, draft_id, lease)
    return get(store, request.id)


def test_asking_twice_is_one_request_and_the_first_lengths_stand(store: PgStore) -> None:
    drafted(store)
    first, second = ask(store, lengths={"描述": 5}), ask(store, lengths=2)
    assert (first.id, first.state, first.lengths, first.step) == (second.id, RequestState.WAITING, {"描述": 5}, "draft")
    assert second.lengths == {"描述": 5}
    assert ask(store, "pulmonology").id != first.id
    assert one(store, "SELECT count(*) AS n FROM audit WHERE action = 'draft_asked'")["n"] == 2


def test_many_who_ask_at_once_get_one_request(store: PgStore) -> None:
    drafted(store)
    with ThreadPoolExecutor(8) as pool:
        ids = {asked.id for asked in pool.map(lambda _: ask(store), range(16))}
    assert len(ids) == 1
    assert count(store, "draft_requests") == 1


def test_a_number_of_tokens_comes_back_as_it_was_asked(store: PgStore) -> None:
    drafted(store)
    assert ask(store, lengths=0).lengths == 0
    assert ask(store, "pulmonology").lengths is None
    assert {request.lengths for request in take(store)} == {0, None}


def test_a_study_is_named_by_its_uid_or_its_id_and_an_unknown_one_is_not_found(store: PgStore) -> None:
    drafted(store)
    study_id = one(store, "SELECT id FROM studies")["id"]
    assert ask(store, study=str(study_id)).id == ask(store).id
    for unknown in ("9.9.9", str(uuid4())):
        with pytest.raises(NotFound, match="no study"):
            ask(store, study=unknown)
    with pytest.raises(NotFound):
        get(store, uuid4())


def test_nothing_is_claimed_before_the_studys_own_draft_stands(store: PgStore) -> None:
    send(store, header())
    asked = ask(store)
    assert (asked.state, asked.step, asked.revision) == (RequestState.WAITING, "receive", None)
    ready_job(store)
    assert get(store, asked.id).step == "encode"
    assert take(store) == ()


def test_a_claimed_request_brings_its_job_and_is_nobody_elses(store: PgStore) -> None:
    draft_id = drafted(store)
    asked = ask(store, lengths=3)
    (request,) = take(store)
    assert (request.id, request.department, request.lengths, request.attempts, request.draft_id) == (asked.id, "oncology", 3, 1, None)
    assert (request.job.state, request.job.revision) == (JobState.DRAFTED, 1)
    assert one(store, "SELECT job_id FROM drafts")["job_id"] == request.job.id
    assert draft_id is not None
    assert take(store, OTHER) == ()
    seen = get(store, asked.id)
    assert (seen.state, seen.step, seen.revision) == (RequestState.DRAFTING, "draft", 1)


def test_who_writes_tells_how_far_and_nobody_else_can(store: PgStore) -> None:
    drafted(store)
    asked = ask(store)
    (request,) = take(store)
    with store.begin() as work:
        work.requests.told(request.id, "诊断意见", 40, ME)
        work.requests.told(request.id, "建议", 99, OTHER)
        assert work.requests.heartbeat(request.id, ME)
        assert not work.requests.heartbeat(request.id, OTHER)
    seen = get(store, asked.id)
    assert (seen.section, seen.tokens) == ("诊断意见", 40)


def test_a_department_that_has_its_draft_is_claimed_with_it(store: PgStore) -> None:
    draft_id = drafted(store)
    ask(store, "radiology")
    (request,) = take(store)
    assert request.draft_id == draft_id


def test_a_written_request_is_answered_again_and_its_draft_may_be_read(store: PgStore) -> None:
    drafted(store)
    ask(store)
    seen = write(store)
    assert (seen.state, seen.barred, seen.over, seen.step, seen.section) == (RequestState.DRAFTED, "", True, None, "")
    assert seen.draft_id is not None
    assert seen.ended_at is not None
    assert ask(store).id == seen.id
    assert take(store) == ()


def test_only_the_leases_owner_ends_a_request(store: PgStore) -> None:
    drafted(store)
    asked = ask(store)
    (request,) = take(store)
    ends: dict[str, tuple[Any, ...]] = {"end": ("why",), "give_back": ("why", 0.0), "drafted": (uuid4(),)}
    for end, values in ends.items():
        with pytest.raises(LeaseLost), store.begin() as work:
            getattr(work.requests, end)(request, *values, OTHER)
    with store.begin() as work:
        work.requests.end(request, "the text says what the findings do not", ME)
    seen = get(store, asked.id)
    assert (seen.state, seen.reason) == (RequestState.FAILED, "the text says what the findings do not")
    assert ask(store).id != asked.id  # asked again after a failure: a new one


def test_given_back_it_waits_and_comes_again(store: PgStore) -> None:
    drafted(store)
    ask(store)
    (request,) = take(store)
    with store.begin() as work:
        work.requests.give_back(request, "the server does not answer", 60.0, ME)
    seen = get(store, request.id)
    assert (seen.state, seen.reason) == (RequestState.WAITING, "the server does not answer")
    assert take(store) == ()
    with store.begin() as work:
        work.session.execute(text("UPDATE draft_requests SET due_at = now()"))
    assert [again.attempts for again in take(store)] == [2]


def test_a_worker_that_died_costs_a_try_and_at_last_the_request(store: PgStore) -> None:
    drafted(store)
    asked = ask(store)
    for _ in range(3):
        take(store)
        expire(store, "draft_requests")
        assert [stuck.what for stuck in proof.stuck(store, 0.0, NOW)] == ["request"]
        with store.begin() as work:
            assert work.studies.reclaim_expired(3) == 1
    seen = get(store, asked.id)
    assert (seen.state, "3 times" in seen.reason) == (RequestState.FAILED, True)
    with store.begin() as work:
        assert work.studies.waiting(Step.DRAFT, NOW) == 0


def test_what_waits_to_be_claimed_is_counted_for_the_sweeper(store: PgStore) -> None:
    drafted(store)
    ask(store)
    with store.begin() as work:
        assert work.studies.waiting(Step.DRAFT, NOW) == 1


def test_a_new_revision_bars_the_older_draft_and_is_asked_for_anew(store: PgStore) -> None:
    drafted(store)
    ask(store, lengths=4)
    before = write(store)
    operator.rerun(store, STUDY)
    freeze(store)
    assert "newer revision" in get(store, before.id).barred
    study_id = before.study_id
    with store.begin() as work:
        assert work.requests.carry(study_id, 2) == 1
        assert work.requests.carry(study_id, 2) == 0
    again = ask(store)
    assert (again.id != before.id, again.lengths, again.step) == (True, 4, "encode")


def test_an_open_request_goes_on_to_the_next_revision(store: PgStore) -> None:
    drafted(store)
    asked = ask(store)
    with store.begin() as work:
        assert work.requests.ask(asked.study_id, 2, "oncology") == asked.id
        assert work.requests.carry(asked.study_id, 2) == 0


def test_the_pipelines_own_asking_is_once_per_revision(store: PgStore) -> None:
    drafted(store)
    study_id = one(store, "SELECT id FROM studies")["id"]
    with store.begin() as work:
        asked = work.requests.ask(study_id, 1, "oncology")
    assert write(store).id == asked
    with store.begin() as work:
        assert work.requests.ask(study_id, 1, "oncology") == asked
        assert work.requests.ask(study_id, 2, "oncology") != asked


def test_a_withdrawn_study_is_refused_and_its_drafts_are_barred(store: PgStore) -> None:
    drafted(store)
    ask(store)
    written, waits = write(store), ask(store, "pulmonology")
    operator.withdraw(store, STUDY)
    with pytest.raises(NotAllowed, match="withdrawn"):
        ask(store, "radiology")
    assert "withdrawn" in get(store, written.id).barred
    assert (get(store, waits.id).state, get(store, waits.id).step) == (RequestState.FAILED, None)
    assert take(store) == ()


def test_a_failed_job_is_told_and_goes_on_when_an_operator_starts_it_again(store: PgStore) -> None:
    ready_job(store)
    asked = ask(store)
    (job,) = claim(store)
    with store.begin() as work:
        work.studies.end(job, JobState.FAILED, "the encoder's weights are missing", ME)
    seen = get(store, asked.id)
    assert (seen.state, seen.reason) == (RequestState.FAILED, "the encoder's weights are missing")
    operator.retry(store, STUDY)
    assert get(store, asked.id).state is RequestState.WAITING
    assert ask(store).id == asked.id


def test_a_study_that_nobody_can_read_is_refused_with_the_reason(store: PgStore) -> None:
    send(store, header())
    freeze(store, "no CT volume")
    with pytest.raises(NotAllowed, match="no CT volume"):
        ask(store)


def test_the_newest_are_listed_first(store: PgStore) -> None:
    drafted(store)
    ids = [ask(store, department).id for department in ("oncology", "pulmonology", "radiology")]
    with store.begin() as work:
        assert [asked.id for asked in work.requests.recent(2)] == ids[:0:-1]


def test_claim_sweep_and_list_have_their_index(store: PgStore) -> None:
    with store.begin() as work:
        wanted = claimable().compile(work.session.get_bind(), compile_kwargs={"literal_binds": True})
    assert "ix_draft_requests_claim" in plan(store, str(wanted))
    assert "ix_draft_requests_lease_until" in plan(store, "SELECT * FROM draft_requests WHERE lease_until < now()")
    assert "ix_draft_requests_created_at" in plan(store, str(select(RequestRow.id).order_by(RequestRow.created_at.desc())))
    open_one = "SELECT id FROM draft_requests WHERE study_id = gen_random_uuid() AND department = 'x' AND state IN ('waiting', 'drafting')"
    assert "uq_draft_requests_open" in plan(store, open_one)
