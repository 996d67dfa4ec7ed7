"""The order of the claim on PostgreSQL: STAT at once, the others by age, nobody passed by, and no more in flight than the site allows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest
from sqlalchemy import text

from pipeline.errors import BadInput
from pipeline.flow.claimed import Claims, Working, run_claimed
from pipeline.model import Job, Lease, Priority, Step
from pipeline.retrying import Retry
from pipeline.store import letters, operator, story
from pipeline.store.session import PgStore
from pipeline.urgency import Pick, Slots
from tests.builders import NOW
from tests.integration.store import rows
from tests.integration.store.rows import ME, OTHER

NIGHT = """
INSERT INTO studies (id, study_uid, patient_id, state, revision, images, accession, description, indication, station, priority, attempts)
SELECT gen_random_uuid(), '9.' || n, (SELECT id FROM patients LIMIT 1), 'complete', 1, 1, '', '', '', '', {priority}, 0
FROM generate_series(1, {count}) AS n;
INSERT INTO jobs (id, study_id, revision, state, priority, attempts, series_chosen, series_refused, files, region, is_phantom, rank_at, due_at)
SELECT gen_random_uuid(), id, 1, 'ready', priority, 0, '[]', '[]', '["a"]', 'chest', true, now() - interval '3 hours', now() - interval '1 hour'
FROM studies WHERE study_uid LIKE '9.%'
"""


class Clock:
    """A clock that stands still."""

    def now(self) -> datetime:
        return NOW


def night(store: PgStore, count: int, priority: Priority = Priority.ROUTINE) -> None:
    """So many ready jobs of studies that came hours ago."""
    rows.send(store, rows.header(1, "1.2.1"))  # a patient
    operator.withdraw(store, "1.2.1")
    with store.begin() as work:
        work.session.execute(text(NIGHT.format(count=count, priority=priority.value)))


def stat(store: PgStore, study: str) -> None:
    rows.send(store, rows.header(1, study, priority=Priority.STAT))
    with store.begin() as work:
        (found,) = [one for one in work.studies.claim_quiet(rows.NOW, 1, ME) if one.study_uid == study]
        assert work.studies.freeze(found, rows.choice(found), False, None, rows.COMPLETE) is not None


def end(store: PgStore, job: Job) -> None:
    with store.begin() as work:
        work.studies.encoded(job, "f", "e", "1", ME)


def working(store: PgStore, claims: Claims) -> Working:
    return Working(store, Step.ENCODE, ME, Retry(3, 0.0), Clock(), claims)


def test_a_night_of_5000_routine_studies_delays_a_stat_by_no_more_than_the_running_batch(store: PgStore) -> None:
    night(store, 5000)
    done: list[str] = []

    def perform(job: Job) -> None:
        done.append(job.study_uid)
        if len(done) == 3:
            stat(store, "1.2.9")  # comes while the third is worked on
        end(store, job)

    assert run_claimed(working(store, Claims()), 6, perform) == 6
    assert done.index("1.2.9") == 3


def test_a_stat_study_is_assembled_before_all_that_is_quiet(store: PgStore) -> None:
    for number in range(1, 6):
        rows.send(store, rows.header(1, f"1.2.{number}"))
    rows.send(store, rows.header(1, "1.2.9", priority=Priority.STAT))
    assert [study.study_uid for study in rows.quiet(store)] == ["1.2.9"]
    assert len(rows.quiet(store)) == 5


def test_routine_never_starves_under_stat_that_keeps_coming(store: PgStore) -> None:
    night(store, 3)
    done: list[str] = []
    stat(store, "1.2.10")

    def perform(job: Job) -> None:
        done.append(job.study_uid)
        stat(store, f"1.2.{10 + len(done)}")
        end(store, job)

    run_claimed(working(store, Claims()), 15, perform)
    assert [at for at, study in enumerate(done) if study.startswith("9.")] == [4, 9, 14]


def test_in_the_common_lane_a_routine_study_that_waited_goes_before_an_inpatient_that_just_came(store: PgStore) -> None:
    night(store, 1)  # three hours old
    rows.send(store, rows.header(1, "1.2.5", priority=Priority.INPATIENT), rows.header(1, "1.2.6"))
    for study in rows.quiet(store):
        with store.begin() as work:
            work.studies.freeze(study, rows.choice(study), False, None, rows.COMPLETE)
    order = [job.study_uid for job in rows.claim(store)]
    assert order[0] == "9.1"
    assert order.index("1.2.5") < order.index("1.2.6")


def test_no_more_are_in_flight_than_the_site_allows_and_one_slot_is_stats(store: PgStore) -> None:
    night(store, 40)
    slots = Slots(capacity=5, reserved=1)

    def claim(number: int) -> list[Job]:
        with store.begin() as work:
            return list(work.studies.claim(Step.ENCODE, 2, Lease(f"w{number}", 60.0), Pick.FIRST, slots))

    with ThreadPoolExecutor(6) as pool:
        claimed = [job for batch in pool.map(claim, range(12)) for job in batch]
    assert len(claimed) == 4
    stat(store, "1.2.9")
    assert [job.study_uid for job in claim(99)] == ["1.2.9"]
    stat(store, "1.2.10")
    assert claim(100) == []


def test_requests_count_against_the_drafts_in_flight(store: PgStore) -> None:
    rows.drafted(store, "1.2.3")
    with store.begin() as work:
        study_id = rows.one(store, "SELECT id FROM studies WHERE study_uid = '1.2.3'")["id"]
        work.requests.ask(study_id, 1, "oncology")
    rows.drafting_job(store, "1.2.4")
    with store.begin() as work:
        assert work.requests.claim(1, OTHER, Slots(1, 0)) == ()
        assert len(work.requests.claim(1, OTHER, Slots(2, 0))) == 1


def test_a_round_is_taken_once_per_period_by_whoever_asks_first(store: PgStore) -> None:
    def turn(_: int) -> bool:
        with store.begin() as work:
            return work.studies.turn("sweep", 60.0)

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(turn, range(8))) == 1
    with store.begin() as work:
        assert work.studies.turn("night", 60.0)
        work.session.execute(text("UPDATE rounds SET at = now() - interval '61 s' WHERE name = 'sweep'"))
    assert turn(0)
    with store.begin() as work:
        work.session.execute(text("UPDATE rounds SET at = now() + interval '1 hour' WHERE name = 'sweep'"))  # the clock went back
    assert turn(0)


def test_a_process_that_must_end_hands_back_what_it_holds_and_the_try_does_not_count(store: PgStore) -> None:
    rows.drafted(store, "1.2.2")
    rows.drafting_job(store, "1.2.3")
    rows.ready_job(store, "1.2.4")
    rows.claim(store)
    with store.begin() as work:
        study_id = rows.one(store, "SELECT id FROM studies WHERE study_uid = '1.2.2'")["id"]
        work.requests.ask(study_id, 1, "oncology")
        work.requests.claim(1, ME)
        assert work.studies.hand_back("somebody else") == 0
        assert work.studies.hand_back(ME.owner) == 3
    assert rows.one(store, "SELECT array_agg(state || attempts ORDER BY state) AS s FROM jobs WHERE state <> 'drafted'")["s"] == [
        "encoded0",
        "ready0",
    ]
    assert rows.one(store, "SELECT state, attempts FROM draft_requests") == {"state": "waiting", "attempts": 0}
    assert rows.one(store, "SELECT count(*) AS n FROM audit WHERE action = 'handed_back'")["n"] == 2
    assert len(rows.claim(store)) == 1


def test_leases_that_run_out_are_counted_apart_from_passing_errors(store: PgStore) -> None:
    rows.ready_job(store)
    for _ in range(6):  # a service is away: tries are counted, the row is not given up
        (job,) = rows.claim(store)
        with store.begin() as work:
            work.studies.give_back(job, "no answer", 0.0, ME)
    rows.claim(store)
    rows.expire(store, "jobs")
    with store.begin() as work:
        work.studies.reclaim_expired(5)
    assert rows.one(store, "SELECT state, attempts, lost FROM jobs") == {"state": "ready", "attempts": 7, "lost": 1}


@pytest.mark.parametrize("to", [Priority.STAT, Priority.NIGHT])
def test_expedite_gives_the_waiting_job_its_new_place_at_once(store: PgStore, to: Priority) -> None:
    night(store, 3)
    before = [job.study_uid for job in rows.claim(store, limit=1)]
    with store.begin() as work:
        work.session.execute(
            text("UPDATE jobs SET due_at = now() + interval '5 hours' WHERE study_id = (SELECT id FROM studies WHERE study_uid = '9.3')")
        )
    assert operator.expedite(store, "9.3", to) == ("routine", to.name.lower())
    order = [job.study_uid for batch in (rows.claim(store), rows.claim(store)) for job in batch]
    assert "9.3" not in before
    assert order.index("9.3") == (0 if to is Priority.STAT else 1)
    assert rows.one(store, "SELECT priority FROM studies WHERE study_uid = '9.3'")["priority"] == to.value


def test_expedite_keeps_its_priority_for_the_revision_to_come_and_is_refused_for_what_waits_for_nothing(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    operator.expedite(store, "1.2.3")
    rows.freeze(store)
    assert rows.one(store, "SELECT priority FROM jobs")["priority"] == Priority.STAT.value
    operator.withdraw(store, "1.2.3")
    with pytest.raises(BadInput, match="waits for nothing"):
        operator.expedite(store, "1.2.3")


def test_failures_are_listed_with_reason_and_next_step_until_they_start_again(store: PgStore) -> None:
    for study in ("1.2.3", "1.2.4"):
        rows.ready_job(store, study)
        (job,) = rows.claim(store)
        with store.begin() as work:
            work.studies.end(job, job.state.move(job.state.FAILED), f"weights of {study} are missing", ME)
    found = letters.dead_letters(store)
    assert [(one["kind"], one["study_uid"], one["attempts"]) for one in found] == [("encode", "1.2.4", 1), ("encode", "1.2.3", 1)]
    assert "weights" in found[0]["reason"]
    assert found[0]["next"] == "ctreport retry"
    assert operator.retry_all(store) == 2
    assert letters.dead_letters(store) == []
    assert len(rows.claim(store)) == 2


def test_the_story_tells_what_arrived_what_was_done_and_what_is_waited_for(store: PgStore) -> None:
    night(store, 4)
    rows.ready_job(store, "1.2.3")
    waits = story.next_step(store, "1.2.3")
    assert (waits["step"], waits["priority"], waits["before"]) == ("encode", "routine", 4)
    assert "waits for encode as routine, 4 go before it" in story.told(waits)
    operator.expedite(store, "1.2.3")
    assert run_claimed(working(store, Claims()), 1, lambda job: end(store, job)) == 1
    events = story.story(store, "1.2.3")
    assert [event["action"] for event in events] == ["first_image", "last_image", "expedite", "claimed"]
    assert events == sorted(events, key=lambda event: event["at"])
    assert story.next_step(store, "1.2.3")["step"] == "draft"
    with pytest.raises(BadInput, match="no study"):
        story.story(store, "7.7")


def test_the_age_of_a_queue_is_that_of_its_longest_waiting_job_per_lane(store: PgStore) -> None:
    with store.begin() as work:
        assert work.studies.oldest_s(Step.ENCODE) == {}
    night(store, 2)
    with store.begin() as work:
        ages = work.studies.oldest_s(Step.ENCODE)
    assert set(ages) == {False}
    assert 3600 <= ages[False] < 3700
