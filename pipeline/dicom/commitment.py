"""Storage Commitment Push Model SCP (PS3.4 Annex J): a request is a committed row before it is answered; `reporting.py` does the rest."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, cast

from pydicom.dataset import Dataset
from pynetdicom import evt
from pynetdicom.sop_class import StorageCommitmentPushModel, StorageCommitmentPushModelInstance  # type: ignore[attr-defined]  # generated at import

from pipeline import log
from pipeline.dicom.commitment_report import read_request
from pipeline.dicom.elements import FAULTS
from pipeline.dicom.outlet import Outlets
from pipeline.dicom.peer import Address
from pipeline.dicom.reporting import Reporting
from pipeline.dicom.response import failed_at, response
from pipeline.errors import BadInput, ServiceUnavailable
from pipeline.ports import Archive, Store

if TYPE_CHECKING:
    from pynetdicom.dimse_primitives import N_ACTION

    from pipeline.settings import CommitSettings

logger = log.get(__name__)
SUCCESS, PROCESSING_FAILURE, NO_SUCH_INSTANCE = 0x0000, 0x0110, 0x0112  # PS3.7 Annex C
INVALID_ARGUMENT, NO_SUCH_ACTION, RESOURCE_LIMITATION = 0x0115, 0x0123, 0x0213
REQUEST = 1  # Action Type ID, PS3.4 Table J.3-1
ENDS = (evt.EVT_REJECTED, evt.EVT_RELEASED, evt.EVT_ABORTED, evt.EVT_CONN_CLOSE)


class StorageCommitment:
    """A service of the listener. `addresses` says where an AE title takes reports; `supported` holds the SOP classes that we keep."""

    sop_classes: tuple[str, ...] = (StorageCommitmentPushModel,)

    def __init__(
        self,
        store: Store,
        archive: Archive,
        settings: CommitSettings,
        aet: str,
        addresses: Callable[[str], Address | None],
        supported: Container[str],
        round_s: float = 5.0,
    ) -> None:
        self._store, self._outlets = store, Outlets()
        self._reporting = Reporting(store, archive, settings, aet, addresses, supported, self._outlets, round_s)

    def handlers(self) -> list[evt.EventHandlerType]:
        """What the listener binds."""
        return [
            (evt.EVT_REQUESTED, self._requested),
            (evt.EVT_ESTABLISHED, self._established),
            (evt.EVT_N_ACTION, self._action),
            *((end, self._ended) for end in ENDS),
        ]

    def start(self) -> None:
        """Begin to report."""
        self._reporting.start()

    def stop(self) -> None:
        """Let go; what is not reported waits in its row."""
        self._reporting.stop()

    def _requested(self, event: evt.Event) -> None:
        """EVT_REQUESTED: an association that speaks of commitments is followed from its first message on."""
        wanted = {str(context.abstract_syntax) for context in event.assoc.requestor.requested_contexts}
        if not event.assoc.is_rejected and not wanted.isdisjoint(self.sop_classes):
            self._outlets.begin(event.assoc)

    def _established(self, event: evt.Event) -> None:
        """EVT_ESTABLISHED: this peer may be owed reports."""
        outlet = self._outlets.get(event.assoc)
        if outlet is not None and any(context.abstract_syntax in self.sop_classes for context in event.assoc.accepted_contexts):
            self._reporting.submit(self._reporting.catch_up, event.assoc.requestor.ae_title.strip(), outlet)

    def _ended(self, event: evt.Event) -> None:
        self._outlets.end(event.assoc)

    def _action(self, event: evt.Event) -> tuple[Dataset | int, None]:
        """EVT_N_ACTION. No exception leaves it."""
        try:
            return self._asked(event), None
        except BadInput as error:
            return response(INVALID_ARGUMENT, str(error)), None
        except ServiceUnavailable as error:
            logger.warning("commit_refused", reason=str(error))
            return response(RESOURCE_LIMITATION, "no database now; ask again later"), None
        except Exception as error:  # noqa: BLE001  # the listener's handler: nothing was promised, and the peer may ask again
            logger.error("commit_failed", error=type(error).__name__, **failed_at(error))
            return response(PROCESSING_FAILURE, "an error of this listener; ask again later"), None

    def _asked(self, event: evt.Event) -> Dataset | int:
        if event.action_type != REQUEST:
            return response(NO_SUCH_ACTION, "Action Type ID 1 is the only one")
        if cast("N_ACTION", event.request).RequestedSOPInstanceUID != StorageCommitmentPushModelInstance:
            return response(NO_SUCH_INSTANCE, "not the well-known Storage Commitment Push Model instance")
        try:
            information = event.action_information
        except FAULTS as error:
            raise BadInput(f"the Action Information cannot be read ({type(error).__name__})") from None
        transaction_uid, references = read_request(information)
        peer, outlet = event.assoc.requestor, self._outlets.get(event.assoc)
        association = outlet.association if outlet is not None else uuid.uuid4()
        with self._store.begin() as work:
            host = peer.address or ""
            commitment = work.commitments.ask(transaction_uid, peer.ae_title.strip(), host, references, association, self._reporting.lease())
        if commitment is not None:
            self._reporting.submit(self._reporting.work, commitment, outlet)
        return SUCCESS
