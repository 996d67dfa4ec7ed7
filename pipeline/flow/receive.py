"""Receive: one instance arrived. Bytes durable → database row committed → ledger line synced → only then may the peer hear Success."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline import log, metrics
from pipeline.errors import BadInput, ServiceUnavailable, StorageFull
from pipeline.model import Header, Step, Stored
from pipeline.ports import Answer, Archive, Arrival, Filing, HeaderReader, Ledger, Store

logger = log.get(__name__)
CONFLICT_FLAG = "sop-uid-conflict"


@dataclass(frozen=True)
class Receiving:
    """What the step works with. An instance of it is the listener's receiver."""

    store: Store
    archive: Archive
    ledger: Ledger
    read_header: HeaderReader

    def __call__(self, arrival: Arrival) -> Answer:
        """Receive one instance."""
        return receive(self, arrival)


def receive(ports: Receiving, arrival: Arrival) -> Answer:
    """File one instance. Idempotent: the same bytes again change nothing. Without room or database the answer is FULL."""
    try:
        return _receive(ports, arrival)
    except (StorageFull, ServiceUnavailable) as error:
        logger.warning("receive_refused", reason=str(error))
        return Answer.FULL


def _receive(ports: Receiving, arrival: Arrival) -> Answer:
    try:
        header = ports.read_header(arrival)
        if header.instance.sop_class != arrival.sop_class:
            return _quarantine(ports, arrival, "the data set is of another SOP class than the request; mend the sender", Answer.MISMATCH)
        filed = _filed(header, _archive(ports.archive, arrival))
        conflict = _register(ports, filed, arrival)
    except BadInput as error:  # no usable header, or values that the database refuses
        return _quarantine(ports, arrival, str(error), Answer.UNREADABLE)
    ports.ledger.append(filed)
    return Answer.ODD if conflict or filed.instance.flags else Answer.STORED


def _archive(archive: Archive, arrival: Arrival) -> Stored:
    incoming = archive.open()
    try:
        incoming.write(arrival.file_meta)
        incoming.write(arrival.data_set)
        return incoming.commit()
    finally:
        incoming.discard()


def _filed(header: Header, stored: Stored) -> Header:
    instance = replace(header.instance, path=stored.path, sha256=stored.sha256, size_bytes=stored.size_bytes)
    return replace(header, instance=instance)


def _register(ports: Receiving, header: Header, arrival: Arrival) -> bool:
    """Commit the row; True when other bytes already stand under the same SOPInstanceUID, or the image names another patient."""
    with ports.store.begin() as work:
        registered = work.studies.register(header, arrival.association)
        conflict = registered.filing is Filing.CONFLICT
        if conflict:
            work.audit.append(CONFLICT_FLAG, study_id=registered.study_id, sha256=header.instance.sha256)
    if registered.filing is not Filing.SAME:
        metrics.RECEIVED_BYTES.inc(header.instance.size_bytes)
    return conflict or registered.patient_differs


def _quarantine(ports: Receiving, arrival: Arrival, reason: str, answer: Answer) -> Answer:
    if not ports.archive.has_room():
        raise StorageFull("there is no room for bytes that cannot be understood: make space, then send again")
    stored = ports.archive.quarantine(arrival.file_meta + arrival.data_set, reason)
    with ports.store.begin() as work:
        work.studies.quarantined(stored, reason, arrival.association)
        work.audit.append(f"{Step.RECEIVE.value}_{answer.value}", sha256=stored.sha256)
    logger.warning("quarantined", reason=reason, sha256=stored.sha256)
    return answer
