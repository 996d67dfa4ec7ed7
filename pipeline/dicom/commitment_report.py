"""What a storage commitment says: judged against the archive, and put into words (PS3.4 J.3.3)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from pydicom.dataset import Dataset
from pydicom.sequence import Sequence as Items

from pipeline.dicom.told import items, text, uid_element
from pipeline.errors import BadInput
from pipeline.modalities import Held, Reference

COMPLETE, FAILURES_EXIST = 1, 2  # Event Type ID, PS3.4 Table J.3-2
MOST_REFERENCES = 100_000


class Failure(IntEnum):
    """Failure Reason (0008,1197), PS3.3 Table C.14-1."""

    PROCESSING = 0x0110  # the file is missing or not what was received
    NO_SUCH_OBJECT = 0x0112
    CLASS_CONFLICT = 0x0119  # the instance is here under another SOP class
    CLASS_NOT_SUPPORTED = 0x0122


@dataclass(frozen=True, slots=True)
class Judgement:
    """What can be promised and what cannot."""

    committed: tuple[Reference, ...]
    failed: tuple[tuple[Reference, Failure], ...]


def read_request(information: Dataset) -> tuple[str, tuple[Reference, ...]]:
    """Transaction UID and references of an N-ACTION's Action Information (PS3.4 Table J.3-1). Raises BadInput."""
    transaction = text(information, "TransactionUID")
    if not transaction:
        raise BadInput("TransactionUID is missing")
    found = items(information, "ReferencedSOPSequence")
    if not found:
        raise BadInput("ReferencedSOPSequence is missing or empty")
    if len(found) > MOST_REFERENCES:
        raise BadInput(f"more than {MOST_REFERENCES} references: ask in parts")
    references = [Reference(text(item, "ReferencedSOPClassUID") or "", text(item, "ReferencedSOPInstanceUID") or "") for item in found]
    if not all(reference.sop_class and reference.sop_uid for reference in references):
        raise BadInput("a reference lacks its class or instance UID")
    return transaction, tuple(dict.fromkeys(references))


def judge(requested: Sequence[Reference], held: Iterable[Held], intact: Callable[[Held], bool], supported: Container[str]) -> Judgement:
    """Promise each object whose every kept version under the named class is intact; a commitment is a promise, so the bytes are looked at."""
    kept: dict[str, list[Held]] = defaultdict(list)
    for one in held:
        kept[one.reference.sop_uid].append(one)
    committed, failed = [], []
    for reference in requested:
        failure = _failure(reference, kept[reference.sop_uid], intact, supported)
        if failure is None:
            committed.append(reference)
        else:
            failed.append((reference, failure))
    return Judgement(tuple(committed), tuple(failed))


def _failure(reference: Reference, kept: list[Held], intact: Callable[[Held], bool], supported: Container[str]) -> Failure | None:
    if not kept:
        return Failure.NO_SUCH_OBJECT if reference.sop_class in supported else Failure.CLASS_NOT_SUPPORTED
    of_class = [one for one in kept if one.reference == reference]
    if not of_class:
        return Failure.CLASS_CONFLICT
    return None if all(intact(one) for one in of_class) else Failure.PROCESSING


def event_information(transaction_uid: str, judgement: Judgement) -> tuple[int, Dataset]:
    """Event Type ID and Event Information of the report (PS3.4 Table J.3-2)."""
    ds = Dataset()
    ds.add(uid_element("TransactionUID", transaction_uid))
    if judgement.committed:
        ds.ReferencedSOPSequence = Items([_item(reference) for reference in judgement.committed])
    if judgement.failed:
        ds.FailedSOPSequence = Items([_item(reference, reason) for reference, reason in judgement.failed])
    return (FAILURES_EXIST if judgement.failed else COMPLETE), ds


def _item(reference: Reference, reason: Failure | None = None) -> Dataset:
    item = Dataset()
    item.add(uid_element("ReferencedSOPClassUID", reference.sop_class))
    item.add(uid_element("ReferencedSOPInstanceUID", reference.sop_uid))
    if reason is not None:
        item.FailureReason = int(reason)
    return item
