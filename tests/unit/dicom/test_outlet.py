"""A report of ours leaves only between two exchanges of the peer, and is answered by its Message ID."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydicom.dataset import Dataset
from pydicom.uid import ImplicitVRLittleEndian
from pynetdicom import evt
from pynetdicom.pdu import P_DATA_TF
from pynetdicom.pdu_primitives import A_RELEASE
from pynetdicom.presentation import build_context
from pynetdicom.sop_class import StorageCommitmentPushModel  # type: ignore[attr-defined]  # generated at import

from pipeline.dicom.outlet import Outlet
from pipeline.errors import ServiceUnavailable

LAST_DATA = "00000010"
STORE_RQ, STORE_RSP, REPORT_RQ, REPORT_RSP = 0x0001, 0x8001, 0x0100, 0x8100


class FakeAssociation:
    """What the outlet needs of an association: handlers, one context, and a queue of fragments that the network thread empties."""

    def __init__(self) -> None:
        self.is_established = True
        self.handlers: dict[Any, Callable[[Any], None]] = {}
        self.fragments: list[tuple[str, str]] = []  # (message, control header)
        self.wire: list[str] = []
        self.report_ids: list[int] = []
        context = build_context(StorageCommitmentPushModel, ImplicitVRLittleEndian)
        context.context_id = 1
        self.accepted_contexts = [context]
        self.dimse = SimpleNamespace(send_msg=self.send_report)

    def bind(self, event: Any, handler: Callable[[Any], None]) -> None:
        self.handlers[event] = handler

    def leaves(self, name: str, field: int, *headers: str) -> None:
        """A message is queued, as the library does it."""
        command = Dataset()
        command.CommandField, command.CommandDataSetType = field, 0x0001 if LAST_DATA in headers else 0x0101
        self.handlers[evt.EVT_DIMSE_SENT](SimpleNamespace(message=SimpleNamespace(command_set=command)))
        self.fragments += [(name, header) for header in headers]

    def send_report(self, primitive: Any, context_id: int) -> None:
        assert context_id == 1
        self.report_ids.append(primitive.MessageID)
        self.leaves("report", REPORT_RQ, "00000001", "00000011", "00000000", LAST_DATA)

    def responds(self) -> None:
        self.leaves("response", STORE_RSP, "00000001", "00000011")

    def comes(self, field: int, **more: int) -> None:
        command = Dataset()
        command.CommandField = field
        for keyword, value in more.items():
            setattr(command, keyword, value)
        self.handlers[evt.EVT_DIMSE_RECV](SimpleNamespace(message=SimpleNamespace(command_set=command)))

    def transmit(self) -> bool:
        """The network thread sends one fragment."""
        if not self.fragments:
            return False
        name, header = self.fragments.pop(0)
        self.wire.append(name)
        pdu = P_DATA_TF()
        pdu.presentation_data_value_items = [SimpleNamespace(message_control_header_byte=header)]  # type: ignore[list-item]  # what is read of it
        self.handlers[evt.EVT_PDU_SENT](SimpleNamespace(pdu=pdu))
        return True


def made() -> tuple[FakeAssociation, Outlet]:
    assoc = FakeAssociation()
    return assoc, Outlet(assoc)  # type: ignore[arg-type]  # a fake


def report(outlet: Outlet) -> Any:
    return outlet.report(StorageCommitmentPushModel, "1.2.840.10008.1.20.1.1", 1, Dataset())


def test_an_idle_association_takes_a_report_at_once_and_its_answer_ends_it() -> None:
    assoc, outlet = made()
    answer = report(outlet)
    assert assoc.report_ids == [1]
    assoc.comes(REPORT_RSP, MessageIDBeingRespondedTo=7, Status=0)
    assert not answer.done()
    assoc.comes(REPORT_RSP, MessageIDBeingRespondedTo=1, Status=0x0112)
    assert answer.result(0) == 0x0112


def test_a_report_waits_until_the_last_fragment_of_the_response_has_left() -> None:
    assoc, outlet = made()
    assoc.comes(STORE_RQ)
    report(outlet)
    assert assoc.report_ids == []
    assoc.responds()
    assert assoc.report_ids == []
    assoc.transmit()
    assert assoc.report_ids == []
    assoc.transmit()
    assert assoc.report_ids == [1]


def test_one_report_at_a_time_and_each_with_an_id_of_its_own() -> None:
    assoc, outlet = made()
    answers = [report(outlet) for _ in range(3)]
    for number, answer in enumerate(answers, 1):
        assert assoc.report_ids == list(range(1, number + 1))
        assoc.comes(REPORT_RSP, MessageIDBeingRespondedTo=number, Status=0)
        assert answer.result(0) == 0


@pytest.mark.parametrize("event", [evt.EVT_RELEASED, evt.EVT_ABORTED, evt.EVT_CONN_CLOSE, evt.EVT_ACSE_SENT])
def test_the_end_of_the_association_ends_every_report(event: Any) -> None:
    assoc, outlet = made()
    answers = [report(outlet) for _ in range(2)]
    assoc.handlers[event](SimpleNamespace(primitive=A_RELEASE()))
    answers.append(report(outlet))
    for answer in answers:
        with pytest.raises(ServiceUnavailable):
            answer.result(0)
    assert not outlet.is_open
    assert assoc.report_ids == [1]


def test_without_a_context_for_it_a_report_cannot_leave() -> None:
    assoc, outlet = made()
    assoc.accepted_contexts = []
    with pytest.raises(ServiceUnavailable, match="no presentation context"):
        report(outlet).result(0)


@given(st.lists(st.sampled_from(["request", "respond", "transmit", "report", "answer"]), max_size=80))
def test_fragments_of_two_messages_never_mix_whatever_happens_when(steps: list[str]) -> None:
    assoc, outlet = made()
    served = pending = answered = 0
    for step in steps:
        if step == "request" and not pending:
            assoc.comes(STORE_RQ)
            pending += 1
        elif step == "respond" and pending:
            assoc.responds()
            pending, served = pending - 1, served + 1
        elif step == "transmit":
            assoc.transmit()
        elif step == "report":
            report(outlet)
        elif step == "answer" and assoc.report_ids and answered < assoc.report_ids[-1]:
            answered = assoc.report_ids[-1]
            assoc.comes(REPORT_RSP, MessageIDBeingRespondedTo=answered, Status=0)
    while assoc.transmit():
        pass
    wire, position = assoc.wire, 0
    while position < len(wire):
        whole = {"report": 4, "response": 2}[wire[position]]
        assert wire[position : position + whole] == [wire[position]] * whole
        position += whole
    assert wire.count("response") == 2 * served
