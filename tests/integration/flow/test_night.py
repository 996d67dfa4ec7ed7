"""The night shift on a real database: plans are rows, jobs are claimed in their order, and night work waits for the window."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from sqlalchemy import text

from pipeline.flow.morning import morning
from pipeline.flow.night import Shift, night, preview
from pipeline.model import Priority, RequestState, Step
from pipeline.nightly import Expected, Kind, OffPeak
from pipeline.store.session import PgStore
from tests.builders import Bell
from tests.integration.store.rows import COMPLETE, ME, choice, claim, count, draft, drafted, header, one, quiet, send

DAY = timedelta(days=1)


def hours(begins: timedelta, lasts: timedelta) -> OffPeak:
    """Off-peak hours that begin so long from now, in UTC; a day long: they never close."""
    start = datetime.now(UTC) + begins
    return OffPeak(start.time().replace(tzinfo=None), (start + lasts).time().replace(tzinfo=None), ZoneInfo("UTC"), (start + lasts).time())


OPEN, CLOSED = hours(timedelta(hours=-1), timedelta(hours=8)), hours(timedelta(hours=2), timedelta(hours=8))


def shift(store: PgStore, off_peak: OffPeak = OPEN, bell: Bell | None = None, **more: Any) -> Shift:
    return Shift(store, bell or Bell(), off_peak, **more)


def ready(store: PgStore, uid: str, priority: Priority = Priority.ROUTINE, night_in_s: float = 0.0, **changes: Any) -> UUID:
    """A study with a ready job; returns the study's id."""
    send(store, header(1, uid, priority=priority, **changes))
    (study,) = quiet(store)
    with store.begin() as work:
        assert work.studies.freeze(study, choice(study), False, None, COMPLETE, night_in_s) is not None
    return study.id


def claimed(store: PgStore) -> list[str]:
    """Studies in the order in which an encoder would take them, one by one."""
    found = []
    while jobs := claim(store, limit=1):
        found += [job.study_uid for job in jobs]
    return found


def test_night_work_waits_for_the_window_and_nothing_else_does(store: PgStore) -> None:
    ready(store, "1.2.1", Priority.NIGHT, night_in_s=3600.0)
    ready(store, "1.2.2", Priority.ROUTINE, night_in_s=3600.0)
    assert claimed(store) == ["1.2.2"]


def test_in_the_window_the_plan_makes_it_due_and_jobs_are_claimed_in_the_plans_order(store: PgStore) -> None:
    tomorrow = datetime.now(UTC) + timedelta(hours=9)
    ready(store, "1.2.1", Priority.NIGHT, night_in_s=3600.0, patient_id="P-1", accession="A-1")
    ready(store, "1.2.2", Priority.NIGHT, night_in_s=3600.0, patient_id="P-2", accession="A-2")
    ready(store, "1.2.3", Priority.ROUTINE, patient_id="P-3", accession="A-3")
    ready(store, "1.2.4", Priority.ROUTINE, patient_id="P-4", accession="A-4")
    ready(store, "1.2.5", Priority.STAT, patient_id="P-5", accession="A-5")
    with store.begin() as work:
        new = work.night.expect([Expected("P-2", "A-22", tomorrow), Expected("", "A-4", datetime.now(UTC) + timedelta(hours=1))], "list.json")
        again = work.night.expect([Expected("P-2", "A-22", tomorrow)], "list.json")
    assert (new, again) == (2, 0)
    bell = Bell()
    assert night(shift(store, bell=bell)) is not None
    assert bell.rung == [Step.ENCODE, Step.DRAFT]
    assert claimed(store) == ["1.2.5", "1.2.4", "1.2.3", "1.2.2", "1.2.1"]


def test_a_plan_is_one_row_however_often_and_by_whomever_it_is_made(store: PgStore) -> None:
    ready(store, "1.2.1")
    first, second = night(shift(store)), night(shift(store))
    assert first is not None
    assert second is not None
    assert second.id == first.id
    assert (count(store, "night_plans"), count(store, "night_items")) == (1, 1)
    assert one(store, "SELECT count(*) AS n FROM audit WHERE action = 'night_planned'")["n"] == 1


def test_two_beats_at_the_same_moment_plan_once(store: PgStore) -> None:
    with store.begin() as work:
        assert work.night.take_turn()
        assert night(shift(store)) is None
    assert count(store, "night_plans") == 0
    assert night(shift(store)) is not None


def test_what_arrives_in_the_night_is_put_into_the_plan_at_the_next_round_and_not_before(store: PgStore) -> None:
    ready(store, "1.2.1")
    night(shift(store))
    ready(store, "1.2.2", Priority.INPATIENT)
    night(shift(store, replan_s=300.0))
    assert count(store, "night_items") == 1
    night(shift(store, replan_s=0.0))
    assert claimed(store) == ["1.2.2", "1.2.1"]


def test_at_the_windows_end_night_work_stops_and_goes_on_in_the_next_one(store: PgStore) -> None:
    ready(store, "1.2.1", Priority.NIGHT)
    ready(store, "1.2.2", Priority.NIGHT)
    ready(store, "1.2.3", Priority.ROUTINE)
    plan = night(shift(store))
    assert plan is not None
    (working,) = claim(store, limit=1)
    with store.begin() as work:
        work.session.execute(text("UPDATE night_plans SET opens_at = opens_at - interval '8 hours', closes_at = now() - interval '1 second'"))
    assert night(shift(store, CLOSED)) is None
    assert one(store, "SELECT ended_at IS NOT NULL AS ended FROM night_plans")["ended"]
    assert working.study_uid == "1.2.3"
    assert claimed(store) == []
    waits = one(store, "SELECT min(due_at) AS first, count(*) AS n FROM jobs WHERE priority = 3 AND due_at > now()")
    assert (waits["n"], waits["first"]) == (2, CLOSED.following(datetime.now(UTC)).opens)
    assert night(shift(store)) is not None  # the next night
    assert claimed(store) == ["1.2.1", "1.2.2"]
    assert count(store, "night_plans") == 2


def test_who_is_working_keeps_the_job_at_the_windows_end(store: PgStore) -> None:
    ready(store, "1.2.1", Priority.NIGHT)
    (job,) = claim(store)
    night(shift(store, CLOSED))
    with store.begin() as work:
        work.studies.encoded(job, "features/1.safetensors", "compact", "1", ME)
    night(shift(store, CLOSED))
    assert claim(store, Step.DRAFT) == ()  # and the rest of it waits


def test_a_job_that_waits_for_another_try_is_not_called_earlier_by_the_plan(store: PgStore) -> None:
    ready(store, "1.2.1", Priority.NIGHT)
    (job,) = claim(store)
    with store.begin() as work:
        work.studies.give_back(job, "the encoder is away", 600.0, ME)
    night(shift(store))
    assert claimed(store) == []


def test_an_earlier_examination_of_somebody_who_will_be_read_is_a_prior(store: PgStore) -> None:
    old = ready(store, "1.2.1", Priority.NIGHT, patient_id="P-1", accession="A-1", study_date=date(2025, 1, 15))
    other = ready(store, "1.2.2", Priority.NIGHT, patient_id="P-2", accession="A-2", study_date=date(2025, 1, 15))
    ready(store, "1.2.3", Priority.ROUTINE, patient_id="P-1", accession="A-3", study_date=date(2026, 1, 15))
    kinds = {item.study_id: item.kind for item in preview(shift(store)).items}
    assert (kinds[old], kinds[other]) == (Kind.PRIOR, Kind.BACKLOG)
    assert (count(store, "night_plans"), count(store, "night_items")) == (0, 0)


def test_the_estimate_rests_on_what_was_measured_and_studies_encoded_together_share_the_time(store: PgStore) -> None:
    assert preview(shift(store)).pace.studies == 0
    for uid in ("1.2.1", "1.2.2"):
        drafted(store, uid)
    with store.begin() as work:
        at = "timestamptz '2026-01-01 00:00Z'"
        moments = f"encoding_at = {at}, encoded_at = {at} + interval '30 s', drafting_at = {at} + interval '40 s', ended_at = {at} + interval '47 s'"
        work.session.execute(text(f"UPDATE jobs SET {moments}"))
    ready(store, "1.2.3")
    seen = preview(shift(store, draft_slots=2))
    assert (seen.pace.encode_s, seen.pace.draft_s, seen.pace.studies, seen.pace.draft_slots) == (15.0, 7.0, 2, 2)
    (item,) = seen.items
    assert item.expected_at - datetime.now(UTC) < timedelta(seconds=23)


def test_the_morning_report_knows_what_came_of_the_plan(store: PgStore) -> None:
    ready(store, "1.2.1")
    failed = ready(store, "1.2.2", accession="A-2")
    ready(store, "1.2.3", Priority.NIGHT)
    plan = night(shift(store))
    assert plan is not None
    (job,) = claim(store, limit=1)
    with store.begin() as work:
        work.studies.encoded(job, "features/1.safetensors", "compact", "1", ME)
    (job,) = claim(store, Step.DRAFT)
    with store.begin() as work:
        report = work.studies.save_draft(replace(job, completeness=""), draft(job), ME)
        work.requests.ask(job.study_id, 1, "oncology")
    with store.begin() as work:
        work.session.execute(text("UPDATE reports SET state = 'reviewing', reviewed_by = 'dr-a', reviewed_at = now() + interval '6 minutes'"))
        ended = f"UPDATE draft_requests SET state = '{RequestState.FAILED}', revision = 1, reason = 'no model'"
        work.session.execute(text(ended))
        bad = "UPDATE jobs SET state = 'failed', reason = 'the weights are missing' WHERE study_id = :study"
        work.session.execute(text(bad), {"study": failed})
    with store.begin() as work:
        facts = morning(work.night.night(plan.window, plan.first_reader_at))
    assert report is not None
    assert facts["studies"] == {"ready": 1, "partial": 0, "failed": 1, "open": 1, "planned": 3, "arrived": 0}
    assert facts["planned"]["kinds"] == {"unread": 2, "backlog": 1}
    assert facts["failed"] == [{"state": "failed", "reason": "the weights are missing", "count": 1, "studies": [str(failed)]}]
    assert [row["id"] for row in facts["not_ready"]] == [str(failed)]
    assert facts["flags"] == {"drafts": 1, "severity": {"replaced": 1}, "rule": {"term": 1}}
    assert facts["acceptance"] == round(40 / 55, 4)  # forced tokens excluded
    assert (facts["arrival_to_draft_s"]["routine"]["n"], facts["draft_to_opened_s"]["all"]["n"]) == (1, 1)
    assert 359.0 < facts["draft_to_opened_s"]["all"]["median"] <= 361.0
    assert facts["hours"]["cpu"] > 0.0
    assert facts["plan"]["id"] == str(plan.id)
    departments = facts["departments"]
    assert (departments["radiology"]["ready"], departments["oncology"]["ready"], departments["oncology"]["unwritten"]) == (1, 0, 1)


def test_a_study_that_came_in_the_night_is_in_the_report_although_nobody_planned_it(store: PgStore) -> None:
    drafted(store)
    with store.begin() as work:
        now = work.night.now()
        facts = morning(work.night.night(OPEN.latest(now), OPEN.read_from(OPEN.latest(now))))
    assert (facts["plan"], facts["studies"]["planned"], facts["studies"]["arrived"], facts["studies"]["ready"]) == (None, 0, 1, 1)
