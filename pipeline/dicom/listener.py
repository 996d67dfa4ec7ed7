"""The DICOM services of the listener: pynetdicom events in, DIMSE statuses out. What is done with an image is `flow/receive.py`'s business."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Protocol, cast

from pydicom.dataset import Dataset
from pynetdicom import AE, _config, evt
from pynetdicom.pdu import P_DATA_TF
from pynetdicom.sop_class import Verification  # type: ignore[attr-defined]  # generated at import

from pipeline import log, metrics
from pipeline.dicom import fast
from pipeline.dicom.access import Rejection, reject
from pipeline.dicom.associations import ABORTED, LOST, RELEASED, Associations, Record
from pipeline.dicom.command import store_response
from pipeline.dicom.file_meta import IMPLEMENTATION_CLASS_UID, IMPLEMENTATION_VERSION_NAME
from pipeline.dicom.intake import Context, Intake, MessageTooLong, Object
from pipeline.dicom.offered import TRANSFER_SYNTAXES, offered
from pipeline.dicom.threads import guarded
from pipeline.dicom.transport import PeerServer, PeerSocket, TlsPeerSocket, bind
from pipeline.errors import ServiceUnavailable, StorageFull
from pipeline.ports import Answer, Archive, Arrival, Doorbell, Receiver, Store

if TYPE_CHECKING:
    from pynetdicom.association import Association
    from pynetdicom.dimse_primitives import C_STORE

    from pipeline.settings import ListenerSettings

logger = log.get(__name__)
# PS3.4 Table B.2-1, and what the peer reads beside it (Error Comment, at most 64 characters).
STATUSES: dict[Answer, tuple[int, str]] = {
    Answer.STORED: (0x0000, ""),
    Answer.ODD: (0xB007, "kept, but the header is odd; see the flags of the instance"),
    Answer.FULL: (0xA700, "no room or no database now; nothing kept, send again later"),
    Answer.TOO_LARGE: (0xA700, "larger than the limit of this listener; nothing kept"),
    Answer.MISMATCH: (0xA900, "data set is not of the requested SOP class; quarantined"),
    Answer.UNREADABLE: (0xC000, "no usable header; quarantined"),
}
KEPT = frozenset({Answer.STORED, Answer.ODD})
REFUSED = frozenset({Answer.FULL, Answer.TOO_LARGE})  # the sender has an image that we have not
LONGEST_ANSWER_BYTES = 512  # of a C-STORE response: two UIDs, a comment and five numbers are some 280
REST_S = 0.5  # how often a resting association looks whether its peer has fallen silent
STREAM_PATIENCE_S = 0.005  # while images come one after the other; an echo or a release waits as long for its answer, once


class Service(Protocol):
    """Another DICOM service on the same port: storage commitment, MPPS."""

    @property
    def sop_classes(self) -> tuple[str, ...]:
        """Abstract syntaxes that it serves."""

    def handlers(self) -> list[evt.EventHandlerType]:
        """What it does about pynetdicom's events."""

    def start(self) -> None:
        """Begin whatever it does beside answering."""

    def stop(self) -> None:
        """End it."""


class Access(Protocol):
    """Who may connect."""

    def admits(self, host: str) -> bool:
        """False closes the connection before a byte is read."""

    def requested(self, event: evt.Event) -> None:
        """EVT_REQUESTED: reject whom it must."""

    def bytes_per_s(self, host: str, aet: str) -> float | None:
        """Rate limit of a peer."""


class OpenAccess:
    """Everybody who reaches the socket."""

    def admits(self, host: str) -> bool:
        """Always."""
        return True

    def requested(self, event: evt.Event) -> None:
        """Nobody is rejected."""

    def bytes_per_s(self, host: str, aet: str) -> float | None:
        """No limit."""
        return None


@dataclass(frozen=True)
class Site:
    """What stands around a listener, beside its settings: each part may be left out."""

    services: Sequence[Service] = ()
    access: Access = field(default_factory=OpenAccess)
    tls: Callable[[], ssl.SSLContext] | None = None
    bound: socket.socket | None = None  # shared with other processes; else the listener binds its own
    predecessors: Sequence[str] = ()  # names of listeners that run no more


class Listener:
    """Listens from start() to stop(); `port` is the real one when the setting is 0."""

    def __init__(
        self, settings: ListenerSettings, receive: Receiver, archive: Archive, store: Store, bell: Doorbell, site: Site | None = None
    ) -> None:
        self._settings, self._receive, self._archive, self._site = settings, receive, archive, site or Site()
        self._associations = Associations(store, settings.name, bell, predecessors=self._site.predecessors)
        self._fast = settings.fast and fast.available()
        self._guard = contextlib.ExitStack()
        self._offered = offered(settings.private_classes or ())
        self._server: PeerServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """TCP port that peers connect to; 0 while not listening."""
        return int(self._server.server_address[1]) if self._server is not None else 0

    def start(self) -> None:
        """Sweep leftovers, close orphaned associations, listen. Raises ServiceUnavailable when the port is taken."""
        with contextlib.suppress(StorageFull):  # then each image is refused until the disk is mended
            self._archive.prepare()
            self._archive.sweep()
        self._associations.start()
        _config.LOG_HANDLER_LEVEL = "none"  # the library would log patient data at debug level, and it costs time
        try:
            self._server = self._serve()
        except OSError as error:
            self._associations.stop()
            where = f"{self._settings.host}:{self._settings.port}"
            raise ServiceUnavailable(f"{where} cannot be listened on ({error.strerror}): choose another port or stop its owner") from error
        self._guard.enter_context(guarded())
        for service in self._site.services:
            service.start()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="dicom-listener", daemon=True)
        self._thread.start()

    def _serve(self) -> PeerServer:
        bound = self._site.bound or bind(self._settings.host, self._settings.port)
        server = _entity(self._settings, self._offered, self._site.services).make_server(
            bound.getsockname(),
            evt_handlers=self._handlers(),
            server_class=PeerServer,
            bound=bound,
            limits=self._settings,
            admits=self._site.access.admits,
            tls=self._site.tls,
        )
        if bound is not self._site.bound:
            bound.close()  # the server has a copy
        assert isinstance(server, PeerServer)
        return server

    def stop(self, grace_s: float = 10.0) -> None:
        """Refuse new associations, let running ones finish for `grace_s` seconds, then abort them."""
        server, self._server = self._server, None
        if server is None:
            return
        server.shutdown()
        deadline = time.monotonic() + grace_s
        while server.active_associations and time.monotonic() < deadline:
            time.sleep(0.02)
        self._associations.wake_all()
        for assoc in server.active_associations:
            assoc.abort()
        if self._thread is not None:
            self._thread.join(timeout=grace_s)
        for service in self._site.services:
            service.stop()
        self._guard.close()
        self._associations.stop()

    def _handlers(self) -> list[evt.EventHandlerType]:
        own: list[evt.EventHandlerType] = [
            (evt.EVT_REQUESTED, self._requested),
            (evt.EVT_REJECTED, self._rejected),
            (evt.EVT_C_STORE, self._store),
            (evt.EVT_PDU_RECV, self._pdu),
            (evt.EVT_CONN_CLOSE, self._connection_closed),
            (evt.EVT_RELEASED, self._released),
            (evt.EVT_ABORTED, self._aborted),
        ]
        services = [handler for service in self._site.services for handler in service.handlers()]
        return [*own, *services, (evt.EVT_ESTABLISHED, self._rest)]  # last: whoever waits for the same event comes first

    def _requested(self, event: evt.Event) -> None:
        """EVT_REQUESTED. Whatever goes wrong, the peer is not let in: the library would accept it."""
        try:
            self._admit(event)
        except Exception as error:  # noqa: BLE001  # see above
            _log_fault("request_failed", error)
            reject(event.assoc, Rejection.LIMIT)

    def _admit(self, event: evt.Event) -> None:
        """Before the first fragment can come: the peer may send as soon as it is accepted."""
        assoc = event.assoc
        record = Record(_calling(assoc), assoc.requestor.address or "", assoc.is_alive)
        record.intake = self._intake(assoc, record)
        if self._associations.begin(id(assoc), record) > self._settings.max_associations:
            logger.warning("association_refused", reason="limit", host=record.host)
            reject(assoc, Rejection.LIMIT)
        else:
            self._site.access.requested(event)
        connection = assoc.dul.socket.socket if assoc.dul.socket is not None else None
        if isinstance(connection, (PeerSocket, TlsPeerSocket)):
            connection.bytes_per_s = self._site.access.bytes_per_s(record.host, record.calling_aet)
        if self._fast:
            fast.tune(assoc)

    def _intake(self, assoc: Association, record: Record) -> Intake:
        storage: dict[int, Context] = {}

        def contexts() -> dict[int, Context]:
            if not storage:
                taken = [one for one in assoc.accepted_contexts if one.abstract_syntax in self._offered]
                storage.update({one.context_id or 0: Context(str(one.abstract_syntax), str(one.transfer_syntax[0])) for one in taken})
            return storage

        @cache
        def answers_inline() -> bool:
            """Not beside a service that sends requests of its own on the association: an answer must not fall between their fragments.
            Nor to a peer that takes no PDU as long as an answer: the library cuts it to pieces."""
            served = {str(one.abstract_syntax) for one in assoc.accepted_contexts}
            takes_short = 0 < (assoc.requestor.maximum_length or 0) < LONGEST_ANSWER_BYTES
            return self._settings.inline and not takes_short and served <= {*self._offered, str(Verification)}

        def inline(one: Object) -> None:
            answer = self._answered(record, one)
            if assoc.dul.socket is not None:
                assoc.dul.socket.send(store_response(one.request, one.context_id, *STATUSES[answer]))

        return Intake(self._archive.open, contexts, self._settings.max_object_mb << 20, inline, answers_inline)

    def _store(self, event: evt.Event) -> Dataset | int:
        """EVT_C_STORE, with the object that the network thread has taken in: for requests that were not answered inline."""
        request, record = cast("C_STORE", event.request), self._associations.get(id(event.assoc))
        one = record.intake.pop(request) if record is not None and record.intake is not None else None
        if record is None or one is None or (request.DataSet and request.DataSet.getvalue()):
            logger.error("object_mixed_up")  # the library read something else than we did: nothing of it may be kept
            if one is not None and one.content is not None:
                one.content.discard()
            event.assoc.abort()
            return _response(Answer.FULL)
        return _response(self._answered(record, one))

    def _answered(self, record: Record, one: Object) -> Answer:
        """No exception leaves it: the library would answer 0xC211."""
        try:
            answer = self._received(record, one)
        except Exception as error:  # noqa: BLE001  # the listener's handler: whatever happened, nothing was promised, and the peer may try again
            _log_fault("receive_failed", error)
            answer = Answer.FULL
        finally:
            if one.content is not None:
                one.content.discard()
        record.refused = record.refused or answer in REFUSED
        metrics.INSTANCES.labels(answer.value).inc()
        return answer

    def _received(self, record: Record, one: Object) -> Answer:
        if one.content is None:
            return Answer.TOO_LARGE if one.too_large else Answer.FULL
        try:
            row = self._associations.row(record)
        except ServiceUnavailable as error:
            logger.warning("receive_refused", reason=str(error))
            return Answer.FULL
        arrival = Arrival(one.request.sop_class, one.request.sop_uid, one.syntax, one.head, one.size, row, record.calling_aet)
        answer = self._receive(arrival, one.content)
        record.stored = record.stored or answer in KEPT
        return answer

    def _pdu(self, event: evt.Event) -> None:
        """EVT_PDU_RECV, on the network thread: take the fragments of objects before the library gathers them in memory."""
        record = self._associations.get(id(event.assoc))
        if record is None or record.intake is None:
            return
        if not isinstance(event.pdu, P_DATA_TF):
            record.busy.set()
            return
        try:
            if record.intake.take(event.pdu):
                record.busy.set()
            if isinstance(connection := event.assoc.dul.socket and event.assoc.dul.socket.socket, PeerSocket):
                connection.patience_s = STREAM_PATIENCE_S if record.intake.streaming else 0.0
        except MessageTooLong as error:
            logger.warning("message_too_long", reason=str(error))
            event.assoc.abort()
        except Exception as error:  # noqa: BLE001  # the library would go on, with a hole in the object
            _log_fault("intake_failed", error)
            record.intake.discard()
            event.assoc.abort()

    def _connection_closed(self, event: evt.Event) -> None:
        """Comes before EVT_ABORTED when the peer is gone, and after our own abort."""
        if event.assoc.requestor.primitive is None:
            event.assoc.dul.to_user_queue.put(None)  # its thread waits for a request that will not come
        if (record := self._associations.get(id(event.assoc))) is not None:
            record.busy.set()
            record.connection_lost = not event.assoc.acse.is_aborted("a-abort")

    def _rest(self, event: evt.Event) -> None:
        """EVT_ESTABLISHED, on the association's thread. The library would now have it look for work a thousand times a second; while everything is
        answered on the network thread it waits here instead, until there is something that only it can do."""
        record = self._associations.get(id(event.assoc))
        while record is not None and not record.busy.wait(REST_S):
            if not event.assoc.dul.is_alive() or event.assoc.dul.idle_timer_expired() or event.assoc.acse.is_aborted():
                return

    def _rejected(self, event: evt.Event) -> None:
        self._associations.end(id(event.assoc), ABORTED)

    def _released(self, event: evt.Event) -> None:
        record = self._associations.get(id(event.assoc))
        self._associations.end(id(event.assoc), ABORTED if record is not None and record.refused else RELEASED)

    def _aborted(self, event: evt.Event) -> None:
        """Also our own abort of a peer that fell silent between two objects: some senders never release, and nothing is missing then."""
        record, how = self._associations.get(id(event.assoc)), ABORTED
        if record is not None and record.connection_lost:
            how = LOST
        elif record is not None and not record.refused and event.assoc.dul.idle_timer_expired():
            how = RELEASED if record.intake is not None and record.intake.is_idle else ABORTED
        self._associations.end(id(event.assoc), how)


def _calling(assoc: Association) -> str:
    """Calling AE title of an association that is being requested."""
    asked = assoc.requestor.primitive
    return str(asked.calling_ae_title or "").strip() if asked is not None else ""


def _log_fault(what: str, error: Exception) -> None:
    """Type and place, no value: it may be a patient's."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    logger.error(what, error=type(error).__name__, file=frame.filename, line=frame.lineno)


def _response(answer: Answer) -> Dataset | int:
    """The status alone, or with a comment for the person who looks at the sender's log."""
    status, comment = STATUSES[answer]
    if not comment:
        return status
    response = Dataset()
    response.Status, response.ErrorComment = status, comment
    return response


def _entity(settings: ListenerSettings, sop_classes: Sequence[str], services: Sequence[Service]) -> AE:
    """Our AE with every presentation context that it takes."""
    entity = AE(settings.aet)
    entity.implementation_class_uid, entity.implementation_version_name = IMPLEMENTATION_CLASS_UID, IMPLEMENTATION_VERSION_NAME
    entity.maximum_pdu_size = settings.max_pdu_bytes
    entity.maximum_associations = settings.max_connections + 1  # the library counts silent connections; associations are counted in _requested
    entity.network_timeout = entity.acse_timeout = entity.dimse_timeout = settings.network_timeout_s
    entity.add_supported_context(Verification)
    for sop_class in sop_classes:
        entity.add_supported_context(sop_class, list(TRANSFER_SYNTAXES))
    for service in services:
        for sop_class in service.sop_classes:
            entity.add_supported_context(sop_class)
    return entity
