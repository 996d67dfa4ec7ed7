"""Rows of associations, also while the database is away."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from pipeline.dicom.associations import ABORTED, LOST, RELEASED, Associations, Record
from pipeline.errors import ServiceUnavailable
from pipeline.model import Step
from pipeline.ports import Store, Work
from tests.builders import Bell


@dataclass
class Database:
    """Notes what is opened and closed; can be down."""

    down: bool = False
    opened: list[UUID] = field(default_factory=list)
    closed: list[tuple[UUID, str]] = field(default_factory=list)
    orphans: int = 0

    @contextmanager
    def begin(self) -> Iterator[Work]:
        if self.down:
            raise ServiceUnavailable("the database does not answer")
        yield cast("Work", self)

    @property
    def studies(self) -> Database:
        return self

    def open_association(self, association: UUID, listener: str, calling_aet: str, host: str) -> None:
        self.opened.append(association)

    def close_association(self, association: UUID, how: str) -> None:
        self.closed.append((association, how))

    def close_orphans(self, listener: str) -> int:
        self.orphans += 1
        return 0


@dataclass
class Desk:
    """What one test works with."""

    database: Database
    bell: Bell
    associations: Associations

    def begin(self, key: int, alive: Callable[[], bool] = lambda: True) -> Record:
        record = Record("SCANNER", "127.0.0.1", alive)
        self.associations.begin(key, record)
        return record


@pytest.fixture
def desk() -> Iterator[Desk]:
    database, bell = Database(), Bell()
    associations = Associations(cast("Store", database), "listener", bell, round_s=0.02)
    associations.start()
    yield Desk(database, bell, associations)
    associations.stop()


def eventually(found: Callable[[], object]) -> None:
    deadline = time.monotonic() + 5
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_row_is_written_with_the_first_image_and_closed_with_the_association(desk: Desk) -> None:
    record = desk.begin(1)
    assert desk.database.opened == []
    row = desk.associations.row(record)
    assert desk.associations.row(record) == row
    record.stored = True
    desk.associations.end(1, RELEASED)
    desk.associations.end(1, ABORTED)
    eventually(lambda: desk.database.closed == [(row, RELEASED)])
    eventually(lambda: desk.bell.rung == [Step.ASSEMBLE])


def test_an_association_without_images_leaves_no_row_and_rings_nothing(desk: Desk) -> None:
    desk.begin(1)
    desk.associations.end(1, RELEASED)
    desk.associations.stop()
    assert (desk.database.opened, desk.database.closed, desk.bell.rung) == ([], [], [])


def test_a_row_is_closed_as_soon_as_the_database_is_back(desk: Desk) -> None:
    record = desk.begin(1)
    row = desk.associations.row(record)
    desk.database.down = True
    desk.associations.end(1, RELEASED)
    time.sleep(0.1)
    assert desk.database.closed == []
    desk.database.down = False
    eventually(lambda: desk.database.closed == [(row, RELEASED)])


def test_a_database_that_is_down_refuses_the_image_and_leaves_no_open_row(desk: Desk) -> None:
    record = desk.begin(1)
    desk.database.down = True
    with pytest.raises(ServiceUnavailable):
        desk.associations.row(record)
    desk.database.down = False
    row = desk.associations.row(record)
    eventually(lambda: [how for _, how in desk.database.closed] == [LOST])  # the row whose commit is not known
    assert desk.database.closed[0][0] != row


def test_an_association_whose_thread_died_is_lost(desk: Desk) -> None:
    living = True
    record = desk.begin(1, lambda: living)
    row = desk.associations.row(record)
    living = False
    eventually(lambda: desk.database.closed == [(row, LOST)])
    assert desk.associations.get(1) is None


def test_an_image_that_comes_after_the_end_of_its_association_opens_no_row(desk: Desk) -> None:
    record = desk.begin(1)
    desk.associations.end(1, LOST)
    with pytest.raises(ServiceUnavailable):
        desk.associations.row(record)
    assert desk.database.opened == []


@pytest.mark.parametrize("where", ["bell", "database", "alive"])
def test_rows_are_closed_after_any_fault_of_an_earlier_round(desk: Desk, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    failures: list[str] = []

    def fail(*_: object) -> bool:
        failures.append(where)
        raise RuntimeError("a fault that nobody thought of")

    first = desk.begin(1, fail if where == "alive" else lambda: True)
    row = desk.associations.row(first)
    first.stored = True
    with monkeypatch.context() as patch, capture_logs() as lines:
        if where == "bell":
            patch.setattr(desk.bell, "ring", fail)
        if where == "database":
            patch.setattr(desk.database, "close_association", fail)
        desk.associations.end(1, RELEASED) if where != "alive" else None
        eventually(lambda: failures)
        eventually(lambda: "associations_failed" in {line["event"] for line in lines})
    assert "nobody" not in repr(lines)
    first.alive = lambda: True
    desk.associations.end(1, RELEASED)
    second = desk.begin(2)
    other = desk.associations.row(second)
    desk.associations.end(2, RELEASED)
    eventually(lambda: sorted(desk.database.closed) == sorted([(row, RELEASED), (other, RELEASED)]))


def test_a_database_that_is_silent_holds_up_no_look_at_a_record() -> None:
    """The library asks for the record with every PDU."""
    asked, answer = threading.Event(), threading.Event()

    class Silent(Database):
        def close_orphans(self, listener: str) -> int:
            asked.set()
            assert answer.wait(5.0)
            return super().close_orphans(listener)

    database = Silent()
    associations = Associations(cast("Store", database), "listener", Bell(), round_s=0.02)
    starting = threading.Thread(target=associations.start)
    starting.start()
    assert asked.wait(5.0)
    record, seen = Record("A", "h", lambda: True), list[Record | None]()

    def look() -> None:
        associations.begin(1, record)
        seen.append(associations.get(1))
        associations.end(1, RELEASED)

    looking = threading.Thread(target=look)
    looking.start()
    looking.join(2.0)
    in_time = list(seen)
    answer.set()
    looking.join(5.0)
    starting.join(5.0)
    associations.stop()
    assert in_time == [record]


def test_orphans_are_closed_once_and_before_the_first_row() -> None:
    database = Database(down=True)
    associations = Associations(cast("Store", database), "listener", Bell(), round_s=0.02)
    associations.start()
    assert database.orphans == 0
    database.down = False
    associations.row(Record("A", "h", lambda: True))
    eventually(lambda: database.orphans == 1)
    associations.stop()
    assert database.orphans == 1
