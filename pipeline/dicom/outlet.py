"""A request of our own on an association that a peer opened: N-EVENT-REPORT from an acceptor (PS3.7 10.1.1).

The library's own way takes the next message off the queue as the answer, whatever it is; an image that arrives at that moment would be
lost. Here a request leaves only between two exchanges, so that fragments of two messages never mix (PS3.8 Annex E), and its answer is
recognised among the incoming messages by its Message ID.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from concurrent.futures import Future
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

from pydicom.dataset import Dataset
from pydicom.uid import UID
from pynetdicom import evt
from pynetdicom.dimse_primitives import N_EVENT_REPORT
from pynetdicom.dsutils import encode
from pynetdicom.pdu import P_DATA_TF
from pynetdicom.pdu_primitives import A_ABORT, A_P_ABORT, A_RELEASE

from pipeline.errors import BadInput, PipelineError, ServiceUnavailable

if TYPE_CHECKING:
    from pynetdicom.association import Association
    from pynetdicom.dimse_messages import DIMSEMessage

CANCEL = 0x0FFF
IS_RESPONSE = 0x8000
EVENT_REPORT_RESPONSE = 0x8100
NO_DATA_SET = 0x0101
LAST_COMMAND, LAST_DATA = 0x03, 0x02  # message control header, PS3.8 E.2
GONE = "the association is over"


def expect_answers() -> None:
    """Let the library say nothing when it finds an answer to a report of ours among a peer's requests. Idempotent."""
    logging.getLogger("pynetdicom.association").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    return not record.msg.startswith("Received unexpected N-EVENT-REPORT")


@dataclass
class Event:
    """One event report on its way. `answer` becomes the status of the peer's response."""

    sop_class: str
    sop_uid: str
    event_type: int
    information: Dataset
    answer: Future[int]
    message_id: int = 0


class Outlet:
    """One association, from before its negotiation on. Threads of the library call the handlers; any thread may report."""

    def __init__(self, assoc: Association) -> None:
        self.association: UUID = uuid4()
        self._assoc = assoc
        self._lock = threading.RLock()
        self._unanswered = 0  # requests of the peer whose response has not wholly left
        self._leaving: deque[tuple[bool, int]] = deque()  # messages under way: (is a response, control header of the last fragment)
        self._queue: deque[Event] = deque()
        self._sent: Event | None = None  # asynchronous operations are not negotiated: one at a time
        self._last_id = 0
        self._closed = False
        assoc.bind(evt.EVT_DIMSE_RECV, self._message_came)
        assoc.bind(evt.EVT_DIMSE_SENT, self._message_leaves)
        assoc.bind(evt.EVT_PDU_SENT, self._pdu_left)
        assoc.bind(evt.EVT_ACSE_SENT, self._acse_leaves)
        for end in (evt.EVT_CONN_CLOSE, evt.EVT_RELEASED, evt.EVT_ABORTED, evt.EVT_REJECTED):
            assoc.bind(end, self._ended)

    @property
    def is_open(self) -> bool:
        """True while a report could leave."""
        with self._lock:
            return not self._closed and bool(self._assoc.is_established)

    def report(self, sop_class: str, sop_uid: str, event_type: int, information: Dataset) -> Future[int]:
        """Send an event report as soon as no exchange is under way; the future ends with the peer's status or ServiceUnavailable."""
        event = Event(sop_class, sop_uid, event_type, information, Future())
        with self._lock:
            if self._closed:
                event.answer.set_exception(ServiceUnavailable(GONE))
            else:
                self._queue.append(event)
                self._send_waiting()
        return event.answer

    def close(self) -> None:
        """Nothing leaves any more; reports that wait for an answer end with ServiceUnavailable."""
        with self._lock:
            self._closed = True
            lost = [*self._queue, *([self._sent] if self._sent is not None else [])]
            self._queue.clear()
            self._sent = None
        for event in lost:
            event.answer.set_exception(ServiceUnavailable(GONE))

    def _message_came(self, event: evt.Event) -> None:
        """EVT_DIMSE_RECV, before the library serves the message."""
        command = event.message.command_set
        field = int(command.get("CommandField") or 0)
        with self._lock:
            if not field & IS_RESPONSE:
                self._unanswered += field != CANCEL
            elif field == EVENT_REPORT_RESPONSE and self._sent is not None and command.get("MessageIDBeingRespondedTo") == self._sent.message_id:
                answered, self._sent = self._sent, None
                answered.answer.set_result(int(command.get("Status") or 0))
                self._send_waiting()

    def _message_leaves(self, event: evt.Event) -> None:
        """EVT_DIMSE_SENT, before the first fragment is queued."""
        message: DIMSEMessage = event.message
        is_response = bool(int(message.command_set.CommandField) & IS_RESPONSE)
        alone = int(message.command_set.CommandDataSetType) == NO_DATA_SET
        with self._lock:
            self._leaving.append((is_response, LAST_COMMAND if alone else LAST_DATA))

    def _pdu_left(self, event: evt.Event) -> None:
        """EVT_PDU_SENT: the last fragment of a response ends an exchange."""
        if not isinstance(event.pdu, P_DATA_TF):
            return
        for item in event.pdu.presentation_data_value_items:
            with self._lock:
                if self._leaving and int(item.message_control_header_byte, 2) == self._leaving[0][1]:
                    is_response, _ = self._leaving.popleft()
                    self._unanswered = max(0, self._unanswered - is_response)
                    self._send_waiting()

    def _acse_leaves(self, event: evt.Event) -> None:
        """EVT_ACSE_SENT, before it is queued: after a release or an abort of ours nothing may leave."""
        if isinstance(getattr(event, "primitive", None), A_RELEASE | A_ABORT | A_P_ABORT):
            self.close()

    def _ended(self, event: evt.Event) -> None:
        self.close()

    def _send_waiting(self) -> None:
        """Queue one waiting report where nothing else is under way. The caller holds the lock."""
        if self._closed or self._sent is not None or self._unanswered or not self._queue or not self._assoc.is_established:
            return
        event = self._queue.popleft()
        try:
            self._send(event)
        except PipelineError as error:
            event.answer.set_exception(error)

    def _send(self, event: Event) -> None:
        context = next((c for c in self._assoc.accepted_contexts if c.abstract_syntax == event.sop_class), None)
        if context is None or context.context_id is None:
            raise ServiceUnavailable("the association has no presentation context for this event report")
        self._last_id = event.message_id = self._last_id % 0xFFFF + 1
        primitive = request(event, context.transfer_syntax[0])
        self._sent = event
        self._assoc.dimse.send_msg(primitive, context.context_id)


class Outlets:
    """The outlets of one listener, by association."""

    def __init__(self) -> None:
        self._outlets: dict[Association, Outlet] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._outlets)

    def begin(self, assoc: Association) -> None:
        """Follow an association that is being requested."""
        with self._lock:
            self._outlets[assoc] = Outlet(assoc)

    def get(self, assoc: Association) -> Outlet | None:
        """The outlet of an association that is followed."""
        with self._lock:
            return self._outlets.get(assoc)

    def open_to(self, aet: str) -> Outlet | None:
        """An association of this peer that is still open."""
        with self._lock:
            outlets = [outlet for assoc, outlet in self._outlets.items() if assoc.requestor.ae_title.strip() == aet]
        return next((outlet for outlet in outlets if outlet.is_open), None)

    def end(self, assoc: Association) -> None:
        """An association is over."""
        with self._lock:
            outlet = self._outlets.pop(assoc, None)
        if outlet is not None:
            outlet.close()

    def forget_dead(self) -> None:
        """End those whose thread ended without an event."""
        with self._lock:
            dead = [assoc for assoc in self._outlets if not assoc.is_alive()]
        for assoc in dead:
            self.end(assoc)

    def close(self) -> None:
        """End all."""
        with self._lock:
            followed = list(self._outlets)
        for assoc in followed:
            self.end(assoc)


def request(event: Event, syntax: UID) -> N_EVENT_REPORT:
    """The request primitive, encoded in the context's transfer syntax. Raises BadInput."""
    encoded = encode(event.information, syntax.is_implicit_VR, syntax.is_little_endian, syntax.is_deflated)
    if encoded is None:
        raise BadInput("the event information cannot be encoded")
    primitive = N_EVENT_REPORT()
    primitive.MessageID = event.message_id
    primitive.AffectedSOPClassUID = UID(event.sop_class)
    primitive.AffectedSOPInstanceUID = UID(event.sop_uid)
    primitive.EventTypeID = event.event_type
    primitive.EventInformation = BytesIO(encoded)
    return primitive
