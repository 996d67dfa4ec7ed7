"""Our listener as a contender of the receive benchmark: the process that users run, on an embedded stack without workers."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
from psycopg import sql
from pydicom import dcmread

from pipeline.dicom.archive import hash_file
from pipeline.errors import ServiceUnavailable
from pipeline.evaluation.receive_peers import Contender, Receiver
from pipeline.metrics import SHARED_FOLDER
from pipeline.settings import rows, settings
from pipeline.store.proof import InstanceFile, instance_rows
from pipeline.store.session import PgStore
from workers.embedded.ports import free_port, is_listening
from workers.embedded.processes import Child
from workers.local import StackInfo
from workers.stack import CTREPORT, environment

READY_S = 60.0
STOP_STEPS = ((signal.SIGTERM, 30.0),)
SAMPLE = 10  # images whose bytes are compared
# What the caller may not decide: where the bench's own listener keeps its things and whom it lets in.
OURS = ("CTREPORT_MODE", "CTREPORT_DATA", "CTREPORT_DATABASE_URL", "CTREPORT_REDIS_URL", "CTREPORT_ARCHIVE_ROOT", "CTREPORT_ACCESS_", "CTREPORT_TLS_")
VARIANTS: Mapping[str, Mapping[str, str]] = {
    "ctreport": {},
    "ctreport no fsync": {"CTREPORT_ARCHIVE_FSYNC": "false"},
    "ctreport fast": {"CTREPORT_LISTENER_FAST": "true"},
}


@dataclass(frozen=True)
class OwnListener:
    """The listener of this project with some settings changed; each run has a database and an archive of its own."""

    what: str
    changed: Mapping[str, str]
    stack: StackInfo
    receiver_tcp_nodelay: bool | None = None  # the environment variable means nothing to it

    def absent(self) -> str:
        """Names the setting that does not exist, where one does not."""
        known = {name for name, _, _ in rows()}
        missing = [name for name in self.changed if name not in known]
        return f"{self.what}: there is no setting {', '.join(missing)}" if missing else ""

    @contextlib.contextmanager
    def running(self, folder: Path) -> Iterator[Receiver]:
        """`ctreport listener` as `ctreport up` starts it."""
        port = free_port()
        with _database(self.stack.database_url) as database_url:
            child = Child((*CTREPORT, "listener"), folder / "log", self._environment(folder, port, database_url))
            try:
                _await(child, port, folder / "log")
                yield OwnReceiver(port, child, folder / "archive", database_url, self._services())
            finally:
                child.stop(STOP_STEPS)

    def _environment(self, folder: Path, port: int, database_url: str) -> dict[str, str]:
        shared = folder / "metrics"
        shared.mkdir()
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(OURS)}
        places = {
            "CTREPORT_DATABASE_URL": database_url,
            "CTREPORT_REDIS_URL": self.stack.redis_url,
            "CTREPORT_DATA": str(folder),
            "CTREPORT_ARCHIVE_ROOT": str(folder / "archive"),
            "CTREPORT_LISTENER_HOST": "127.0.0.1",
            "CTREPORT_LISTENER_PORT": str(port),
            SHARED_FOLDER: str(shared),
        }
        return inherited | dict(environment(settings(), self.stack, shared)) | places | dict(self.changed)

    def _services(self) -> tuple[int, ...]:
        return tuple(part.pid for part in self.stack.parts if part.pid is not None)


@dataclass(frozen=True)
class OwnReceiver:
    """A running listener with its archive and database."""

    port: int
    child: Child
    archive: Path
    database_url: str
    database_pids: tuple[int, ...]

    @property
    def pid(self) -> int:
        """Process id of the listener, parent of its forks."""
        return self.child.pid

    def stop(self) -> None:
        """SIGTERM, as `ctreport down` does."""
        self.child.stop(STOP_STEPS)

    def lost(self, files: Sequence[Path]) -> str:
        """Every SOPInstanceUID has its row; of a sample the archived file has the row's hash and ends with the data set that was sent."""
        kept = {row.sop_uid: row for row in _instances(self.database_url)}
        sent = {str(dcmread(path, specific_tags=["SOPInstanceUID"], stop_before_pixels=True).SOPInstanceUID): path for path in files}
        if missing := sent.keys() - kept.keys():
            return f"{len(sent)} images were answered with Success and {len(missing)} have no row in the database"
        sample = list(sent)[:: max(1, len(sent) // SAMPLE)]
        changed = [uid for uid in sample if not self._is_whole(kept[uid], sent[uid])]
        return f"{len(changed)} of {len(sample)} archived files differ from what was sent" if changed else ""

    def _is_whole(self, row: InstanceFile, sent: Path) -> bool:
        path = self.archive / row.path
        return path.is_file() and hash_file(path) == row.sha256 and _same_data_set(path, sent)


def contenders(stack: StackInfo) -> list[Contender]:
    """The default, and what settings make of it."""
    return [OwnListener(what, changed, stack) for what, changed in VARIANTS.items()]


@contextlib.contextmanager
def _database(template_url: str) -> Iterator[str]:
    """URL of a fresh copy of the migrated, empty database, dropped afterwards."""
    parts, name = urlsplit(template_url), f"bench_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(urlunsplit(parts._replace(path="/postgres")), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(parts.path.lstrip("/"))))
        try:
            yield urlunsplit(parts._replace(path=f"/{name}"))
        finally:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _await(child: Child, port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not is_listening(port):
        if not child.alive() or time.monotonic() > deadline:
            last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-1:]
            raise ServiceUnavailable(f"the listener did not come up on port {port}; the last line of its log: {' '.join(last) or 'none'}")
        time.sleep(0.02)


def _instances(database_url: str) -> list[InstanceFile]:
    store = PgStore(database_url, pool_size=1, connect_timeout_s=5, statement_timeout_ms=30_000)
    try:
        return list(instance_rows(store))
    finally:
        store.dispose()


def _same_data_set(archived: Path, sent: Path) -> bool:
    """Both end with the same data set; the file meta before it is each writer's own."""
    size = sent.stat().st_size - _data_set_at(sent)
    with archived.open("rb") as one, sent.open("rb") as other:
        one.seek(-size, os.SEEK_END)
        other.seek(-size, os.SEEK_END)
        while block := other.read(1 << 20):
            if one.read(len(block)) != block:
                return False
    return True


def _data_set_at(path: Path) -> int:
    """Offset of the data set: 128 bytes preamble, DICM, then a file meta group that says its length (PS3.10 7.1)."""
    with path.open("rb") as file:
        file.seek(140)
        return 144 + int.from_bytes(file.read(4), "little")
