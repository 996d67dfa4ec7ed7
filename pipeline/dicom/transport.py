"""The TCP side of the listener: sockets that read whole PDUs and no more than a PDU may hold, and a server whose peers cannot stall it.

The library reads 4 KiB at a time, believes any length up to 4 GiB and waits for a slow peer as long as it likes. A PeerSocket knows where
PDUs begin and end: it refuses lengths that nobody may send, ends a PDU that takes too long, and gives all that is there of a PDU, never
more (the library asks select() between PDUs).
"""

from __future__ import annotations

import select
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from socketserver import TCPServer
from typing import Any, Protocol

from pynetdicom.transport import ThreadedAssociationServer

from pipeline import log

logger = log.get(__name__)
PDU_HEADER = struct.Struct(">BBL")  # type, reserved, length of the rest (PS3.8 9.3.1)
P_DATA_TF = 0x04
PDU_TYPES = range(1, 8)
NEGOTIATION_BYTES = 1 << 20  # A-ASSOCIATE-RQ with hundreds of presentation contexts is some 100 KiB
READ_BYTES = 1 << 18


class PduGuard:
    """Where a connection stands in the stream of PDUs. Mixed into a socket class, whose own recv() it uses."""

    max_pdu_bytes = 1 << 17
    pdu_timeout_s = 60.0
    bytes_per_s: float | None = None
    patience_s = 0.0  # how long the library's look for data may wait for some; see fileno()

    _header = b""
    _left = 0  # bytes of this PDU that are still to come
    _deadline = 0.0

    def received(self, most: int) -> bytes:
        """The next bytes of the current PDU: of its header at most as many as were asked for, of its body as many as are there. The library asks for
        4 KiB until it has the body and takes more as well. Raises OSError for a PDU that nobody may send or that takes too long."""
        if self._left == 0:
            return self._begin(most)
        data = self._read(min(READ_BYTES, self._left))
        self._left -= len(data)
        return data

    def _begin(self, most: int) -> bytes:
        """The bytes of a header, at most those that it lacks."""
        if not self._header:
            self._deadline = time.monotonic() + self.pdu_timeout_s
        data = self._read(min(most, PDU_HEADER.size - len(self._header)))
        self._header += data
        if len(self._header) == PDU_HEADER.size:
            kind, _, self._left = PDU_HEADER.unpack(self._header)
            self._header = b""
            if kind not in PDU_TYPES:
                self._left = 0  # the library reads what follows as the next header, so we must as well
            limit = self.max_pdu_bytes if kind == P_DATA_TF else NEGOTIATION_BYTES
            if self._left > limit:
                logger.warning("pdu_too_long", bytes=self._left, limit=limit)
                raise ConnectionAbortedError("a PDU is longer than we accept")
        return data

    def _read(self, most: int) -> bytes:
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            logger.warning("pdu_too_slow", timeout_s=self.pdu_timeout_s)
            raise TimeoutError("a PDU takes too long")
        data = self.read_now(most, left_s)
        if self.bytes_per_s:
            time.sleep(len(data) / self.bytes_per_s)
        return data

    def read_now(self, most: int, timeout_s: float) -> bytes:
        """One read of the connection itself."""
        raise OSError("no connection")


class PeerSocket(PduGuard, socket.socket):
    """A plain connection from a peer."""

    def fileno(self) -> int:
        """Asked by the library's select() before each look for data. It looks once and then sleeps for 1 ms, so every image would wait for that;
        between two images of a stream the waiting is done here, where data ends it at once."""
        if self.patience_s > 0 and super().fileno() >= 0:
            data = select.poll()
            data.register(super().fileno(), select.POLLIN)
            data.poll(self.patience_s * 1000)
        return super().fileno()

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """See PduGuard."""
        return self.received(bufsize)

    def read_now(self, most: int, timeout_s: float) -> bytes:
        """One read; the acknowledgement leaves at once, so that a sender with Nagle's algorithm on does not wait 40 ms for it."""
        self.settimeout(timeout_s)
        if QUICKACK is not None:
            self.setsockopt(socket.IPPROTO_TCP, QUICKACK, 1)
        return super().recv(most)


class TlsPeerSocket(PduGuard, ssl.SSLSocket):
    """A TLS connection from a peer."""

    def recv(self, buflen: int = 1024, flags: int = 0) -> bytes:
        """See PduGuard."""
        return self.received(buflen)

    def read_now(self, most: int, timeout_s: float) -> bytes:
        """One read."""
        self.settimeout(timeout_s)
        return super().recv(most)


QUICKACK: int | None = getattr(socket, "TCP_QUICKACK", None)


class Limits(Protocol):
    """What the server asks of the listener's settings."""

    max_pdu_bytes: int
    network_timeout_s: float
    max_connections: int


class PeerServer(ThreadedAssociationServer):
    """Accepts peers on a socket that was bound before, maybe shared with other processes. Nothing that a peer does holds up the accept loop."""

    request_queue_size = 128
    daemon_threads = True

    def __init__(
        self,
        *args: Any,  # Any: passed on as they are
        bound: socket.socket,
        limits: Limits,
        admits: Callable[[str], bool],
        tls: Callable[[], ssl.SSLContext] | None,
        **kwargs: Any,  # Any: passed on as they are
    ) -> None:
        self._bound, self._limits, self._admits, self._tls = bound, limits, admits, tls
        self._preparing: set[int] = set()  # threads in a TLS handshake: their connections have no association yet
        super().__init__(*args, **kwargs)

    def server_bind(self) -> None:
        """Take the bound socket in place of our own."""
        assert self.socket is not None
        self.socket.close()
        self.socket = self._bound.dup()
        self.socket.setblocking(False)  # another process may have taken the peer that woke us
        self.server_address = self.socket.getsockname()

    def get_request(self) -> tuple[socket.socket, Any]:
        """Accept one peer. Raises OSError when another process was faster."""
        assert self.socket is not None
        accepted, address = self.socket.accept()
        accepted.setblocking(True)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return PeerSocket(fileno=accepted.detach()), address

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Close unknown hosts, and everybody beyond the limit of connections, before a byte is read."""
        host = str(client_address[0])
        if not self._admits(host):
            logger.warning("peer_refused", host=host)
            return False
        if len(self.active_associations) + len(self._preparing) >= self._limits.max_connections:
            logger.warning("peer_refused", host=host, reason="too many connections", limit=self._limits.max_connections)
            return False
        return True

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """On a thread of its own: TLS handshake where it is on, then the association."""
        own = threading.get_ident()
        self._preparing.add(own)
        try:
            request = self._prepared(request)
        except (OSError, ssl.SSLError) as error:
            logger.warning("tls_refused", host=str(client_address[0]), reason=type(error).__name__)
            self.shutdown_request(request)
            return
        finally:
            self._preparing.discard(own)
        super().process_request_thread(request, client_address)

    def _prepared(self, request: socket.socket) -> PeerSocket | TlsPeerSocket:
        prepared: Any = request
        request.settimeout(self._limits.network_timeout_s)
        if self._tls is not None:
            context = self._tls()
            context.sslsocket_class = TlsPeerSocket
            prepared = context.wrap_socket(request, server_side=True, do_handshake_on_connect=False)
            try:
                prepared.do_handshake()
            except OSError:
                prepared.close()  # wrapping has taken the connection over from `request`
                raise
        prepared.max_pdu_bytes = self._limits.max_pdu_bytes + PDU_HEADER.size
        prepared.pdu_timeout_s = self._limits.network_timeout_s
        checked: PeerSocket | TlsPeerSocket = prepared
        return checked

    def service_actions(self) -> None:
        """The library collects garbage every minute here, which stops every association; Python's own collector finds ended ones too."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that was gone before it was served is not worth a traceback."""
        logger.warning("peer_failed", host=str(client_address[0]))

    def shutdown(self) -> None:
        """Stop listening without touching running associations; the library's own version expects to be started by its AE."""
        TCPServer.shutdown(self)
        self.server_close()

    def server_close(self) -> None:
        """Close our copy only: the library would shut the shared socket down for every process."""
        if self.socket is not None:
            self.socket.close()


def bind(host: str, port: int, patience_s: float = 0.0) -> socket.socket:
    """A listening socket. Raises OSError when the address cannot be had within `patience_s`: a predecessor may be about to end."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return socket.create_server((host, port), family=family, backlog=PeerServer.request_queue_size)
        except OSError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.1)
