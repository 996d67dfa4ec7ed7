"""What only tells how work went is forgotten once it is old; the record stands, whatever its age."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from pipeline.flow.retain import BATCH, Retaining, retain
from pipeline.store.retention import OVER
from pipeline.store.session import PgStore
from tests.integration.store.rows import count, drafted, one

# an old row and a young one of each kind that is forgotten, and an old one that is still open
ROWS = """
INSERT INTO associations (id, listener, calling_aet, host, opened_at, closed_at, how)
SELECT md5('a' || n)::uuid, 'l', 'CT', 'h', now(), CASE WHEN n < {old} THEN now() - interval '500 days' WHEN n = {old} THEN now() END,
 CASE WHEN n <= {old} THEN 'released' END FROM generate_series(0, {old} + 1) AS n;
INSERT INTO study_associations (study_id, association_id) SELECT id, md5('a' || n)::uuid FROM studies, generate_series(0, {old} + 1) AS n;
INSERT INTO performed_steps (id, sop_uid, status, calling_aet, modality, updated_at, expected)
SELECT md5('m' || n)::uuid, '2.25.' || n, CASE n WHEN 2 THEN 'IN PROGRESS' ELSE 'COMPLETED' END, 'CT', 'CT',
 CASE n WHEN 1 THEN now() ELSE now() - interval '500 days' END, '[]' FROM generate_series(0, 2) AS n;
INSERT INTO performed_step_studies (step_id, study_uid) SELECT id, '1.2.3' FROM performed_steps;
INSERT INTO commitments (transaction_uid, calling_aet, host, requested, state, attempts, created_at, reported_at)
SELECT '2.25.' || n, 'CT', 'h', '[]', CASE n WHEN 2 THEN 'waiting' ELSE 'reported' END, 0,
 CASE n WHEN 1 THEN now() ELSE now() - interval '500 days' END, CASE n WHEN 2 THEN NULL ELSE now() END FROM generate_series(0, 2) AS n;
INSERT INTO expected_readings (patient_id, reads_at, source) VALUES ('P', now() - interval '500 days', 's'), ('P', now(), 's');
INSERT INTO night_plans (opens_at, closes_at, first_reader_at, ended_at) SELECT at, at + interval '8 hours', at, at + interval '8 hours'
FROM (VALUES (now() - interval '500 days'), (now() - interval '1 day')) AS night (at);
INSERT INTO night_items (plan_id, study_id, position, kind, priority, expected_at)
SELECT p.id, s.id, 0, 'unread', 2, p.closes_at FROM night_plans p, studies s;
INSERT INTO samples (night, since, until, share, seed) SELECT at::date, at - interval '1 day', at, 0.1, 0
FROM (VALUES (now() - interval '500 days'), (now())) AS night (at)
"""
LEFT = {"associations": 2, "performed_steps": 2, "commitments": 2, "expected_readings": 1, "night_plans": 1, "samples": 1}
RECORD = ("studies", "series", "instances", "jobs", "drafts", "draft_findings", "draft_flags", "reports", "dose_events", "patients", "deliveries")


def old_site(store: PgStore, old: int = 1) -> None:
    """A drafted study of long ago, with what was noted about its coming."""
    drafted(store)
    with store.begin() as work:
        work.session.execute(text(ROWS.format(old=old)))
        work.session.execute(text("UPDATE studies SET first_received = now() - interval '5 years', last_received = now() - interval '5 years'"))
        work.session.execute(text("UPDATE drafts SET created_at = now() - interval '5 years'"))
        work.session.execute(text("UPDATE instances SET received_at = now() - interval '5 years'"))


def again(store: PgStore) -> None:
    """The hour is over."""
    with store.begin() as work:
        work.session.execute(text("UPDATE rounds SET at = now() - interval '2 hours'"))


def test_what_is_old_and_over_goes_and_what_is_young_or_open_stays(store: PgStore) -> None:
    old_site(store)
    assert retain(Retaining(store, 400.0)) == dict.fromkeys(OVER, 1)
    assert {table: count(store, table) for table in OVER} == LEFT
    assert (count(store, "study_associations"), count(store, "performed_step_studies"), count(store, "night_items")) == (2, 2, 1)


def test_the_record_is_never_touched_and_the_trail_says_what_went(store: PgStore) -> None:
    old_site(store)
    before = {table: count(store, table) for table in RECORD}
    retain(Retaining(store, 60.0))
    assert {table: count(store, table) for table in RECORD} == before
    assert one(store, "SELECT detail FROM audit WHERE action = 'forgotten'")["detail"] == {"days": "60", **dict.fromkeys(OVER, "1")}


@pytest.mark.parametrize("days", [None, 600.0])
def test_nothing_goes_before_its_time_or_where_everything_is_kept(store: PgStore, days: float | None) -> None:
    old_site(store)
    assert retain(Retaining(store, days)) == {}
    assert count(store, "associations") == 3


def test_many_old_rows_go_in_small_transactions_and_whoever_asks_within_the_hour_finds_it_done(store: PgStore) -> None:
    old_site(store, old=2 * BATCH + 1)
    assert retain(Retaining(store, 400.0))["associations"] == 2 * BATCH + 1
    assert one(store, "SELECT count(*) AS n FROM audit WHERE action = 'forgotten'")["n"] == 3
    with store.begin() as work:
        work.session.execute(text("UPDATE associations SET closed_at = now() - interval '500 days' WHERE closed_at IS NOT NULL"))
    assert retain(Retaining(store, 400.0)) == {}
    again(store)
    assert retain(Retaining(store, 400.0)) == {"associations": 1}
