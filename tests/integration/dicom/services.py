"""A listener with storage commitment, MPPS, access and TLS, and peers that ask it: SCUs that hear event reports on either association."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydicom.config import IGNORE
from pydicom.datadict import dictionary_VR, tag_for_keyword
from pydicom.dataelem import DataElement
from pydicom.dataset import Dataset
from pydicom.sequence import Sequence as Items
from pydicom.uid import ExplicitVRLittleEndian
from pynetdicom import AE, build_context, evt
from pynetdicom.association import Association
from pynetdicom.sop_class import (  # type: ignore[attr-defined]  # generated at import
    ModalityPerformedProcedureStep,
    StorageCommitmentPushModel,
    StorageCommitmentPushModelInstance,
)

from pipeline.dicom.access import Access
from pipeline.dicom.archive import FileArchive
from pipeline.dicom.commitment import StorageCommitment
from pipeline.dicom.headers import read_header
from pipeline.dicom.ledger import FileLedger
from pipeline.dicom.listener import Listener
from pipeline.dicom.listener import Site as Around
from pipeline.dicom.mpps import PerformedProcedureSteps
from pipeline.dicom.offered import SOP_CLASSES
from pipeline.flow.receive import Receiving
from pipeline.settings import AccessSettings, CommitSettings, ListenerSettings
from pipeline.store.session import PgStore
from tests.builders import Bell
from tests.integration.dicom.conftest import CT, Site

AET = "MODALITY"
Reference = tuple[str, str]


@contextmanager
def services(
    root: Path,
    url: str,
    *,
    peers: Sequence[dict[str, object]] | None = None,
    tls: Callable[[], ssl.SSLContext] | None = None,
    calls: Callable[[], ssl.SSLContext] | None = None,
    access: dict[str, Any] | None = None,
    round_s: float = 0.1,
    commit: dict[str, Any] | None = None,
    **settings: Any,
) -> Iterator[Site]:
    """A running listener with every service."""
    archive, bell = FileArchive(root, 0), Bell()
    store = PgStore(url, connect_timeout_s=2)
    ledger = FileLedger(root / "ledger", "listener")
    room = ListenerSettings(port=0, **settings)
    allowed = Access(AccessSettings.model_validate({"peers": peers, **(access or {})}), room.aet, root / "slots", calls)
    delays = {"timeout_s": 5.0, "retry_delay_s": 0.1, **(commit or {})}
    commitment = StorageCommitment(
        store, archive, CommitSettings(**delays), room.aet, allowed.report_to, frozenset(map(str, SOP_CLASSES)), round_s=round_s
    )
    around = Around(services=(commitment, PerformedProcedureSteps(store, bell)), access=allowed, tls=tls)
    listener = Listener(room, Receiving(store, archive, ledger, read_header), archive, store, bell, around)
    listener.start()
    try:
        yield Site(root, url, store, archive, bell, listener)
    finally:
        listener.stop(grace_s=1.0)
        ledger.close()
        store.dispose()


@dataclass
class Reported:
    """One event report that a peer heard."""

    event_type: int
    transaction_uid: str
    committed: set[Reference]
    failed: dict[Reference, int]


@dataclass
class Modality:
    """An SCU of storage commitment; `answers` is what it answers to reports."""

    reports: list[Reported] = field(default_factory=list)
    answer: int = 0x0000
    heard: threading.Event = field(default_factory=threading.Event)

    def hear(self, event: evt.Event) -> tuple[int, None]:
        """EVT_N_EVENT_REPORT."""
        ds = event.event_information
        committed = {(str(item.ReferencedSOPClassUID), str(item.ReferencedSOPInstanceUID)) for item in ds.get("ReferencedSOPSequence", [])}
        failed = {
            (str(item.ReferencedSOPClassUID), str(item.ReferencedSOPInstanceUID)): int(item.FailureReason) for item in ds.get("FailedSOPSequence", [])
        }
        assert event.event_type is not None
        self.reports.append(Reported(event.event_type, str(ds.TransactionUID), committed, failed))
        self.heard.set()
        return self.answer, None

    def associate(self, port: int, *more: str, aet: str = AET, tls: ssl.SSLContext | None = None) -> Association:
        """An association for storage commitment, and for `more` SOP classes in explicit VR."""
        ae = AE(aet)
        ae.connection_timeout = ae.acse_timeout = ae.dimse_timeout = 10
        wanted = [build_context(StorageCommitmentPushModel)]
        wanted += [build_context(sop_class, ExplicitVRLittleEndian) for sop_class in more]
        hears: list[evt.EventHandlerType] = [(evt.EVT_N_EVENT_REPORT, self.hear)]
        assoc = ae.associate("127.0.0.1", port, contexts=wanted, evt_handlers=hears, tls_args=(tls, "127.0.0.1") if tls else None)
        assert assoc.is_established
        return assoc

    @contextmanager
    def listening(self, port: int = 0, aet: str = AET, tls: ssl.SSLContext | None = None) -> Iterator[int]:
        """Take reports over associations that others open to this peer; yields the port."""
        ae = AE(aet)
        ae.require_called_aet = True
        ae.add_supported_context(StorageCommitmentPushModel, scu_role=True, scp_role=True)
        server = ae.start_server(("127.0.0.1", port), block=False, evt_handlers=[(evt.EVT_N_EVENT_REPORT, self.hear)], ssl_context=tls)
        assert server is not None
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()


def action(transaction_uid: str | None, references: Sequence[Reference] | None) -> Dataset:
    """Action Information."""
    ds = Dataset()
    if transaction_uid is not None:
        ds.TransactionUID = transaction_uid
    if references is not None:
        ds.ReferencedSOPSequence = Items([_reference(*reference) for reference in references])
    return ds


def ask(assoc: Association, ds: Dataset | None, action_type: int = 1, instance: str = StorageCommitmentPushModelInstance) -> int:
    """The status of an N-ACTION."""
    status, _ = assoc.send_n_action(ds, action_type, StorageCommitmentPushModel, instance)
    return int(status.Status)


def _reference(sop_class: str, sop_uid: str) -> Dataset:
    item = Dataset()
    item.ReferencedSOPClassUID, item.ReferencedSOPInstanceUID = sop_class, sop_uid
    return item


def step(study_uid: str, **keywords: object) -> Dataset:
    """What an N-CREATE of a performed procedure step holds at least."""
    ds, scheduled = Dataset(), Dataset()
    put(scheduled, "StudyInstanceUID", study_uid)
    ds.ScheduledStepAttributesSequence = Items([scheduled])
    ds.PerformedProcedureStepStatus, ds.Modality, ds.PerformedProcedureStepID = "IN PROGRESS", "CT", "P1"
    ds.PerformedStationAETitle, ds.PerformedProcedureStepStartDate, ds.PerformedProcedureStepStartTime = AET, "20260115", "101530"
    for keyword, value in keywords.items():
        put(ds, keyword, value)
    return ds


def put(ds: Dataset, keyword: str, value: object) -> None:
    """Set a value that need not be a valid one."""
    tag = tag_for_keyword(keyword)
    assert tag is not None
    ds.add(DataElement(tag, dictionary_VR(tag), value, validation_mode=IGNORE))


def done(*sop_uids: str, other: Sequence[str] = (), status: str = "COMPLETED") -> Dataset:
    """What the last N-SET holds: the images and other objects that were made."""
    ds, series = Dataset(), Dataset()
    ds.PerformedProcedureStepStatus = status
    ds.PerformedProcedureStepEndDate, ds.PerformedProcedureStepEndTime = "20260115", "102000"
    series.ReferencedImageSequence = Items([_reference(CT, uid) for uid in sop_uids])
    series.ReferencedNonImageCompositeSOPInstanceSequence = Items([_reference("1.2.840.10008.5.1.4.1.1.88.67", uid) for uid in other])
    ds.PerformedSeriesSequence = Items([series])
    return ds


def speak_mpps(port: int) -> Association:
    """An association for MPPS."""
    ae = AE(AET)
    assoc = ae.associate("127.0.0.1", port, contexts=[build_context(ModalityPerformedProcedureStep)])
    assert assoc.is_established
    return assoc
