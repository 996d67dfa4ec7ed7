"""The operator's moves beside retry, hold and release: rerun and withdraw."""

from __future__ import annotations

import pytest

from pipeline.errors import BadInput, IllegalMove
from pipeline.store import operator, queries
from pipeline.store.session import PgStore
from tests.integration.store import rows
from tests.integration.store.rows import ME


def test_rerun_makes_a_new_revision_although_nothing_changed(store: PgStore) -> None:
    rows.drafted(store)
    assert operator.rerun(store, "1.2.3", actor="night shift") == ("complete", "receiving")
    assert rows.count(store, "finished_reports") == 0
    assert rows.freeze(store) is not None
    assert rows.one(store, "SELECT state, revision FROM studies") == {"state": "complete", "revision": 2}
    assert [event["action"] for event in queries.timeline(store, "1.2.3")] == ["rerun"]


@pytest.mark.parametrize(("move", "said"), [(None, "by itself"), ("hold", "ctreport release"), ("withdraw", "not read again")])
def test_rerun_is_refused_with_the_next_step_elsewhere(store: PgStore, move: str | None, said: str) -> None:
    rows.send(store, rows.header(1))
    if move:
        getattr(operator, move)(store, "1.2.3")
    with pytest.raises(BadInput, match=said):
        operator.rerun(store, "1.2.3")


def test_withdraw_is_for_good(store: PgStore) -> None:
    rows.drafted(store)
    assert operator.withdraw(store, "1.2.3") == ("complete", "withdrawn")
    for move in (operator.withdraw, operator.release, operator.hold):
        with pytest.raises(IllegalMove):
            move(store, "1.2.3")


def test_withdraw_stops_what_waits_and_gives_notice_of_each_draft_once(store: PgStore) -> None:
    draft_id = rows.drafted(store)
    with store.begin() as work:
        work.deliveries.ask(draft_id, "markdown")
    operator.withdraw(store, "1.2.3")
    with store.begin() as work:
        (notice,) = work.deliveries.claim(10, ME)
        assert (notice.draft_id, notice.kind) == (draft_id, "withdrawal")
        work.deliveries.done(notice, ME)
    assert rows.one(store, "SELECT state, reason FROM deliveries WHERE kind = 'markdown'") == {"state": "failed", "reason": "操作员撤回了本检查"}


def test_an_older_revision_that_was_handed_over_gets_its_notice_too(store: PgStore) -> None:
    draft_id = rows.drafted(store)
    with store.begin() as work:
        work.deliveries.ask(draft_id, "markdown")
        (delivery,) = work.deliveries.claim(10, ME)
        work.deliveries.done(delivery, ME)
    rows.send(store, rows.header(9))
    rows.freeze(store)
    operator.withdraw(store, "1.2.3")
    assert rows.one(store, "SELECT draft_id FROM deliveries WHERE kind = 'withdrawal'")["draft_id"] == draft_id


def test_a_study_without_a_draft_is_withdrawn_without_a_notice(store: PgStore) -> None:
    rows.ready_job(store)
    operator.withdraw(store, "1.2.3")
    assert rows.count(store, "deliveries") == 0
