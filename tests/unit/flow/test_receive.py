"""The order of promises when one instance arrives, and the answer to each fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast
from uuid import UUID, uuid4

import pytest

from pipeline.errors import BadInput, PipelineError, ServiceUnavailable, StorageFull, UnreadableDicom
from pipeline.flow.receive import Receiving
from pipeline.model import Header, Instance, Patient, Stored
from pipeline.ports import Answer, Archive, Arrival, Filing, Incoming, Ledger, Registered, Store, Work

CT = "1.2.840.10008.5.1.4.1.1.2"
ARRIVAL = Arrival(CT, "1.2.3", "1.2.840.10008.1.2", b"data", 4, None)
HEADER = Header(
    Instance("1.2.3", CT, "1.2.840.10008.1.2", "1.2", "1.2.1", "CT", "", 0, ""),
    Patient("P1", "", "张三", False, None, ""),
    *("", None, "", "", "", "", "", None, ""),
)


@dataclass
class World:
    """Every port in one fake that writes down what happened, in order."""

    happened: list[str] = field(default_factory=list)
    filing: Filing = Filing.NEW
    faults: dict[str, PipelineError] = field(default_factory=dict)
    header: Header = HEADER
    discarded: bool = False
    registered: Header | None = None

    def do(self, what: str) -> None:
        if what in self.faults:
            raise self.faults[what]
        self.happened.append(what)

    # archive and incoming
    def seal(self) -> Stored:
        self.do("sealed")
        return Stored("objects/aa/x.dcm", "aabb", 8, True)

    def commit(self) -> Stored:
        self.do("archived")
        return Stored("objects/aa/x.dcm", "aabb", 8, True)

    def settle(self, stored: Sequence[Stored]) -> None:
        self.do("settled")

    def discard(self) -> None:
        self.discarded = True

    def quarantine(self, reason: str) -> Stored:
        self.do("quarantined")
        return Stored("quarantine/aa/x.dcm", "aabb", 8, True)

    # store
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
        self.do("registered")
        ((self.registered, _),) = filed
        return (Registered(uuid4(), self.filing),)

    def quarantined(self, stored: Stored, reason: str, association: UUID | None) -> None:
        self.do("quarantine row")

    def append(self, what: Sequence[Header] | str, **_: object) -> None:
        self.do(f"audit {what}" if isinstance(what, str) else "ledger")

    def read(self, arrival: Arrival) -> Header:
        self.do("header")
        return self.header

    def receive(self) -> Answer:
        made = Receiving(cast("Store", self), cast("Archive", self), cast("Ledger", self), self.read, self.note)
        answer = made(ARRIVAL, cast("Incoming", self))
        assert self.discarded
        return answer

    def note(self, arrival: Arrival, header: Header) -> None:
        self.do("noted")


def test_success_comes_after_archive_row_and_ledger_in_this_order() -> None:
    world = World()
    assert world.receive() is Answer.STORED
    assert world.happened[:2] == ["header", "sealed"]
    assert sorted(world.happened[2:5]) == ["archived", "registered", "settled"], "the disk works beside the database"
    assert world.happened.index("archived") < world.happened.index("settled")
    assert world.happened[5:] == ["committed", "ledger", "noted"]
    assert world.registered is not None
    filed = world.registered.instance
    assert (filed.path, filed.sha256, filed.size_bytes) == ("objects/aa/x.dcm", "aabb", 8)


def test_the_same_bytes_again_are_success() -> None:
    assert World(filing=Filing.SAME).receive() is Answer.STORED


def test_a_conflict_is_kept_audited_and_answered_with_a_warning() -> None:
    world = World(filing=Filing.CONFLICT)
    assert world.receive() is Answer.ODD
    assert "audit sop-uid-conflict" in world.happened
    assert world.happened[-2:] == ["ledger", "noted"]


def test_a_flagged_header_is_kept_and_answered_with_a_warning() -> None:
    world = World(header=replace(HEADER, instance=replace(HEADER.instance, flags=("sop-uid-differs",))))
    assert world.receive() is Answer.ODD
    assert world.happened[-2:] == ["ledger", "noted"]


@pytest.mark.parametrize("what", ["sealed", "archived", "settled", "registered", "committed", "ledger", "noted"])
@pytest.mark.parametrize("fault", [StorageFull("no space"), ServiceUnavailable("no database")])
def test_no_success_when_any_promise_fails(what: str, fault: PipelineError) -> None:
    assert World(faults={what: fault}).receive() is Answer.FULL


def test_an_unreadable_header_is_quarantined() -> None:
    world = World(faults={"header": UnreadableDicom("no StudyInstanceUID")})
    assert world.receive() is Answer.UNREADABLE
    assert world.happened == ["quarantined", "quarantine row", "audit receive_unreadable", "committed"]


def test_values_that_the_database_refuses_are_quarantined() -> None:
    world = World(faults={"registered": BadInput("a value is out of range")})
    assert world.receive() is Answer.UNREADABLE
    assert "quarantine row" in world.happened
    assert "ledger" not in world.happened


def test_another_class_than_requested_is_quarantined_as_a_mismatch() -> None:
    world = World(header=replace(HEADER, instance=replace(HEADER.instance, sop_class="1.2.840.10008.5.1.4.1.1.7")))
    assert world.receive() is Answer.MISMATCH
    assert "archived" not in world.happened


def test_quarantine_needs_room_and_a_database_too() -> None:
    unreadable = {"header": UnreadableDicom("no StudyInstanceUID")}
    assert World(faults={**unreadable, "quarantined": StorageFull("no space")}).receive() is Answer.FULL
    assert World(faults={**unreadable, "quarantine row": ServiceUnavailable("down")}).receive() is Answer.FULL
