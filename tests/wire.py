"""A DICOM requestor written by hand (PS3.8 9.3, PS3.7 9.3): it says exactly the bytes that a test wants said, right or wrong."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

VERIFICATION = "1.2.840.10008.1.1"
CT = "1.2.840.10008.5.1.4.1.1.2"
IMPLICIT_LE, EXPLICIT_LE = "1.2.840.10008.1.2", "1.2.840.10008.1.2.1"
ASSOCIATE_RQ, ASSOCIATE_AC, ASSOCIATE_RJ, P_DATA, RELEASE_RQ, RELEASE_RP, ABORT = range(1, 8)
COMMAND, LAST = 0x01, 0x02  # message control header, PS3.8 E.2
C_STORE_RQ, C_ECHO_RQ = 0x0001, 0x0030
NO_DATA_SET = 0x0101
FRAGMENT = 65_536
DEADLINE_S = 20.0
Kind = tuple[str, ...]  # abstract syntax, then the transfer syntaxes offered for it


def pdu(kind: int, body: bytes, length: int | None = None) -> bytes:
    """One PDU; `length` is what its header claims, the true one without it."""
    return struct.pack(">BxL", kind, len(body) if length is None else length) + body


def item(kind: int, body: bytes) -> bytes:
    """One item of an A-ASSOCIATE PDU."""
    return struct.pack(">BxH", kind, len(body)) + body


def context(number: int, abstract: str, *transfer: str) -> bytes:
    """A presentation context item."""
    syntaxes = b"".join(item(0x40, syntax.encode()) for syntax in transfer)
    return item(0x20, struct.pack(">Bxxx", number) + item(0x30, abstract.encode()) + syntaxes)


def associate_rq(contexts: Iterable[bytes], *, called: str = "CTREPORT", calling: str = "WIRE", max_pdu: int = 131_072) -> bytes:
    """A whole A-ASSOCIATE-RQ."""
    user = item(0x51, struct.pack(">L", max_pdu)) + item(0x52, b"2.25.1") + item(0x55, b"WIRE")
    fixed = struct.pack(">Hxx16s16s32x", 1, called.encode().ljust(16), calling.encode().ljust(16))
    return pdu(ASSOCIATE_RQ, fixed + item(0x10, b"1.2.840.10008.3.1.1.1") + b"".join(contexts) + item(0x50, user))


def pdv(number: int, control: int, fragment: bytes, length: int | None = None) -> bytes:
    """One presentation data value item; `length` is what it claims."""
    return struct.pack(">LBB", len(fragment) + 2 if length is None else length, number, control) + fragment


def p_data(*items: bytes) -> bytes:
    """A P-DATA-TF of PDVs."""
    return pdu(P_DATA, b"".join(items))


def command(*elements: tuple[int, bytes]) -> bytes:
    """A command set: (element number, value) in group 0000, implicit VR little endian."""
    body = b"".join(struct.pack("<HHL", 0, number, len(value)) + value for number, value in elements)
    return struct.pack("<HHLL", 0, 0, 4, len(body)) + body


def c_store_rq(sop_class: str, sop_uid: str, message: int = 1) -> bytes:
    """The command set of a C-STORE request (PS3.7 Table 9.3-1)."""
    return command(
        (0x0002, uid(sop_class)),
        (0x0100, struct.pack("<H", C_STORE_RQ)),
        (0x0110, struct.pack("<H", message)),
        (0x0700, struct.pack("<H", 0)),
        (0x0800, struct.pack("<H", 1)),
        (0x1000, uid(sop_uid)),
    )


def c_echo_rq(message: int = 1) -> bytes:
    """The command set of a C-ECHO request (PS3.7 Table 9.3-12)."""
    numbers = ((0x0100, C_ECHO_RQ), (0x0110, message), (0x0800, NO_DATA_SET))
    return command((0x0002, uid(VERIFICATION)), *((number, struct.pack("<H", value)) for number, value in numbers))


def uid(value: str) -> bytes:
    """A UID, padded to even length."""
    return value.encode() + b"\0" * (len(value) % 2)


RELEASE = pdu(RELEASE_RQ, bytes(4))
USER_ABORT = pdu(ABORT, bytes(4))


def connect(port: int, timeout_s: float = DEADLINE_S, tls: ssl.SSLContext | None = None) -> socket.socket:
    """A TCP connection over which nothing was said yet, but for a TLS handshake where a context is given."""
    made = socket.create_connection(("127.0.0.1", port), timeout_s)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if tls is None:
        return made
    try:
        return tls.wrap_socket(made)
    except BaseException:
        made.close()
        raise


def read_pdu(sock: socket.socket) -> tuple[int, bytes] | None:
    """The next PDU's type and body; None where the peer closed or reset the connection. Raises TimeoutError."""
    with contextlib.suppress(ConnectionError):
        head = _exactly(sock, 6)
        if head is not None:
            kind, length = struct.unpack(">BxL", head)
            body = _exactly(sock, length)
            return None if body is None else (kind, body)
    return None


def _exactly(sock: socket.socket, count: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < count:
        part = sock.recv(count - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)


@dataclass(frozen=True)
class Accepted:
    """What an A-ASSOCIATE-AC granted: transfer syntax by context id, and the largest PDU (0: no limit)."""

    contexts: dict[int, str]
    max_pdu: int


def read_accepted(body: bytes) -> Accepted:
    """Read the body of an A-ASSOCIATE-AC (PS3.8 Table 9-17)."""
    contexts, max_pdu = dict[int, str](), 0
    for kind, value in _items(body[68:]):
        if kind == 0x21 and value[2] == 0:
            contexts[value[0]] = next(syntax.rstrip(b"\0").decode() for _, syntax in _items(value[4:]))
        if kind == 0x50:
            max_pdu = next((struct.unpack(">L", sub)[0] for number, sub in _items(value) if number == 0x51), 0)
    return Accepted(contexts, max_pdu)


def _items(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        kind, length = struct.unpack(">BxH", data[:4])
        yield kind, data[4 : 4 + length]
        data = data[4 + length :]


def read_command(data: bytes) -> dict[int, bytes]:
    """Element number → value of a command set."""
    found = dict[int, bytes]()
    while len(data) >= 8:
        number, length = struct.unpack("<xxHL", data[:8])
        found[number] = data[8 : 8 + length]
        data = data[8 + length :]
    return found


class Gone(ConnectionError):
    """The listener ended the association instead of answering."""


class Peer:
    """One association. Raises Gone when it is ended or refused, TimeoutError when nothing comes within the deadline."""

    def __init__(self, port: int, *kinds: Kind, timeout_s: float = DEADLINE_S, tls: ssl.SSLContext | None = None) -> None:
        self.kinds = kinds or ((CT, EXPLICIT_LE),)
        self.socket = connect(port, timeout_s, tls)
        try:
            contexts = (context(2 * place + 1, *kind) for place, kind in enumerate(self.kinds))
            self.socket.sendall(associate_rq(contexts))
            self.accepted = read_accepted(self.expect(ASSOCIATE_AC))
        except BaseException:
            self.socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.socket.close()

    def context_of(self, sop_class: str, syntax: str | None = None) -> int | None:
        """Id of the context that was accepted for it, or None."""
        found = self.accepted.contexts.items()
        return next((number for number, agreed in found if self.kinds[number // 2][0] == sop_class and syntax in (None, agreed)), None)

    def expect(self, kind: int) -> bytes:
        """The body of the next PDU, which must be of this kind."""
        found = read_pdu(self.socket)
        if found is None or found[0] != kind:
            raise Gone(f"no PDU of type {kind}, but {'the end' if found is None else found[0]}")
        return found[1]

    def store(
        self, content: bytes | Iterable[bytes], sop_uid: str, sop_class: str = CT, syntax: str | None = None, *, announced: str | None = None
    ) -> int:
        """C-STORE bytes as they are; chunks are sent as they come. The status. `announced`: a SOP class that the request names instead."""
        number = self.context_of(sop_class, syntax)
        assert number is not None, f"no context for {sop_class} in {syntax}"
        try:
            self.socket.sendall(p_data(pdv(number, COMMAND | LAST, c_store_rq(announced or sop_class, sop_uid))))
            for control, fragment in _marked(_fragments(content, self._fragment())):
                self.socket.sendall(p_data(pdv(number, control, fragment)))
        except TimeoutError:
            raise
        except OSError as error:
            raise Gone("the connection broke while the data set was sent") from error
        return self.status()

    def echo(self) -> int:
        """C-ECHO; the status."""
        number = self.context_of(VERIFICATION)
        assert number is not None
        self.socket.sendall(p_data(pdv(number, COMMAND | LAST, c_echo_rq())))
        return self.status()

    def status(self) -> int:
        """The status of the next response."""
        answer = b""
        while True:
            body = self.expect(P_DATA)
            while body:
                length, _, control = struct.unpack(">LBB", body[:6])
                answer, body = answer + body[6 : 4 + length], body[4 + length :]
                if control == COMMAND | LAST:
                    return int(struct.unpack("<H", read_command(answer)[0x0900])[0])

    def release(self) -> None:
        """Release, await the answer, close."""
        self.socket.sendall(RELEASE)
        self.expect(RELEASE_RP)
        self.socket.close()

    def _fragment(self) -> int:
        return min(self.accepted.max_pdu or FRAGMENT, FRAGMENT) - 6


def _fragments(content: bytes | Iterable[bytes], size: int) -> Iterator[bytes]:
    for chunk in (content,) if isinstance(content, bytes) else content:
        view = memoryview(chunk)
        for start in range(0, len(view), size):
            yield bytes(view[start : start + size])


def _marked(fragments: Iterator[bytes]) -> Iterator[tuple[int, bytes]]:
    """Fragments with their control header; an empty data set is one empty last fragment."""
    last = next(fragments, b"")
    for following in fragments:
        yield 0, last
        last = following
    yield LAST, last


def zeros(size: int, chunk: int = 1 << 20) -> Iterator[bytes]:
    """`size` zero bytes that never exist at once."""
    piece = bytes(chunk)
    yield from itertools.repeat(piece, size // chunk)
    yield piece[: size % chunk]
