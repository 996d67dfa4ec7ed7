"""Group commit: images that wait together share a round, and each is told what became of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast
from uuid import UUID, uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.errors import BadInput, PipelineError, ServiceUnavailable, StorageFull
from pipeline.flow.commit import CONFLICT_FLAG, LARGEST_ROUND, GroupCommit
from pipeline.model import Header, Instance, Patient, Stored
from pipeline.ports import Archive, Filing, Incoming, Ledger, Registered, Store, Work

CT = "1.2.840.10008.5.1.4.1.1.2"
HEADER = Header(
    Instance("1.2.3", CT, "1.2.840.10008.1.2", "1.2", "1.2.1", "CT", "", 0, ""),
    Patient("P1", "", "张三", False, None, ""),
    *("", None, "", "", "", "", "", None, ""),
)
DEADLINE_S = 20.0
OUTSIDE = "outside"  # a fault that is none of the project's


@dataclass
class World:
    """Archive, store and ledger in one: writes down each round, in order. A door may hold the first round until it is opened."""

    rounds: list[list[str]] = field(default_factory=list)  # names of those that were registered together
    happened: list[str] = field(default_factory=list)
    audited: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)  # names in the ledger
    refused: frozenset[str] = frozenset()
    broken: frozenset[str] = frozenset()  # alone in a round they cause an exception that nobody expected
    conflicts: frozenset[str] = frozenset()
    faults: dict[str, Exception] = field(default_factory=dict)
    door: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.door.set()
        self.commit = GroupCommit(cast("Store", self), cast("Archive", self), cast("Ledger", self))

    def do(self, what: str) -> None:
        if what in self.faults:
            raise self.faults[what]
        self.happened.append(what)

    def settle(self, stored: Sequence[Stored]) -> None:
        self.entered.set()
        assert self.door.wait(DEADLINE_S)
        self.do("settled")

    @contextmanager
    def begin(self) -> Iterator[Work]:
        yield cast("Work", self)
        self.do("committed")

    @property
    def studies(self) -> World:
        return self

    @property
    def audit(self) -> World:
        return self

    def register(self, filed: Sequence[tuple[Header, UUID | None]]) -> tuple[Registered, ...]:
        names = [header.instance.sop_uid for header, _ in filed]
        if self.refused.intersection(names):
            raise BadInput("the database refused a value")
        if names and self.broken.issuperset(names):
            raise RuntimeError(OUTSIDE)
        self.do("registered")
        self.rounds.append(names)
        return tuple(Registered(uuid4(), Filing.CONFLICT if name in self.conflicts else Filing.NEW) for name in names)

    def append(self, what: Sequence[Header] | str, **details: object) -> None:
        if isinstance(what, str):
            self.audited.append(f"{what} {details['sha256']}")
        else:
            self.do("ledger")
            self.written += [header.instance.sop_uid for header in what]

    def image(self, name: str) -> Registered:
        """Commit one image."""
        stored = Stored(f"objects/aa/{name}.dcm", f"hash of {name}", 8, True)
        header = replace(HEADER, instance=replace(HEADER.instance, sop_uid=name, sha256=stored.sha256))
        return self.commit(header, cast("Incoming", Content(self, stored)), None)


@dataclass
class Content:
    """A sealed file."""

    world: World
    stored: Stored

    def commit(self) -> Stored:
        if fault := self.world.faults.get("named"):
            raise fault
        return self.stored


def together(world: World, names: Sequence[str]) -> dict[str, Future[Registered]]:
    """The first image's round is held until all others wait for the next one; returns when every thread has its answer."""
    world.door.clear()
    with ThreadPoolExecutor(len(names)) as pool:
        answers = {names[0]: pool.submit(world.image, names[0])}
        assert world.entered.wait(DEADLINE_S)
        answers |= {name: pool.submit(world.image, name) for name in names[1:]}
        until(lambda: waiting(world) == len(names) - 1)
        world.door.set()
    return answers


def waiting(world: World) -> int:
    """Images that wait for a round."""
    return len(world.commit._waiting)  # the only place where it shows that a thread has come as far as the queue


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


def names_of(count: int) -> list[str]:
    return [f"1.2.{number}" for number in range(count)]


def error_of(answer: Future[Registered]) -> type[BaseException] | None:
    error = answer.exception(DEADLINE_S)
    return None if error is None else type(error)


def test_an_image_alone_is_settled_registered_committed_and_written_down_in_this_order() -> None:
    world = World()
    assert world.image("1.2").filing is Filing.NEW
    assert in_order(world.happened)


def in_order(happened: list[str]) -> bool:
    """The folder may be synced beside the registration; both are over before the commit, and the ledger comes last."""
    return {*happened[:2]} == {"settled", "registered"} and happened[2:] == ["committed", "ledger"]


def test_an_image_whose_bytes_cannot_be_synced_is_not_committed_and_the_next_one_is() -> None:
    world = World(faults={"named": StorageFull("no room")})
    with pytest.raises(StorageFull):
        world.image("1.2.1")
    assert "committed" not in world.happened
    world.faults.clear()
    assert world.image("1.2.2").filing is Filing.NEW


def test_images_that_wait_together_share_a_round() -> None:
    world, names = World(), names_of(20)
    answers = together(world, names)
    assert [error_of(answer) for answer in answers.values()] == [None] * 20
    assert [len(one) for one in world.rounds] == [1, 19]
    assert in_order(world.happened[:4])
    assert in_order(world.happened[4:])
    assert sorted(world.written) == sorted(names)


def test_more_than_the_largest_round_takes_several() -> None:
    world, names = World(), names_of(LARGEST_ROUND * 2 + 2)
    answers = together(world, names)
    assert [error_of(answer) for answer in answers.values()] == [None] * len(names)
    assert [len(one) for one in world.rounds] == [1, LARGEST_ROUND, LARGEST_ROUND, 1]
    assert sorted(world.written) == sorted(names)


def test_each_image_gets_its_own_answer() -> None:
    names = names_of(12)
    world = World(conflicts=frozenset(names[5:7]))
    answers = together(world, names)
    assert [name for name, answer in answers.items() if answer.result().filing is Filing.CONFLICT] == names[5:7]
    assert sorted(world.audited) == [f"{CONFLICT_FLAG} hash of {name}" for name in names[5:7]]
    assert len({answer.result().study_id for answer in answers.values()}) == 12


def test_a_refused_value_costs_only_its_own_image() -> None:
    names = names_of(12)
    world = World(refused=frozenset(names[3:5]))
    answers = together(world, names)
    assert {name: error_of(answer) for name, answer in answers.items()} == {name: BadInput if name in world.refused else None for name in names}
    assert sorted(world.written) == sorted(set(names) - world.refused)
    assert all(len(one) == 1 for one in world.rounds), "after a refusal each goes alone"


def test_a_refused_image_alone_is_told_so() -> None:
    world = World(refused=frozenset({"1.2"}))
    with pytest.raises(BadInput):
        world.image("1.2")
    assert world.written == []
    assert world.image("1.3").filing is Filing.NEW


@pytest.mark.parametrize("what", ["settled", "registered", "committed", "ledger"])
@pytest.mark.parametrize("fault", [StorageFull("no room"), ServiceUnavailable("no database")], ids=["room", "database"])
def test_a_round_without_room_or_database_fails_for_all_of_it_and_the_next_one_goes_on(what: str, fault: PipelineError) -> None:
    world, names = World(faults={what: fault}), names_of(10)
    answers = together(world, names)
    assert [answer.exception() for answer in answers.values()] == [fault] * 10
    assert world.written == []
    world.faults = {}
    assert world.image("1.3").filing is Filing.NEW


@pytest.mark.parametrize("what", ["settled", "registered", "committed", "ledger"])
def test_an_exception_that_nobody_expected_leaves_nobody_hanging(what: str) -> None:
    world, names = World(faults={what: RuntimeError(OUTSIDE)}), names_of(10)
    answers = together(world, names)
    errors = [error_of(answer) for answer in answers.values()]
    assert set(errors) == {RuntimeError, ServiceUnavailable}
    assert errors.count(RuntimeError) == 2, "each round's own thread raises it, the others are told to send again"
    assert world.written == []
    assert waiting(world) == 0
    world.faults = {}
    assert world.image("1.3").filing is Filing.NEW


def test_a_refusal_then_no_database_tells_each_what_happened_to_it() -> None:
    """The round falls apart into rounds of one, and the ledger fails in the middle of them."""
    world, names = World(refused=frozenset({"1.2.1"}), faults={"ledger": StorageFull("no room")}), names_of(4)
    answers = together(world, names)
    assert {name: error_of(answer) for name, answer in answers.items()} == {
        "1.2.0": StorageFull,
        "1.2.1": BadInput,
        "1.2.2": StorageFull,
        "1.2.3": StorageFull,
    }


def test_a_refusal_then_an_exception_that_nobody_expected_leaves_nobody_hanging() -> None:
    names = names_of(12)
    world = World(refused=frozenset({"1.2.1"}), broken=frozenset({"1.2.2"}))
    answers = together(world, names)
    errors = {name: error_of(answer) for name, answer in answers.items()}
    assert errors["1.2.0"] is None
    assert set(errors.values()) <= {None, BadInput, RuntimeError, ServiceUnavailable}
    assert list(errors.values()).count(RuntimeError) == 1
    assert sorted(world.written) == sorted(name for name, error in errors.items() if error is None)
    assert waiting(world) == 0


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 24), st.sets(st.integers(0, 23), max_size=4), st.sets(st.integers(0, 23), max_size=4))
def test_any_number_of_threads_get_one_answer_each(count: int, refused: set[int], conflicts: set[int]) -> None:
    """Whoever comes when: each image is in the ledger once or was refused, and nothing is done twice."""
    names = names_of(count)
    world = World(refused=frozenset(f"1.2.{number}" for number in refused), conflicts=frozenset(f"1.2.{number}" for number in conflicts))
    with ThreadPoolExecutor(count) as pool:
        answers = {name: pool.submit(world.image, name) for name in names}
    for name, answer in answers.items():
        assert error_of(answer) == (BadInput if name in world.refused else None)
    good = sorted(name for name in names if name not in world.refused)
    assert sorted(world.written) == sorted(name for one in world.rounds for name in one) == good
    assert waiting(world) == 0
