"""One embedded PostgreSQL: created once, started on the loopback address, proven to be ours, stopped."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path

import psycopg

from pipeline.errors import ServiceUnavailable
from workers.embedded import cluster as clusters
from workers.embedded import identity as who
from workers.embedded.binaries import find_postgres
from workers.embedded.ports import LOOPBACK, free_port, is_free, taken
from workers.embedded.processes import POLL_S, Child, Identity, end_all_in

DATABASE = "ctreport"
START_TIMEOUT_S = 60.0
PORT_TRIES = 5
# Fast shutdown ends sessions and writes a checkpoint; immediate shutdown leaves the rest to recovery.
STOP_STEPS = ((signal.SIGINT, 20.0), (signal.SIGQUIT, 6.0))
SETTINGS: Mapping[str, str] = {
    "unix_socket_directories": "",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "cluster_name": DATABASE,
    # a refused row must not write its patient's name into the log
    "log_error_verbosity": "terse",
    "log_min_error_statement": "panic",
}


class Postgres:
    """A PostgreSQL whose cluster and password live in `folder`. Port 0 takes a free one at the first start and keeps it."""

    name = "postgres"

    def __init__(
        self,
        folder: Path,
        port: int = 0,
        *,
        log: Path | None = None,
        settings: Mapping[str, str] | None = None,
        port_setting: str = "the port of PostgreSQL",
    ) -> None:
        self.folder = folder.absolute()
        self.cluster = self.folder / "cluster"
        self.port = port
        self._free_choice = port == 0
        self._log = log or self.folder / "postgres.log"
        self._settings = {**SETTINGS, **(settings or {})}
        self._port_setting = port_setting
        self._child: Child | None = None

    @property
    def url(self) -> str:
        """postgresql:// URL of the project's database, with its password: never print it."""
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """The same for another database of this server."""
        return f"postgresql://{clusters.USER}:{clusters.password_of(self.folder)}@{LOOPBACK}:{self.port}/{database}"

    @property
    def pid(self) -> int | None:
        """Process id of the server that was started last, None when none was or it was stopped."""
        return self._child.pid if self._child is not None else None

    def alive(self) -> bool:
        """True while the server process runs."""
        return self._child is not None and self._child.alive()

    def start(self) -> None:
        """Start the server, creating the cluster first if there is none; returns when it answers and is proven to be ours.

        Raises Permanent for what only a person can change, ServiceUnavailable for a taken port or a server that does not come up.
        """
        identity = who.choose(self.folder)
        major, programs = find_postgres(identity, clusters.made_by(self.cluster))
        if not self.cluster.exists():
            clusters.create(self.folder, major, programs, identity)
        end_all_in(self.cluster, ["postgres"], STOP_STEPS)
        # Nothing runs in the folder now, but the number in the lock file of a killed server may be another process today.
        (self.cluster / "postmaster.pid").unlink(missing_ok=True)
        self._child = self._spawn(programs, identity)
        self._free_choice = False
        self._create_database()

    def stop(self) -> bool:
        """Stop the server; True if it went in good order or was not running."""
        child, self._child = self._child, None
        return child is None or child.stop(STOP_STEPS)

    def _spawn(self, programs: Path, identity: Identity) -> Child:
        """A server that is ready. A port that we choose ourselves is chosen again when somebody else takes it in between."""
        for _ in range(PORT_TRIES):
            if self._free_choice:
                self.port = free_port()
            if not is_free(self.port):
                raise taken("PostgreSQL", self.port, self._port_setting)
            child = Child(self._command(programs), self._log, clusters.plain_environment(), identity, signal.SIGQUIT)
            if self._ready(child):
                return child
            if not self._free_choice or is_free(self.port):
                break
        raise ServiceUnavailable(f"PostgreSQL ended while it started on port {self.port}; its log {self._log} says why.")

    def _command(self, programs: Path) -> list[str]:
        settings = [part for key, value in self._settings.items() for part in ("-c", f"{key}={value}")]
        return [str(programs / "postgres"), "-D", str(self.cluster), "-h", LOOPBACK, "-p", str(self.port), *settings]

    def _ready(self, child: Child) -> bool:
        """True once the lock file of this very process says ready, False when the process ends."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while child.alive():
            if _says_ready(self.cluster / "postmaster.pid", child.pid):
                return True
            if time.monotonic() > deadline:
                child.stop(STOP_STEPS)
                raise ServiceUnavailable(f"PostgreSQL was not ready after {START_TIMEOUT_S:.0f} s on port {self.port}; its log {self._log} says why.")
            time.sleep(POLL_S)
        return False

    def _create_database(self) -> None:
        """Make the project's database at the first start; also proves that the server on the port serves this cluster."""
        try:
            with psycopg.connect(self.url_of("postgres"), autocommit=True, connect_timeout=10) as connection:
                self._prove_and_create(connection)
        except psycopg.Error as error:
            reason = str(error).strip().splitlines()[-1]
            raise ServiceUnavailable(f"PostgreSQL on port {self.port} runs but refuses us: {reason}; its log is {self._log}.") from error

    def _prove_and_create(self, connection: psycopg.Connection) -> None:
        served = connection.execute("SELECT current_setting('data_directory')").fetchone()
        if served is None or Path(served[0]).resolve() != self.cluster.resolve():
            raise ServiceUnavailable(f"The PostgreSQL on port {self.port} does not serve {self.cluster}; stop it or change {self._port_setting}.")
        if connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone() is None:
            connection.execute(f"CREATE DATABASE {DATABASE}")


def _says_ready(lock_file: Path, pid: int) -> bool:
    """PostgreSQL writes its process id into line 1 of postmaster.pid and its state into line 8."""
    try:
        lines = lock_file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"
