"""A proxy between client and server that spoils answers: it forwards connections and treats the answers' bytes as told."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

Treatment = Callable[[int, bytes], bytes | None]  # bytes passed on so far, the next ones → what is passed on; None: cut the connection
PIECE = 65536


def truncated(after: int) -> Treatment:
    """Cut the connection once `after` bytes were passed on."""
    return lambda done, piece: None if done >= after else piece[: after - done]


def garbled(_: int, piece: bytes) -> bytes:
    """Break the JSON of every piece: braces become brackets, lengths stay."""
    return piece.replace(b'{"', b'["')


class Proxy:
    """Listens on a free port of this machine. The n-th connection is treated by the n-th treatment, those after by none."""

    def __init__(self, port: int, *treatments: Treatment) -> None:
        self._target = port
        self._treatments = iter(treatments)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.connections = 0

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """Until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.connections += 1
                threading.Thread(target=self._forward, args=(client, next(self._treatments, None)), daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _forward(self, client: socket.socket, treatment: Treatment | None) -> None:
        with suppress(OSError), client:
            try:
                with socket.create_connection(("127.0.0.1", self._target)) as server:
                    threading.Thread(target=_copy, args=(client, server), daemon=True).start()
                    _treat(server, client, treatment)
                    server.shutdown(socket.SHUT_RDWR)
            finally:
                client.shutdown(socket.SHUT_RDWR)  # the thread that still reads would keep the connection open


def _treat(server: socket.socket, client: socket.socket, treatment: Treatment | None) -> None:
    """Pass the answer on, until it ends or is to be cut."""
    done = 0
    while piece := server.recv(PIECE):
        passed = treatment(done, piece) if treatment else piece
        if passed is None:
            return
        client.sendall(passed)
        done += len(passed)


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(PIECE):
            target.sendall(piece)


@contextmanager
def proxied(port: int, *treatments: Treatment) -> Iterator[Proxy]:
    """A proxy in front of a port of this machine, served while the block runs."""
    proxy = Proxy(port, *treatments)
    thread = threading.Thread(target=proxy.serve, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.close()
        thread.join(10)
