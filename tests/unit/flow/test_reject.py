"""A rejection note on its way through the receive step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast
from uuid import uuid4

import pytest

from pipeline.errors import BadInput
from pipeline.flow.reject import KEY_OBJECT, Rejecting
from pipeline.model import RejectedImage, Rejection, Step, StudyState
from pipeline.ports import Arrival, Rejected, Store, Work
from tests.builders import Bell
from tests.integration.store.rows import header

NOTE = Rejection("1.2.3.8", "113001", "quality", "1.2.3", (RejectedImage("1.2.3", "1.2.3.9.1"),))
ARRIVAL = Arrival(KEY_OBJECT, "1.2.3.8", "1.2.840.10008.1.2", b"note", 4, None)


@dataclass
class FakeStore:
    """Notes in, what they did out."""

    does: StudyState = StudyState.WITHDRAWN
    refuses: bool = False
    seen: list[tuple[str, Rejection]] = field(default_factory=list)

    @contextmanager
    def begin(self) -> Iterator[Work]:
        yield cast("Work", self)

    @property
    def studies(self) -> FakeStore:
        return self

    def reject(self, study_uid: str, rejection: Rejection) -> tuple[Rejected, ...]:
        if self.refuses:
            raise BadInput("a value")
        self.seen.append((study_uid, rejection))
        return (Rejected(uuid4(), 1, StudyState.COMPLETE, self.does),)


def run(store: FakeStore, arrival: Arrival = ARRIVAL, note: Rejection | None = NOTE) -> list[Step]:
    bell = Bell()
    Rejecting(cast("Store", store), bell, lambda _head, _syntax: note)(arrival, header(1, "1.2.3"))
    return bell.rung


@pytest.mark.parametrize(("does", "rung"), [(StudyState.WITHDRAWN, [Step.DELIVER]), (StudyState.RECEIVING, [Step.ASSEMBLE]), (StudyState.HELD, [])])
def test_a_note_acts_on_its_study_and_rings_for_what_follows(does: StudyState, rung: list[Step]) -> None:
    store = FakeStore(does)
    assert run(store) == rung
    assert store.seen == [("1.2.3", NOTE)]


def test_what_is_no_note_does_nothing() -> None:
    store = FakeStore()
    assert run(store, note=None) == []
    assert run(store, replace(ARRIVAL, sop_class="1.2.840.10008.5.1.4.1.1.2")) == []
    assert store.seen == []


def test_half_a_note_does_nothing() -> None:
    store = FakeStore()
    assert run(store, replace(ARRIVAL, size=5)) == []
    assert store.seen == []


def test_values_that_the_database_refuses_cost_no_answer() -> None:
    assert run(FakeStore(refuses=True)) == []
