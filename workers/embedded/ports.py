"""Free TCP ports on the loopback address."""

from __future__ import annotations

import random
import socket
from pathlib import Path

from pipeline.errors import ServiceUnavailable

LOOPBACK = "127.0.0.1"
# Below the range that the kernel gives to outgoing connections: a client that retries a dead port inside that range can
# be given the very port as its own end, connect to itself, and keep the server from coming back.
FIRST, LAST = 20_000, 32_000
TRIES = 200
LISTEN = "0A"  # state of a listening socket in /proc/net/tcp


def is_free(port: int, host: str = LOOPBACK) -> bool:
    """True when a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port() -> int:
    """A port that nobody listens on at this moment."""
    for _ in range(TRIES):
        port = random.randint(FIRST, LAST)
        if is_free(port):
            return port
    raise ServiceUnavailable(f"No free TCP port between {FIRST} and {LAST} on {LOOPBACK} after {TRIES} tries; end some servers and try again.")


def taken(service: str, port: int, setting: str) -> ServiceUnavailable:
    """The sentence for a port that belongs to another program."""
    return ServiceUnavailable(
        f"TCP port {port} on {LOOPBACK}, wanted for {service}, is taken by another program; end it or change {setting} (0 takes a free port)."
    )


def is_listening(port: int) -> bool:
    """True when some program listens on the port now: read from the kernel's table, so that nothing connects and nothing gets in its way."""
    tables = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
    rows = (line.split() for table in tables if table.exists() for line in table.read_text(encoding="ascii").splitlines()[1:])
    return any(row[3] == LISTEN and int(row[1].rpartition(":")[2], 16) == port for row in rows)
