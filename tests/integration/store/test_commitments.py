"""Storage commitments as rows: asked once, claimed by one, reported or given up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import psycopg
import pytest

from pipeline.errors import LeaseLost
from pipeline.modalities import Commitment, Reference
from pipeline.model import Lease
from pipeline.store.session import PgStore

ME, OTHER = Lease("me", 60.0), Lease("other", 60.0)
CT = "1.2.840.10008.5.1.4.1.1.2"
ONE = (Reference(CT, "1.1"),)


def ask(store: PgStore, transaction: str = "1.2.3", aet: str = "CT1", requested: tuple[Reference, ...] = ONE, lease: Lease = ME) -> Commitment | None:
    with store.begin() as work:
        return work.commitments.ask(transaction, aet, "127.0.0.1", requested, uuid4(), lease)


def asked(store: PgStore, transaction: str = "1.2.3", aet: str = "CT1") -> Commitment:
    made = ask(store, transaction, aet)
    assert made is not None
    return made


def claim(store: PgStore, lease: Lease = OTHER, aet: str | None = None, limit: int = 10) -> list[Commitment]:
    with store.begin() as work:
        return list(work.commitments.claim(limit, lease, aet))


def give_back(store: PgStore, commitment: Commitment, delay_s: float = 0.0, give_up_s: float = 60.0, lease: Lease = ME) -> bool:
    with store.begin() as work:
        return work.commitments.give_back(commitment, "nobody listens", delay_s, give_up_s, lease)


def expire(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE commitments SET lease_until = now() - interval '1 second'")


def test_a_request_is_leased_by_who_took_it_until_that_one_dies(store: PgStore, url: str) -> None:
    commitment = asked(store)
    assert claim(store) == []
    expire(url)
    [taken] = claim(store)
    assert (taken.id, taken.transaction_uid, taken.requested, taken.attempts) == (commitment.id, "1.2.3", ONE, 1)
    with store.begin() as work:
        assert not work.commitments.heartbeat(commitment, ME)
        assert work.commitments.heartbeat(taken, OTHER)
    with pytest.raises(LeaseLost), store.begin() as work:
        work.commitments.reported(commitment, 0, ME)


def test_what_is_given_back_is_due_later_and_at_once_when_its_peer_connects(store: PgStore) -> None:
    commitment = asked(store)
    assert give_back(store, commitment, delay_s=600)
    assert claim(store) == []
    assert claim(store, aet="ANOTHER") == []
    assert [one.id for one in claim(store, aet="CT1")] == [commitment.id]


def test_what_nobody_hears_is_failed_after_the_limit_and_what_is_reported_is_final(store: PgStore, url: str) -> None:
    old, heard = asked(store), asked(store, "1.2.4")
    assert not give_back(store, old, give_up_s=0.0)
    with store.begin() as work:
        work.commitments.reported(heard, 2, ME)
    assert claim(store) == []
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT state, failures, reported_at IS NULL, reason, lease_owner FROM commitments ORDER BY transaction_uid")
        assert rows.fetchall() == [("failed", None, True, "nobody listens", None), ("reported", 2, False, None, None)]


def test_the_same_transaction_waits_anew_unless_somebody_works_on_it(store: PgStore) -> None:
    first = asked(store)
    assert ask(store, lease=OTHER) is None
    other_content = ask(store, requested=(*ONE, Reference(CT, "1.2")))
    assert other_content is not None
    assert (other_content.id, len(other_content.requested)) == (first.id, 2)
    with store.begin() as work:
        work.commitments.reported(other_content, 0, ME)
    again = ask(store)
    assert again is not None
    assert (again.id, again.requested) == (first.id, ONE)
    assert asked(store, aet="CT2").id != first.id


def test_many_claimers_share_what_is_due_without_overlap(store: PgStore, url: str) -> None:
    ids = {asked(store, f"1.2.{number}").id for number in range(12)}
    expire(url)
    with ThreadPoolExecutor(4) as pool:
        claims = list(pool.map(lambda number: claim(store, Lease(f"worker {number}", 60.0), limit=4), range(4)))
    taken = [one.id for part in claims for one in part]
    assert sorted(taken, key=str) == sorted(ids, key=str)


def test_text_that_postgresql_refuses_is_kept_without_its_nuls(store: PgStore) -> None:
    commitment = ask(store, "1.2\x003", "CT\x001", (Reference("1\x00", "2\x00"),))
    assert commitment is not None
    assert (commitment.transaction_uid, commitment.calling_aet, commitment.requested) == ("1.23", "CT1", (Reference("1", "2"),))
    with store.begin() as work:
        assert work.commitments.held(["1\x00", "2"]) == ()
