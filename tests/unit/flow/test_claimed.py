"""Every error of a step becomes a row's next state, and nothing else."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from pipeline.errors import BadInput, LeaseLost, ModelMissing, PipelineError, ServiceUnavailable, StorageFull, Unsupported
from pipeline.flow.claimed import Claims, Ending, Working, fail, run_claimed, run_together
from pipeline.model import Job, JobState, Lease, Priority, Step
from pipeline.ports import Store
from pipeline.retrying import Retry
from pipeline.urgency import UNBOUND, Pick, Slots
from tests.builders import job

LEASE = Lease("me", 30.0)
RETRY = Retry(max_attempts=3, delay_s=2.0, chance=lambda: 0.0)


class Clock:
    """A clock that stands still."""

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


class OneJobStore:
    """A store with one claimed job, noting what is done to it. `down`: every transaction after the claim fails."""

    def __init__(self, claimed: Job, down: bool = False) -> None:
        self.left: tuple[Job, ...] = (claimed,)
        self.down = down
        self.done: list[tuple[Any, ...]] = []
        self.begun = 0
        self.picks: list[tuple[Pick, Slots]] = []
        self.told: list[dict[str, Any]] = []

    @contextmanager
    def begin(self) -> Iterator[Any]:
        self.begun += 1
        if self.down and self.begun > 1:
            raise ServiceUnavailable("the database does not answer")
        yield SimpleNamespace(studies=self, audit=self)

    def claim(self, step: Step, limit: int, lease: Lease, pick: Pick, slots: Slots) -> tuple[Job, ...]:
        assert limit == 1
        self.picks.append((pick, slots))
        jobs, self.left = self.left, ()
        return jobs

    def heartbeat(self, job_id: UUID, lease: Lease) -> bool:
        return True

    def claim_together(self, step: Step, limit: int, lease: Lease, pick: Pick, slots: Slots) -> tuple[Job, ...]:
        jobs, self.left = self.left[:limit], self.left[limit:]
        return jobs

    def end(self, job: Job, state: JobState, reason: str, lease: Lease) -> None:
        self.done.append((state, reason))

    def give_back(self, job: Job, reason: str, delay_s: float, lease: Lease) -> None:
        self.done.append(("back", delay_s))

    def append(self, action: str, **detail: Any) -> None:
        self.told.append({"action": action, **detail})
        if action != "claimed":
            self.done.append(("audit", action))


def working(store: OneJobStore, lease: Lease = LEASE, claims: Claims | None = None, urgent: bool = False) -> Working:
    return Working(cast(Store, store), Step.ENCODE, lease, RETRY, Clock(), claims or Claims(), urgent)


def run(error: PipelineError | None, attempts: int = 1, down: bool = False) -> OneJobStore:
    store = OneJobStore(replace(job(), attempts=attempts), down)

    def perform(_: Job) -> None:
        if error is not None:
            raise error

    assert run_claimed(working(store), 1 if down else 4, perform) == 1
    return store


def test_a_job_that_succeeds_is_left_to_its_own_commit() -> None:
    assert run(None).done == []


def test_what_nobody_reads_here_ends_as_unsupported_never_failed() -> None:
    assert run(Unsupported("head")).done == [(JobState.UNSUPPORTED, "head"), ("audit", "unsupported")]


@pytest.mark.parametrize("error", [BadInput("x"), ModelMissing("x")])
def test_a_permanent_error_fails_the_job_at_once_with_its_sentence(error: PipelineError) -> None:
    assert run(error).done == [(JobState.FAILED, "x"), ("audit", "failed")]


@pytest.mark.parametrize(("attempts", "delay_s"), [(1, 2.0), (2, 4.0)])
def test_a_transient_error_gives_the_job_back_with_a_growing_delay(attempts: int, delay_s: float) -> None:
    assert run(StorageFull("full"), attempts).done == [("back", delay_s), ("audit", "retried")]


def test_the_last_attempt_fails_the_job_and_says_how_often_it_was_tried() -> None:
    state, reason = run(ServiceUnavailable("no answer"), attempts=3).done[0]
    assert state is JobState.FAILED
    assert "tried 3 times" in reason
    assert "ctreport retry" in reason


def test_a_lost_lease_touches_nothing() -> None:
    assert run(LeaseLost("gone")).done == []


def test_a_dead_database_leaves_the_row_to_the_sweeper() -> None:
    assert run(BadInput("x"), down=True).done == []


def together(compute: Any, jobs: int = 3, size: int = 2) -> OneJobStore:
    store = OneJobStore(job())
    store.left = tuple(job() for _ in range(jobs))
    assert run_together(working(store), jobs, size, compute) == jobs
    return store


def test_a_bad_study_ends_alone() -> None:
    sizes: list[int] = []

    def compute(jobs: Sequence[Job]) -> list[Ending]:
        sizes.append(len(jobs))
        return [partial(fail, Unsupported("head")) if len(sizes) == 1 and one is jobs[0] else (lambda: None) for one in jobs]

    assert together(compute).done == [(JobState.UNSUPPORTED, "head"), ("audit", "unsupported")]
    assert sizes == [2, 1]


def test_what_stops_the_whole_batch_gives_every_job_back() -> None:
    def compute(jobs: Sequence[Job]) -> list[Ending]:
        raise StorageFull("full")

    assert together(compute).done == [("back", 2.0), ("audit", "retried")] * 3


def test_weights_that_are_missing_fail_every_job_with_the_sentence() -> None:
    def compute(jobs: Sequence[Job]) -> list[Ending]:
        raise ModelMissing("no weights")

    assert together(compute, jobs=2).done == [(JobState.FAILED, "no weights"), ("audit", "failed")] * 2


def test_every_lease_of_a_batch_is_kept_while_it_is_worked_on() -> None:
    beaten = Counter[UUID]()
    enough = threading.Event()

    class Beating(OneJobStore):
        def heartbeat(self, job_id: UUID, lease: Lease) -> bool:
            beaten[job_id] += 1
            if len(beaten) == 3 and min(beaten.values()) >= 2:
                enough.set()
            return True

    def compute(jobs: Sequence[Job]) -> list[Ending]:
        assert enough.wait(20)
        return [lambda: None] * len(jobs)

    store = Beating(job())
    store.left = tuple(job() for _ in range(3))
    assert run_together(working(store, Lease("me", 0.03)), 3, 3, compute) == 3


def test_a_claim_and_what_became_of_it_stand_in_the_trail_with_family_and_attempt() -> None:
    told = run(StorageFull("full"), attempts=2).told
    assert [(one["action"], one["step"], one["attempt"]) for one in told] == [("claimed", "encode", "2"), ("retried", "encode", "2")]
    assert (told[1]["family"], told[1]["pause_s"]) == ("storage", "4.0")
    assert run(BadInput("x")).told[-1]["family"] == "permanent"


def test_a_process_that_should_end_claims_nothing_more() -> None:
    performed: list[Job] = []
    claims = Claims(stopping=lambda: bool(performed))

    class OneByOne(OneJobStore):
        def claim(self, step: Step, limit: int, lease: Lease, pick: Pick, slots: Slots) -> tuple[Job, ...]:
            taken, self.left = self.left[:1], self.left[1:]
            return taken

    two = OneByOne(job())
    two.left = (job(), job())
    assert run_claimed(working(two, claims=claims), 4, performed.append) == 1
    assert len(two.left) == 1


def test_a_worker_for_stat_alone_looks_into_no_other_lane() -> None:
    store = OneJobStore(job())
    store.left = ()
    assert run_claimed(working(store, claims=Claims(Slots(3, 1)), urgent=True), 4, lambda _: None) == 0
    assert store.picks == [(Pick.URGENT, Slots(3, 1))]


def test_after_four_stat_in_a_row_the_others_have_their_turn() -> None:
    class OnlyStat(OneJobStore):
        def claim(self, step: Step, limit: int, lease: Lease, pick: Pick, slots: Slots) -> tuple[Job, ...]:
            self.picks.append((pick, slots))
            return () if pick is Pick.OTHERS else (replace(job(), priority=Priority.STAT),)

    store = OnlyStat(job())
    assert run_claimed(working(store), 6, lambda _: None) == 6
    assert [pick for pick, _ in store.picks] == [Pick.FIRST] * 4 + [Pick.OTHERS, Pick.FIRST] * 2
    assert store.picks[0][1] == UNBOUND
