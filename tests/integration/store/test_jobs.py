from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import text

from pipeline.errors import IllegalMove, LeaseLost, NotAllowed
from pipeline.model import Job, JobState, Lease, Priority, Step
from pipeline.store import operator
from pipeline.store.session import PgStore, PgWork
from tests.integration.store import rows
from tests.integration.store.rows import ME, OTHER


def state(store: PgStore) -> str:
    return str(rows.one(store, "SELECT state FROM jobs")["state"])


def test_a_claimed_job_carries_what_the_step_needs(store: PgStore) -> None:
    job_id = rows.ready_job(store)
    (job,) = rows.claim(store)
    assert job.id == job_id
    assert (job.state, job.attempts, job.revision, job.priority) == (JobState.ENCODING, 1, 1, Priority.ROUTINE)
    assert job.files == tuple(rows.header(number).instance.path for number in (1, 2, 3))
    assert (job.study_uid, job.series_uids, job.indication) == ("1.2.3", ("1.2.3.5",), "咳嗽")


def test_a_held_row_is_skipped_by_another_transaction(store: PgStore) -> None:
    rows.ready_job(store, "1.2.3")
    rows.ready_job(store, "1.2.4")
    with store.begin() as mine, store.begin() as theirs:
        first = mine.studies.claim(Step.ENCODE, 1, ME)
        second = theirs.studies.claim(Step.ENCODE, 2, OTHER)
    assert len(first) == len(second) == 1
    assert first[0].id != second[0].id


def test_many_claimers_never_get_the_same_row(store: PgStore) -> None:
    for number in range(12):
        rows.ready_job(store, f"1.2.{number}", images=1)
    with ThreadPoolExecutor(6) as pool:
        batches = pool.map(lambda number: rows.claim(store, limit=3, lease=Lease(f"w{number}", 60.0)), range(8))
    ids = [job.id for batch in batches for job in batch]
    assert len(ids) == len(set(ids)) == 12


def test_stat_is_claimed_alone_then_the_others_as_they_came(store: PgStore) -> None:
    rows.ready_job(store, "1.2.3")
    rows.ready_job(store, "1.2.4")
    rows.send(store, rows.header(1, "1.2.5", priority=Priority.STAT))
    rows.freeze(store)
    assert [job.study_uid for job in rows.claim(store)] == ["1.2.5"]
    assert [job.study_uid for job in rows.claim(store)] == ["1.2.3", "1.2.4"]


def test_only_encode_and_draft_claim_jobs(store: PgStore) -> None:
    with pytest.raises(NotAllowed), store.begin() as work:
        work.studies.claim(Step.ASSEMBLE, 1, ME)


def test_no_step_claims_jobs_of_held_or_withdrawn_studies(store: PgStore) -> None:
    rows.ready_job(store)
    operator.hold(store, "1.2.3")
    assert rows.claim(store) == ()
    operator.release(store, "1.2.3")
    assert rows.freeze(store) is None  # nothing new arrived: the same job goes on
    assert len(rows.claim(store)) == 1


def test_heartbeat_extends_only_the_owners_lease(store: PgStore) -> None:
    rows.ready_job(store)
    (job,) = rows.claim(store, lease=Lease("me", 1.0))
    before = rows.one(store, "SELECT lease_until FROM jobs")["lease_until"]
    with store.begin() as work:
        assert work.studies.heartbeat(job.id, ME)
        assert not work.studies.heartbeat(job.id, OTHER)
    assert rows.one(store, "SELECT lease_until FROM jobs")["lease_until"] > before


def test_encoded_frees_the_lease_and_starts_attempts_anew(store: PgStore) -> None:
    rows.ready_job(store)
    (job,) = rows.claim(store)
    with store.begin() as work:
        work.studies.encoded(job, "f.safetensors", "compact", "1", ME)
    row = rows.one(store, "SELECT * FROM jobs")
    assert (row["state"], row["attempts"], row["lease_owner"], row["features_path"]) == ("encoded", 0, None, "f.safetensors")
    (again,) = rows.claim(store, Step.DRAFT)
    assert again.features_path == "f.safetensors"


def test_give_back_waits_out_its_delay_and_keeps_the_reason(store: PgStore) -> None:
    rows.ready_job(store)
    (job,) = rows.claim(store)
    with store.begin() as work:
        work.studies.give_back(job, "no answer", 60.0, ME)
    row = rows.one(store, "SELECT state, reason, attempts FROM jobs")
    assert (row["state"], row["reason"], row["attempts"]) == ("ready", "no answer", 1)
    assert rows.claim(store) == ()


ACTS: dict[str, Callable[[PgWork, Job], None]] = {
    "encoded": lambda work, job: work.studies.encoded(job, "f", "e", "1", ME),
    "give_back": lambda work, job: work.studies.give_back(job, "x", 0.0, ME),
    "end": lambda work, job: work.studies.end(job, JobState.FAILED, "x", ME),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_lost_lease_changes_nothing(store: PgStore, act: str) -> None:
    rows.ready_job(store)
    (mine,) = rows.claim(store)
    rows.expire(store, "jobs")
    with store.begin() as work:
        assert work.studies.reclaim_expired(5) == 1
    rows.claim(store, lease=OTHER)
    before = dict(rows.one(store, "SELECT * FROM jobs"))
    with pytest.raises(LeaseLost), store.begin() as work:
        ACTS[act](work, mine)
    assert dict(rows.one(store, "SELECT * FROM jobs")) == before


def test_expired_leases_go_back_until_attempts_run_out(store: PgStore) -> None:
    rows.ready_job(store)
    for attempt in (1, 2):
        (job,) = rows.claim(store)
        assert job.attempts == attempt
        rows.expire(store, "jobs")
        with store.begin() as work:
            assert work.studies.reclaim_expired(2) == 1
    row = rows.one(store, "SELECT state, reason, lease_owner FROM jobs")
    assert (row["state"], row["lease_owner"]) == ("failed", None)
    assert "2 times" in row["reason"]
    assert rows.one(store, "SELECT array_agg(action ORDER BY id) AS actions FROM audit")["actions"] == ["reclaimed", "failed"]


def test_an_expired_draft_goes_back_to_encoded(store: PgStore) -> None:
    rows.drafting_job(store)
    rows.expire(store, "jobs")
    with store.begin() as work:
        work.studies.reclaim_expired(5)
    assert state(store) == "encoded"


def test_a_living_lease_is_not_reclaimed(store: PgStore) -> None:
    rows.ready_job(store)
    rows.claim(store)
    with store.begin() as work:
        assert work.studies.reclaim_expired(5) == 0
    assert state(store) == "encoding"


def test_waiting_counts_what_each_step_could_claim(store: PgStore) -> None:
    rows.ready_job(store, "1.2.3")
    rows.send(store, rows.header(1, "1.2.4"))
    with store.begin() as work:
        counts = {step: work.studies.waiting(step, rows.NOW) for step in Step}
    assert {step: rows_ for step, rows_ in counts.items() if rows_} == {Step.ASSEMBLE: 1, Step.ENCODE: 1}


def test_end_keeps_a_sentence_and_retry_starts_again(store: PgStore) -> None:
    rows.ready_job(store)
    (job,) = rows.claim(store)
    with store.begin() as work:
        work.studies.end(job, JobState.FAILED, "weights are missing", ME)
    assert rows.claim(store) == ()
    assert operator.retry(store, "1.2.3") == ("failed", "ready")
    (again,) = rows.claim(store)
    assert again.attempts == 1


def test_a_job_cannot_end_as_something_illegal(store: PgStore) -> None:
    rows.ready_job(store)
    (job,) = rows.claim(store)
    with pytest.raises(IllegalMove), store.begin() as work:
        work.studies.end(job, JobState.DRAFTED, "x", ME)


def test_save_draft_writes_everything_once(store: PgStore) -> None:
    job = rows.drafting_job(store)
    with store.begin() as work:
        work.studies.save_draft(job, rows.draft(job), ME)
    with pytest.raises(LeaseLost), store.begin() as work:
        work.studies.save_draft(job, rows.draft(job), ME)
    assert {table: rows.count(store, table) for table in ("drafts", "draft_findings", "draft_flags", "reports", "deliveries")} == {
        "drafts": 1,
        "draft_findings": 1,
        "draft_flags": 1,
        "reports": 1,
        "deliveries": 0,
    }
    assert state(store) == "drafted"


def test_save_draft_of_a_stranger_writes_nothing(store: PgStore) -> None:
    job = rows.drafting_job(store)
    with pytest.raises(LeaseLost), store.begin() as work:
        work.studies.save_draft(job, rows.draft(job), OTHER)
    assert rows.count(store, "drafts") == 0
    assert state(store) == "drafting"


def test_a_draft_of_a_superseded_revision_is_not_saved(store: PgStore) -> None:
    job = rows.drafting_job(store)
    rows.send(store, rows.header(9))
    assert rows.freeze(store) is not None
    with pytest.raises(LeaseLost), store.begin() as work:
        work.studies.save_draft(job, rows.draft(job), ME)
    assert rows.count(store, "drafts") == 0


def test_two_savers_at_once_give_one_draft(store: PgStore) -> None:
    job = rows.drafting_job(store)

    def save(_: int) -> bool:
        try:
            with store.begin() as work:
                work.studies.save_draft(job, rows.draft(job), ME)
        except LeaseLost:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(save, range(4))) == [False, False, False, True]
    assert rows.count(store, "drafts") == 1


def test_an_error_after_saving_leaves_nothing(store: PgStore) -> None:
    job = rows.drafting_job(store)

    def save_then_fail(job: Job) -> None:
        with store.begin() as work:
            work.studies.save_draft(job, rows.draft(job), ME)
            raise LeaseLost("something later in the same transaction")

    with pytest.raises(LeaseLost):
        save_then_fail(job)
    assert (rows.count(store, "drafts"), rows.count(store, "reports"), state(store)) == (0, 0, "drafting")


def test_an_outdated_job_value_cannot_move_the_row(store: PgStore) -> None:
    rows.ready_job(store)
    (job,) = rows.claim(store)
    with pytest.raises(LeaseLost), store.begin() as work:
        work.studies.give_back(replace(job, state=JobState.DRAFTING), "x", 0.0, ME)


def test_work_in_company_takes_what_was_never_tried_and_the_rest_alone(store: PgStore) -> None:
    for study in ("1.2.3", "1.2.4", "1.2.5"):
        rows.ready_job(store, study)

    def together(limit: int) -> list[str]:
        with store.begin() as work:
            return [job.study_uid for job in work.studies.claim_together(Step.ENCODE, limit, ME)]

    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET attempts = 1 WHERE study_id = (SELECT id FROM studies WHERE study_uid = '1.2.3')"))
    assert together(3) == ["1.2.3"]
    assert together(3) == ["1.2.4", "1.2.5"]
    assert together(3) == []


def test_work_in_company_that_finds_the_fresh_ones_taken_goes_on_with_a_tried_one(store: PgStore) -> None:
    rows.ready_job(store, "1.2.3")
    rows.ready_job(store, "1.2.4")
    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET attempts = 1 WHERE study_id = (SELECT id FROM studies WHERE study_uid = '1.2.4')"))
    with store.begin() as first, store.begin() as second:
        assert [job.study_uid for job in first.studies.claim_together(Step.ENCODE, 4, ME)] == ["1.2.3"]
        assert [job.study_uid for job in second.studies.claim_together(Step.ENCODE, 4, OTHER)] == ["1.2.4"]
