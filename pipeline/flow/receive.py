"""Receive: one instance arrived. Bytes durable → database row committed → ledger line written → only then may the peer hear Success."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from pipeline import log
from pipeline.errors import BadInput, ServiceUnavailable, StorageFull
from pipeline.flow.commit import GroupCommit
from pipeline.model import Header, Step, Stored
from pipeline.ports import Answer, Archive, Arrival, Filing, HeaderReader, Incoming, Ledger, Store
from pipeline.urgency import UrgencyRule, priority_of

logger = log.get(__name__)
OTHER_CLASS = "the data set is of another SOP class than the request; mend the sender"


def no_note(arrival: Arrival, header: Header) -> None:
    """For a listener that acts on no rejection notes."""


@dataclass(frozen=True)
class Receiving:
    """What the step works with. An instance of it is the listener's receiver. `noted` acts on an object that says something about others
    (a rejection note) once its own row is committed. `urgency`: which studies are urgent by where they come from."""

    store: Store
    archive: Archive
    ledger: Ledger
    read_header: HeaderReader
    noted: Callable[[Arrival, Header], None] = no_note
    urgency: Sequence[UrgencyRule] = ()
    commit: GroupCommit = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "commit", GroupCommit(self.store, self.archive, self.ledger))

    def __call__(self, arrival: Arrival, content: Incoming) -> Answer:
        """Receive one instance."""
        return receive(self, arrival, content)


def receive(ports: Receiving, arrival: Arrival, content: Incoming) -> Answer:
    """File one instance. Idempotent: the same bytes again change nothing. Without room or database the answer is FULL."""
    try:
        return _receive(ports, arrival, content)
    except (StorageFull, ServiceUnavailable) as error:
        logger.warning("receive_refused", reason=str(error))
        return Answer.FULL
    finally:
        content.discard()


def _receive(ports: Receiving, arrival: Arrival, content: Incoming) -> Answer:
    try:
        header = ports.read_header(arrival)
        if header.instance.sop_class != arrival.sop_class:
            return _quarantine(ports, arrival, content, OTHER_CLASS, Answer.MISMATCH)
        priority = priority_of(header, arrival.calling_aet, ports.urgency)
        filed = _filed(replace(header, priority=priority), content.seal())
        registered = ports.commit(filed, content, arrival.association)
    except BadInput as error:  # no usable header, or values that the database refuses
        return _quarantine(ports, arrival, content, str(error), Answer.UNREADABLE)
    ports.noted(arrival, filed)
    odd = registered.filing is Filing.CONFLICT or registered.patient_differs or filed.instance.flags
    return Answer.ODD if odd else Answer.STORED


def _filed(header: Header, stored: Stored) -> Header:
    instance = replace(header.instance, path=stored.path, sha256=stored.sha256, size_bytes=stored.size_bytes)
    return replace(header, instance=instance)


def _quarantine(ports: Receiving, arrival: Arrival, content: Incoming, reason: str, answer: Answer) -> Answer:
    stored = content.quarantine(reason)
    with ports.store.begin() as work:
        work.studies.quarantined(stored, reason, arrival.association)
        work.audit.append(f"{Step.RECEIVE.value}_{answer.value}", sha256=stored.sha256)
    logger.warning("quarantined", reason=reason, sha256=stored.sha256)
    return answer
