"""The C-STORE service: pynetdicom events in, DIMSE statuses out. What is done with an image is `flow/receive.py`'s business."""

from __future__ import annotations

import threading
import time
import traceback
from socketserver import TCPServer
from typing import TYPE_CHECKING, cast

from pydicom.dataset import Dataset
from pynetdicom import AE, _config, evt
from pynetdicom.pdu import P_DATA_TF
from pynetdicom.sop_class import Verification  # type: ignore[attr-defined]  # generated at import
from pynetdicom.transport import ThreadedAssociationServer

from pipeline import log, metrics
from pipeline.dicom.associations import ABORTED, LOST, RELEASED, Associations, Record
from pipeline.dicom.file_meta import file_meta
from pipeline.dicom.offered import SOP_CLASSES, TRANSFER_SYNTAXES
from pipeline.errors import ServiceUnavailable
from pipeline.ports import Answer, Archive, Arrival, Doorbell, Receiver, Store

if TYPE_CHECKING:
    from pynetdicom.dimse_primitives import C_STORE

    from pipeline.settings import ListenerSettings

logger = log.get(__name__)
# PS3.4 Table B.2-1, and what the peer reads beside it (Error Comment, at most 64 characters).
STATUSES: dict[Answer, tuple[int, str]] = {
    Answer.STORED: (0x0000, ""),
    Answer.ODD: (0xB007, "kept, but the header is odd; see the flags of the instance"),
    Answer.FULL: (0xA700, "no room or no database now; nothing kept, send again later"),
    Answer.MISMATCH: (0xA900, "data set is not of the requested SOP class; quarantined"),
    Answer.UNREADABLE: (0xC000, "no usable header; quarantined"),
}
KEPT = frozenset({Answer.STORED, Answer.ODD})


class QueueingServer(ThreadedAssociationServer):
    """A server that lets a burst of peers wait for acceptance, and that stops accepting without touching running associations."""

    request_queue_size = 128
    daemon_threads = True

    def shutdown(self) -> None:
        """Stop listening; the library's own version expects to be started by its AE."""
        TCPServer.shutdown(self)
        self.server_close()


class Listener:
    """Listens from start() to stop(); `port` is the real one when the setting is 0."""

    def __init__(self, settings: ListenerSettings, receive: Receiver, archive: Archive, store: Store, bell: Doorbell) -> None:
        self._settings, self._receive, self._archive = settings, receive, archive
        self._associations = Associations(store, settings.name, bell)
        self._max_object_bytes = settings.max_object_mb << 20
        self._server: QueueingServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def port(self) -> int:
        """TCP port that peers connect to; 0 while not listening."""
        return int(self._server.server_address[1]) if self._server is not None else 0

    def start(self) -> None:
        """Sweep leftovers, close orphaned associations, listen. Raises ServiceUnavailable when the port is taken."""
        self._archive.sweep()
        self._associations.start()
        _config.LOG_HANDLER_LEVEL = "none"  # the library would log patient data at debug level, and it costs time
        try:
            self._server = self._serve()
        except OSError as error:
            self._associations.stop()
            where = f"{self._settings.host}:{self._settings.port}"
            raise ServiceUnavailable(f"{where} cannot be listened on ({error.strerror}): choose another port or stop its owner") from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), name="dicom-listener", daemon=True)
        self._thread.start()

    def _serve(self) -> QueueingServer:
        address = (self._settings.host, self._settings.port)
        server = _entity(self._settings).make_server(address, evt_handlers=self._handlers(), server_class=QueueingServer)
        assert isinstance(server, QueueingServer)
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
        for assoc in server.active_associations:
            assoc.abort()
        if self._thread is not None:
            self._thread.join(timeout=grace_s)
        self._associations.stop()

    def _handlers(self) -> list[evt.EventHandlerType]:
        return [
            (evt.EVT_ACCEPTED, self._accepted),
            (evt.EVT_C_STORE, self._store),
            (evt.EVT_PDU_RECV, self._pdu),
            (evt.EVT_DIMSE_RECV, self._message),
            (evt.EVT_CONN_CLOSE, self._connection_closed),
            (evt.EVT_RELEASED, self._released),
            (evt.EVT_ABORTED, self._aborted),
        ]

    def _accepted(self, event: evt.Event) -> None:
        peer = event.assoc.requestor
        self._associations.begin(id(event.assoc), Record(peer.ae_title.strip(), peer.address or "", event.assoc.is_alive))

    def _store(self, event: evt.Event) -> Dataset | int:
        """EVT_C_STORE. No exception leaves it: the library would answer 0xC211."""
        try:
            answer = self._received(event)
        except Exception as error:  # noqa: BLE001  # the listener's handler: whatever happened, nothing was promised, and the peer may try again
            frame = traceback.extract_tb(error.__traceback__)[-1]
            logger.error("receive_failed", error=type(error).__name__, file=frame.filename, line=frame.lineno)
            answer = Answer.FULL
        metrics.INSTANCES.labels(answer.value).inc()
        return _response(answer)

    def _received(self, event: evt.Event) -> Answer:
        request, record = cast("C_STORE", event.request), self._associations.get(id(event.assoc))
        sop_class, sop_uid = str(request.AffectedSOPClassUID), str(request.AffectedSOPInstanceUID)
        syntax = str(event.context.transfer_syntax)
        try:
            row = self._associations.row(record) if record is not None else None
        except ServiceUnavailable as error:
            logger.warning("receive_refused", reason=str(error))
            return Answer.FULL
        data_set = request.DataSet.getvalue() if request.DataSet is not None else b""
        answer = self._receive(Arrival(sop_class, sop_uid, syntax, file_meta(sop_class, sop_uid, syntax), data_set, row))
        if record is not None and answer in KEPT:
            record.stored = True
        return answer

    def _pdu(self, event: evt.Event) -> None:
        """Abort a peer whose object outgrows the limit before it fills the memory."""
        record = self._associations.get(id(event.assoc))
        if record is None or not isinstance(event.pdu, P_DATA_TF):
            return
        record.pending_bytes += event.pdu.pdu_length
        if record.pending_bytes > self._max_object_bytes and not record.too_large:
            record.too_large = True
            logger.warning("object_too_large", limit_mb=self._settings.max_object_mb)
            threading.Thread(target=event.assoc.abort, name="abort", daemon=True).start()  # this is the thread that abort() waits for

    def _message(self, event: evt.Event) -> None:
        if (record := self._associations.get(id(event.assoc))) is not None:
            record.pending_bytes = 0

    def _connection_closed(self, event: evt.Event) -> None:
        """Comes before EVT_ABORTED when the peer is gone, and after our own abort."""
        if (record := self._associations.get(id(event.assoc))) is not None:
            record.connection_lost = not event.assoc.acse.is_aborted("a-abort")

    def _released(self, event: evt.Event) -> None:
        self._associations.end(id(event.assoc), RELEASED)

    def _aborted(self, event: evt.Event) -> None:
        record = self._associations.get(id(event.assoc))
        self._associations.end(id(event.assoc), LOST if record is not None and record.connection_lost else ABORTED)


def _entity(settings: ListenerSettings) -> AE:
    """Our application entity: every storage class in every transfer syntax, and C-ECHO."""
    ae = AE(ae_title=settings.aet)
    ae.maximum_pdu_size = settings.max_pdu_bytes
    ae.maximum_associations = settings.max_associations
    ae.network_timeout = settings.network_timeout_s
    ae.add_supported_context(Verification)
    for sop_class in SOP_CLASSES:
        ae.add_supported_context(sop_class, list(TRANSFER_SYNTAXES))
    return ae


def _response(answer: Answer) -> Dataset | int:
    status, comment = STATUSES[answer]
    if not comment:
        return status
    response = Dataset()
    response.Status = status
    response.ErrorComment = comment
    return response
