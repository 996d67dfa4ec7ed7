"""One embedded Valkey (or Redis): password, loopback address, append-only file, nothing evicted."""

from __future__ import annotations

import os
import secrets
import signal
import time
from pathlib import Path

import redis

from pipeline.errors import ServiceUnavailable
from workers.embedded.binaries import find_valkey
from workers.embedded.ports import LOOPBACK, free_port, is_free, taken
from workers.embedded.processes import POLL_S, Child, end_all_in

START_TIMEOUT_S = 30.0
PORT_TRIES = 5
STOP_STEPS = ((signal.SIGTERM, 10.0),)
PROGRAMS = ("valkey-server", "redis-server")
APPEND_ONLY = "appendonlydir"


class Valkey:
    """A Valkey whose password and append-only file live in `folder`. Port 0 takes a free one at the first start and keeps it."""

    name = "valkey"

    def __init__(self, folder: Path, port: int = 0, *, log: Path | None = None, port_setting: str = "the port of Valkey") -> None:
        self.folder = folder.absolute()
        self.port = port
        self._free_choice = port == 0
        self._log = log or self.folder / "valkey.log"
        self._port_setting = port_setting
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """redis:// URL with its password: never print it."""
        return f"redis://:{self._password()}@{LOOPBACK}:{self.port}/0"

    @property
    def pid(self) -> int | None:
        """Process id of the server that was started last, None when none was or it was stopped."""
        return self._child.pid if self._child is not None else None

    def alive(self) -> bool:
        """True while the server process runs."""
        return self._child is not None and self._child.alive()

    def start(self) -> None:
        """Start the server; returns when it answers and is proven to be ours.

        Raises Permanent when no program is installed, ServiceUnavailable for a taken port or a server that does not come up.
        """
        program = find_valkey()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        end_all_in(self.folder, PROGRAMS, STOP_STEPS)
        self._child = self._spawn(program)
        self._free_choice = False

    def stop(self) -> bool:
        """Stop the server; True if it went in good order or was not running."""
        child, self._child = self._child, None
        return child is None or child.stop(STOP_STEPS)

    def _spawn(self, program: Path) -> Child:
        """A server that answers. Bells that it cannot read (another version's file, a torn one) are set aside: rows are the truth."""
        for _ in range(PORT_TRIES):
            if self._free_choice:
                self.port = free_port()
            if not is_free(self.port):
                raise taken("Valkey", self.port, self._port_setting)
            child = Child([str(program), str(self._write_config())], self._log)
            if self._ready(child):
                return child
            if is_free(self.port) and not _set_aside(self.folder / APPEND_ONLY):
                break
        raise ServiceUnavailable(f"Valkey ended while it started on port {self.port}; its log {self._log} says why.")

    def _ready(self, child: Child) -> bool:
        """True once the server that answers on the port is this very process, False when the process ends."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while child.alive():
            if self._answering_pid() == child.pid:
                return True
            if time.monotonic() > deadline:
                child.stop(STOP_STEPS)
                raise ServiceUnavailable(f"Valkey was not ready after {START_TIMEOUT_S:.0f} s on port {self.port}; its log {self._log} says why.")
            time.sleep(POLL_S)
        return False

    def _answering_pid(self) -> int | None:
        try:
            with redis.Redis.from_url(self.url, socket_timeout=2, socket_connect_timeout=2) as client:
                client.ping()
                return int(client.info("server")["process_id"])
        except redis.RedisError:
            return None

    def _write_config(self) -> Path:
        """The configuration holds the password, so it is a file and not a command line that everybody can list."""
        config = self.folder / "valkey.conf"
        lines = {
            "bind": LOOPBACK,
            "port": str(self.port),
            "protected-mode": "yes",
            "requirepass": self._password(),
            "dir": _quoted(str(self.folder)),
            "appendonly": "yes",
            "save": '""',
            "maxmemory-policy": "noeviction",
            "daemonize": "no",
        }
        _write_private(config, "".join(f"{key} {value}\n" for key, value in lines.items()))
        return config

    def _password(self) -> str:
        path = self.folder / "password"
        if not path.exists():
            _write_private(path, secrets.token_urlsafe(24))
        return path.read_text(encoding="ascii").strip()


def _set_aside(append_only: Path) -> bool:
    """Rename a file that the server could not load; False when there is none, so the server must have another reason."""
    if not append_only.exists():
        return False
    append_only.rename(append_only.with_name(f"{APPEND_ONLY}.unread.{time.time_ns()}"))
    return True


def _write_private(path: Path, text: str) -> None:
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    new.replace(path)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
