from uuid import UUID, uuid4

import pytest

from pipeline.errors import BadInput, IllegalMove, LeaseLost, NotAllowed
from pipeline.model import ReportState, Step
from pipeline.ports import Delivery
from pipeline.store.session import PgStore
from tests.integration.store import rows
from tests.integration.store.rows import ME, OTHER


def asked(store: PgStore) -> UUID:
    draft_id = rows.drafted(store)
    for _ in range(2):
        with store.begin() as work:
            work.deliveries.ask(draft_id, "markdown")
    return draft_id


def claimed(store: PgStore) -> tuple[Delivery, ...]:
    with store.begin() as work:
        return work.deliveries.claim(10, ME)


def test_asking_twice_gives_one_delivery_that_is_done_once(store: PgStore) -> None:
    draft_id = asked(store)
    (delivery,) = claimed(store)
    assert (delivery.draft_id, delivery.kind, delivery.attempts) == (draft_id, "markdown", 1)
    assert claimed(store) == ()
    with store.begin() as work:
        work.deliveries.done(delivery, ME)
    with pytest.raises(LeaseLost), store.begin() as work:
        work.deliveries.done(delivery, ME)
    assert rows.one(store, "SELECT state FROM deliveries")["state"] == "done"


def test_only_the_owner_ends_a_delivery(store: PgStore) -> None:
    asked(store)
    (delivery,) = claimed(store)
    with pytest.raises(LeaseLost), store.begin() as work:
        work.deliveries.done(delivery, OTHER)


def test_given_back_it_waits_for_its_next_time_and_fails_where_there_is_none(store: PgStore) -> None:
    asked(store)
    for pause_s, expected in ((0.0, "waiting"), (None, "failed")):
        (delivery,) = claimed(store)
        with store.begin() as work:
            work.deliveries.give_back(delivery, "folder full", pause_s, ME)
        assert rows.one(store, "SELECT state FROM deliveries")["state"] == expected
    assert claimed(store) == ()


def test_an_expired_delivery_waits_again(store: PgStore) -> None:
    asked(store)
    claimed(store)
    rows.expire(store, "deliveries")
    with store.begin() as work:
        assert work.studies.waiting(Step.DELIVER, rows.NOW) == 1
        assert work.studies.reclaim_expired(5) == 1
    assert len(claimed(store)) == 1


def test_a_demo_draft_of_a_real_study_is_never_delivered(store: PgStore) -> None:
    draft_id = rows.drafted(store, phantom_only=True)
    with pytest.raises(NotAllowed), store.begin() as work:
        work.deliveries.ask(draft_id, "markdown")


def test_an_unknown_draft_cannot_be_asked_for(store: PgStore) -> None:
    with pytest.raises(BadInput), store.begin() as work:
        work.deliveries.ask(uuid4(), "markdown")


def test_reports_move_by_the_machine_only(store: PgStore) -> None:
    rows.drafted(store)
    report_id = rows.one(store, "SELECT id FROM reports")["id"]
    with pytest.raises(IllegalMove), store.begin() as work:
        work.reports.move(work.reports.get(report_id), ReportState.SIGNED, "doctor")
    with pytest.raises(BadInput), store.begin() as work:
        work.reports.get(uuid4())


def test_a_phantom_only_draft_of_a_real_study_is_demo_only(store: PgStore) -> None:
    rows.drafted(store, phantom_only=True)
    report_id = rows.one(store, "SELECT id FROM reports")["id"]
    with store.begin() as work:
        assert work.reports.get(report_id).demo_only
