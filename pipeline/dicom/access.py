"""Who may associate: networks before a byte is read, AE titles and numbers of associations before negotiation (PS3.8 9.3.4)."""

from __future__ import annotations

import ipaddress
import ssl
import threading
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pynetdicom import evt

from pipeline import log, metrics
from pipeline.dicom.peer import Address
from pipeline.dicom.slots import Slot, Slots

if TYPE_CHECKING:
    from pynetdicom.association import Association
    from pynetdicom.pdu_primitives import A_ASSOCIATE

    from pipeline.settings import AccessSettings, Peer

logger = log.get(__name__)
ANY = "*"
IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class Rejection(Enum):
    """A-ASSOCIATE-RJ: result, source, reason (PS3.8 Table 9-21)."""

    CALLING_AET = (1, 1, 3)  # permanent, service user, calling AE title not recognised
    CALLED_AET = (1, 1, 7)  # permanent, service user, called AE title not recognised
    LIMIT = (2, 3, 2)  # transient, presentation related, local limit exceeded


class Access:
    """The list of peers of one listener; several processes share `folder` to count a remote's associations together."""

    def __init__(self, settings: AccessSettings, aet: str, folder: Path, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._settings, self._aet, self._tls = settings, aet, tls
        self._slots = Slots(folder)
        self._taken: dict[Association, Slot] = {}
        self._lock = threading.Lock()

    def admits(self, host: str) -> bool:
        """False for an address outside every peer's network; then the connection is closed before a byte is read."""
        peers, address = self._settings.peers, plain_address(host)
        if peers is None or (address is not None and any(address in peer.network for peer in peers)):
            return True
        metrics.REFUSED_ASSOCIATIONS.labels("network").inc()
        return False

    def requested(self, event: evt.Event) -> None:
        """EVT_REQUESTED, before negotiation: reject whom the list does not name or whose places are taken."""
        assoc: Association = event.assoc
        request = cast("A_ASSOCIATE", assoc.requestor.primitive)
        calling, called = str(request.calling_ae_title).strip(), str(request.called_ae_title).strip()
        host = assoc.requestor.address or ""
        rejection = self._rejection(assoc, host, calling, called)
        if rejection is not None:
            metrics.REFUSED_ASSOCIATIONS.labels(rejection.name.lower()).inc()
            logger.warning("association_refused", reason=rejection.name.lower(), host=host)
            reject(assoc, rejection)

    def bytes_per_s(self, host: str, aet: str) -> float | None:
        """How fast this peer may send; None: as fast as it can."""
        peer = self._peer(host, aet)
        return None if peer is None or peer.mb_per_s is None else peer.mb_per_s * 1e6

    def report_to(self, aet: str) -> Address | None:
        """Where the peer of this AE title takes event reports."""
        named = (peer.report_to for peer in self._settings.peers or () if peer.aet == aet and peer.report_to is not None)
        where = next(named, None)
        return None if where is None else Address(where.host, where.port, self._tls if where.tls else None)

    def _rejection(self, assoc: Association, host: str, calling: str, called: str) -> Rejection | None:
        if self._settings.check_called_aet and called != self._aet:
            return Rejection.CALLED_AET
        peer = self._peer(host, calling)
        if self._settings.peers is not None and peer is None:
            return Rejection.CALLING_AET
        limit = peer.associations if peer is not None and peer.associations is not None else self._settings.associations_per_host
        key = f"{peer.aet if peer is not None else ANY} {host}"
        return None if limit is None or self._take(assoc, key, limit) else Rejection.LIMIT

    def _peer(self, host: str, aet: str) -> Peer | None:
        """The entry that names the title before one for any title; among equals the first."""
        address = plain_address(host)
        peers = [peer for peer in self._settings.peers or () if address is not None and address in peer.network and peer.aet in (aet, ANY)]
        return min(peers, key=lambda peer: peer.aet == ANY, default=None)

    def _take(self, assoc: Association, key: str, limit: int) -> bool:
        """Take a place until the association ends."""
        self._free_dead()
        try:
            slot = self._slots.take(key, limit)
        except OSError as error:  # what cannot be counted is not limited: images are worth more
            logger.error("access_not_counted", error=type(error).__name__)
            return True
        if slot is None:
            return False
        with self._lock:
            self._taken[assoc] = slot
        for end in (evt.EVT_RELEASED, evt.EVT_ABORTED, evt.EVT_REJECTED, evt.EVT_CONN_CLOSE):
            assoc.bind(end, self._ended)
        return True

    def _ended(self, event: evt.Event) -> None:
        with self._lock:
            slot = self._taken.pop(event.assoc, None)
        if slot is not None:
            slot.release()

    def _free_dead(self) -> None:
        """Places of associations whose thread ended without an event."""
        with self._lock:
            slots = [self._taken.pop(assoc) for assoc in [assoc for assoc in self._taken if not assoc.is_alive()]]
        for slot in slots:
            slot.release()


def reject(assoc: Association, rejection: Rejection) -> None:
    """Answer A-ASSOCIATE-RJ and end the association's threads. To be called from EVT_REQUESTED."""
    assoc.acse.send_reject(*rejection.value)
    evt.trigger(assoc, evt.EVT_REJECTED, {})
    assoc.kill()  # waits until the answer has left


def plain_address(host: str) -> IpAddress | None:
    """The address without its zone; IPv4 in IPv6's clothes is IPv4. None for what is no address."""
    try:
        address = ipaddress.ip_address(host.split("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address
