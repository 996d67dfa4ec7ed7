"""Modality Performed Procedure Step SCP (PS3.4 Annex F): a step is committed to the database before it is answered. A final one rings assemble."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, cast

from pydicom.dataset import Dataset
from pydicom.uid import generate_uid
from pynetdicom import evt
from pynetdicom.sop_class import ModalityPerformedProcedureStep  # type: ignore[attr-defined]  # generated at import

from pipeline import log, metrics
from pipeline.dicom.elements import FAULTS
from pipeline.dicom.response import failed_at, response
from pipeline.dicom.told import items, text
from pipeline.errors import BadInput, ServiceUnavailable
from pipeline.modalities import PerformedStep, StepAnswer, StepChange, StepStatus
from pipeline.model import Step
from pipeline.ports import Doorbell, Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pynetdicom.dimse_primitives import N_CREATE, N_SET

logger = log.get(__name__)
SUCCESS, INVALID_VALUE, PROCESSING_FAILURE, DUPLICATE, NO_SUCH_INSTANCE = 0x0000, 0x0106, 0x0110, 0x0111, 0x0112  # PS3.7 Annex C
MISSING, MISSING_VALUE, RESOURCE_LIMITATION = 0x0120, 0x0121, 0x0213
NO_LONGER = "Performed Procedure Step Object may no longer be updated"  # PS3.4 Table F.7.2-2
NO_LONGER_ID = 0xA710
UID = re.compile(r"[0-9]+(\.[0-9]+)+")
MOMENT = re.compile(r"(\d{8})(\d{6})")
Handled = tuple[Dataset | int, Dataset | None]


class Refused(Exception):
    """What the peer is told instead of success."""

    def __init__(self, status: int, comment: str, error_id: int | None = None) -> None:
        super().__init__(comment)
        self.answer = response(status, comment, error_id)
        self.status = status


class PerformedProcedureSteps:
    """A service of the listener."""

    sop_classes: tuple[str, ...] = (ModalityPerformedProcedureStep,)

    def __init__(self, store: Store, bell: Doorbell) -> None:
        self._store, self._bell = store, bell

    def handlers(self) -> list[evt.EventHandlerType]:
        """What the listener binds."""
        return [(evt.EVT_N_CREATE, self._create), (evt.EVT_N_SET, self._set)]

    def start(self) -> None:
        """Nothing runs beside the handlers."""

    def stop(self) -> None:
        """Nothing runs beside the handlers."""

    def _create(self, event: evt.Event) -> Handled:
        """EVT_N_CREATE. No exception leaves it."""
        return self._answer(lambda: self._created(event))

    def _set(self, event: evt.Event) -> Handled:
        """EVT_N_SET. No exception leaves it."""
        return self._answer(lambda: self._changed(event))

    def _answer(self, handle: Callable[[], Handled]) -> Handled:
        try:
            answer = handle()
        except Refused as refused:
            metrics.PERFORMED_STEPS.labels(f"0x{refused.status:04X}").inc()
            return refused.answer, None
        except ServiceUnavailable as error:
            logger.warning("mpps_refused", reason=str(error))
            metrics.PERFORMED_STEPS.labels(f"0x{RESOURCE_LIMITATION:04X}").inc()
            return response(RESOURCE_LIMITATION, "no database now; send again later"), None
        except Exception as error:  # noqa: BLE001  # the listener's handler: nothing was kept, and the peer may send again
            logger.error("mpps_failed", error=type(error).__name__, **failed_at(error))
            metrics.PERFORMED_STEPS.labels(f"0x{PROCESSING_FAILURE:04X}").inc()
            return response(PROCESSING_FAILURE, "an error of this listener; send again later"), None
        metrics.PERFORMED_STEPS.labels("0x0000").inc()
        return answer

    def _created(self, event: evt.Event) -> Handled:
        given = cast("N_CREATE", event.request).AffectedSOPInstanceUID
        sop_uid = str(given or generate_uid())
        step = read_step(_told(lambda: event.attribute_list), sop_uid, event.assoc.requestor.ae_title.strip())
        with self._store.begin() as work:
            answer = work.performed.create(step)
        if answer is StepAnswer.DUPLICATE:
            raise Refused(DUPLICATE, "this performed procedure step exists already")
        return SUCCESS, None if given else _named(sop_uid)

    def _changed(self, event: evt.Event) -> Handled:
        change = read_change(_told(lambda: event.modification_list))
        sop_uid = str(cast("N_SET", event.request).RequestedSOPInstanceUID)
        with self._store.begin() as work:
            answer = work.performed.change(sop_uid, change)
        if answer is StepAnswer.UNKNOWN:
            raise Refused(NO_SUCH_INSTANCE, "this performed procedure step was never created")
        if answer is StepAnswer.FINAL:
            raise Refused(PROCESSING_FAILURE, NO_LONGER, NO_LONGER_ID)
        if change.status is not None and change.status.is_final:
            self._bell.ring(Step.ASSEMBLE)
        return SUCCESS, None


def read_step(ds: Dataset, sop_uid: str, calling_aet: str) -> PerformedStep:
    """The step that an N-CREATE describes. Of the attributes of PS3.4 Table F.7.2-1 it needs the status and the study; raises Refused."""
    status = _status(ds)
    if status is None:
        raise Refused(MISSING, "PerformedProcedureStepStatus is missing")
    if status is not StepStatus.IN_PROGRESS:
        raise Refused(INVALID_VALUE, "PerformedProcedureStepStatus must be IN PROGRESS at N-CREATE")
    return PerformedStep(
        sop_uid=sop_uid,
        status=status,
        calling_aet=calling_aet,
        modality=text(ds, "Modality") or "",
        study_uids=_studies(ds),
        expected=_expected(ds) or (),
        started_at=_moment(ds, "Start"),
        ended_at=_moment(ds, "End"),
    )


def read_change(ds: Dataset) -> StepChange:
    """What an N-SET changes; raises Refused."""
    return StepChange(_status(ds), _expected(ds), _moment(ds, "End"))


def _told(decode: Callable[[], Dataset]) -> Dataset:
    try:
        return decode()
    except FAULTS as error:
        raise Refused(PROCESSING_FAILURE, f"the data set cannot be read ({type(error).__name__})") from None


def _status(ds: Dataset) -> StepStatus | None:
    said = text(ds, "PerformedProcedureStepStatus")
    if said is None:
        return None
    if not said:
        raise Refused(MISSING_VALUE, "PerformedProcedureStepStatus is empty")
    try:
        return StepStatus(said)
    except ValueError:
        raise Refused(INVALID_VALUE, "PerformedProcedureStepStatus is none of the three of the standard") from None


def _studies(ds: Dataset) -> tuple[str, ...]:
    """Study Instance UIDs of the Scheduled Step Attributes Sequence: without one, the step says nothing about any study."""
    scheduled = _items(ds, "ScheduledStepAttributesSequence")
    if scheduled is None:
        raise Refused(MISSING, "ScheduledStepAttributesSequence is missing")
    said = [text(item, "StudyInstanceUID") for item in scheduled]
    if not said or None in said:
        raise Refused(MISSING, "StudyInstanceUID of a scheduled step is missing")
    uids = tuple(dict.fromkeys(uid or "" for uid in said))
    if "" in uids:
        raise Refused(MISSING_VALUE, "StudyInstanceUID of a scheduled step is empty")
    if not all(len(uid) <= 64 and UID.fullmatch(uid) for uid in uids):
        raise Refused(INVALID_VALUE, "StudyInstanceUID of a scheduled step is no UID")
    return uids


def _expected(ds: Dataset) -> tuple[str, ...] | None:
    """SOPInstanceUIDs of images and other objects, each once, in the order of the Performed Series Sequence; None when it is absent."""
    performed = _items(ds, "PerformedSeriesSequence")
    return None if performed is None else tuple(dict.fromkeys(uid for series in performed for uid in _references(series)))


def _references(series: Dataset) -> Iterator[str]:
    for keyword in ("ReferencedImageSequence", "ReferencedNonImageCompositeSOPInstanceSequence"):
        for item in _items(series, keyword) or ():
            if uid := text(item, "ReferencedSOPInstanceUID"):
                yield uid


def _items(ds: Dataset, keyword: str) -> tuple[Dataset, ...] | None:
    try:
        return items(ds, keyword)
    except BadInput as error:
        raise Refused(INVALID_VALUE, str(error)) from None


def _moment(ds: Dataset, which: str) -> datetime | None:
    """Start or end as the modality says it; the zone is TimezoneOffsetFromUTC, else this machine's. None when it is odd."""
    day, time = (text(ds, f"PerformedProcedureStep{which}{part}") or "" for part in ("Date", "Time"))
    found = MOMENT.fullmatch(day + time.split(".")[0].ljust(6, "0"))
    if found is None:
        return None
    try:
        return datetime.strptime("".join(found.groups()) + (text(ds, "TimezoneOffsetFromUTC") or "+"), "%Y%m%d%H%M%S%z")
    except ValueError:
        pass
    try:
        return datetime.strptime("".join(found.groups()), "%Y%m%d%H%M%S").astimezone()
    except (ValueError, OverflowError, OSError):
        return None


def _named(sop_uid: str) -> Dataset:
    """The Attribute List that names an instance which the request left to us (PS3.7 10.1.5.1.4)."""
    ds = Dataset()
    ds.AffectedSOPInstanceUID = sop_uid
    return ds
