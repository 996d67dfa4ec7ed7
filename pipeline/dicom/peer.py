"""An association that we open to a peer in order to report to it (PS3.4 J.1.1: the SCP of a service may be the association's requestor)."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydicom.dataset import Dataset
from pydicom.uid import ExplicitVRLittleEndian, ImplicitVRLittleEndian
from pynetdicom import AE, build_context, build_role

from pipeline.dicom.file_meta import IMPLEMENTATION_CLASS_UID, IMPLEMENTATION_VERSION_NAME
from pipeline.errors import ServiceUnavailable

if TYPE_CHECKING:
    from pynetdicom.association import Association

CONNECT_S = 10.0  # longest wait for a connection and for its acceptance; a listener that stops waits for them


@dataclass(frozen=True, slots=True)
class Address:
    """Where a peer listens. `tls` gives the context to call it with; None: plain TCP."""

    host: str
    port: int
    tls: Callable[[], ssl.SSLContext] | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """One N-EVENT-REPORT."""

    sop_class: str
    sop_uid: str
    event_type: int
    information: Dataset


class Caller:
    """Opens associations to peers; `close()` aborts those under way."""

    def __init__(self, aet: str, timeout_s: float) -> None:
        self._aet, self._timeout_s = aet, timeout_s
        self._lock = threading.Lock()
        self._under_way: set[Association] = set()
        self._closed = False

    def report(self, address: Address, aet: str, report: Report) -> int:
        """Send one event report as SCP; returns the peer's status. Raises ServiceUnavailable."""
        assoc = self._associate(address, aet, report.sop_class)
        try:
            answer, _ = assoc.send_n_event_report(report.information, report.event_type, report.sop_class, report.sop_uid)
        except (RuntimeError, ValueError) as error:  # the association ended in between, or has no such context
            raise ServiceUnavailable(f"the peer at {address.host}:{address.port} ended the association ({type(error).__name__})") from None
        finally:
            self._end(assoc)
        if "Status" not in answer:
            raise ServiceUnavailable(f"the peer at {address.host}:{address.port} gave no answer within {self._timeout_s:.0f} s")
        return int(answer.Status)

    def close(self) -> None:
        """Abort what is under way; nothing is opened any more."""
        with self._lock:
            self._closed = True
            under_way = list(self._under_way)
        for assoc in under_way:
            assoc.abort()

    def _associate(self, address: Address, aet: str, sop_class: str) -> Association:
        ae = AE(self._aet)
        ae.implementation_class_uid, ae.implementation_version_name = IMPLEMENTATION_CLASS_UID, IMPLEMENTATION_VERSION_NAME
        ae.connection_timeout = ae.acse_timeout = min(self._timeout_s, CONNECT_S)
        ae.dimse_timeout = ae.network_timeout = self._timeout_s
        context = build_context(sop_class, [ExplicitVRLittleEndian, ImplicitVRLittleEndian])
        role = build_role(sop_class, scu_role=False, scp_role=True)
        tls = None if address.tls is None else (address.tls(), address.host)
        if self._closed:
            raise ServiceUnavailable("this listener is stopping; the report is sent after its next start")
        assoc = ae.associate(address.host, address.port, contexts=[context], ae_title=aet, ext_neg=[role], tls_args=tls)
        with self._lock:
            self._under_way.add(assoc)
        if not assoc.is_established:
            self._end(assoc)
            raise ServiceUnavailable(f"the peer at {address.host}:{address.port} does not accept an association for event reports")
        return assoc

    def _end(self, assoc: Association) -> None:
        with self._lock:
            self._under_way.discard(assoc)
        if assoc.is_established:
            assoc.release()
