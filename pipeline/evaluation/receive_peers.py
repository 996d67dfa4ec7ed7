"""Who takes part in the receive benchmark: what every contender offers, and the two that are not ours (Debian: dcmtk, orthanc).

Both run as they are shipped, but for what is said here. `storescp` neither syncs its files nor indexes them; one process serves one association
after the other, `--fork` one process each. Orthanc syncs each file (SyncStorageArea, its default), keeps a SQLite index, loads no plugins, serves no
HTTP, and gets as many DICOM threads as associations are measured (default: 4). Both take PDUs of 16 KiB, their default.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sqlalchemy import NullPool, column, create_engine, func, select, table

from pipeline.errors import ServiceUnavailable
from pipeline.evaluation.receive_load import dcmtk, version

READY_S = 20.0
POLL_S = 0.02
RESOURCES = table("Resources", column("resourceType"))
INSTANCES = 4  # Orthanc's number for the level of instances (ResourceType_Instance)
ORTHANC_FOLDERS = ("/usr/sbin", "/usr/bin")


class Receiver(Protocol):
    """A contender that listens now, with its process ids."""

    @property
    def port(self) -> int:
        """TCP port on the loopback address."""

    @property
    def pid(self) -> int:
        """Root of the receiver's own processes."""

    @property
    def database_pids(self) -> tuple[int, ...]:
        """Roots of the processes that serve it: database, broker. Empty where it has none."""

    def stop(self) -> None:
        """End its processes. Idempotent."""

    def lost(self, files: Sequence[Path]) -> str:
        """After `stop`: what it acknowledged and does not have, as a sentence; empty when all is there."""


class Contender(Protocol):
    """Somebody who can be measured."""

    @property
    def what(self) -> str:
        """Name in the rows."""

    @property
    def receiver_tcp_nodelay(self) -> bool | None:
        """TCP_NODELAY in the receiver's environment; None for a receiver that does not look there."""

    def absent(self) -> str:
        """Why it cannot take part, empty when it can."""

    def running(self, folder: Path) -> AbstractContextManager[Receiver]:
        """A fresh receiver that keeps everything in `folder`, an empty one. Raises ServiceUnavailable when it does not come up."""


@dataclass(frozen=True)
class Net:
    """How to find a free TCP port, and whether somebody listens on one, without connecting to it."""

    free_port: Callable[[], int]
    is_listening: Callable[[int], bool]


@dataclass(frozen=True)
class PeerReceiver:
    """A peer's process; `count` says how many images it has kept."""

    port: int
    process: subprocess.Popen[bytes]
    count: Callable[[], int]
    database_pids: tuple[int, ...] = ()

    @property
    def pid(self) -> int:
        """Its process id; it leads its process group."""
        return self.process.pid

    def stop(self) -> None:
        """Kill the group: what it had acknowledged is in the files, and its own goodbye takes Orthanc a second."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def lost(self, files: Sequence[Path]) -> str:
        """By number."""
        kept = self.count()
        return "" if kept == len(files) else f"{len(files)} images were answered with Success and {kept} are there"


@dataclass(frozen=True)
class StoreScp:
    """DCMTK's receiver."""

    net: Net
    fork: bool
    receiver_tcp_nodelay: bool

    @property
    def what(self) -> str:
        """Name in the rows."""
        return "dcmtk storescp --fork" if self.fork else "dcmtk storescp"

    def absent(self) -> str:
        """Why it cannot take part."""
        return "" if dcmtk("storescp") else f"{self.what}: not installed (Debian: apt-get install dcmtk)"

    def running(self, folder: Path) -> AbstractContextManager[Receiver]:
        """`storescp` with one output folder."""
        port, kept = self.net.free_port(), folder / "kept"
        kept.mkdir()
        command = [dcmtk("storescp"), *(["--fork"] if self.fork else []), "--output-directory", str(kept), str(port)]
        return _peer(command, port, self, lambda: len(os.listdir(kept)), folder)


@dataclass(frozen=True)
class Orthanc:
    """The DICOM server of Debian."""

    net: Net
    receiver_tcp_nodelay: bool
    what: str = "orthanc"

    def absent(self) -> str:
        """Why it cannot take part."""
        return "" if orthanc() else f"{self.what}: not installed (Debian: apt-get install orthanc)"

    def running(self, folder: Path) -> AbstractContextManager[Receiver]:
        """Orthanc with a configuration of its own; nothing of /etc/orthanc is read."""
        port, config = self.net.free_port(), folder / "orthanc.json"
        config.write_text(json.dumps(orthanc_configuration(folder, port)), encoding="utf-8")
        return _peer([orthanc(), str(config)], port, self, lambda: indexed(folder / "index"), folder)


def orthanc() -> str:
    """Path of Debian's Orthanc, empty where there is none; /usr/sbin is on nobody's path but root's."""
    return shutil.which("Orthanc", path=os.pathsep.join((os.environ.get("PATH", ""), *ORTHANC_FOLDERS))) or ""


def versions() -> str:
    """What the installed peers say about themselves."""
    said = [version(program).removeprefix(f"{Path(program).parent}/") for program in (dcmtk("storescp"), orthanc()) if program]
    return ", ".join(said) or "no peer installed"


def orthanc_configuration(folder: Path, port: int) -> dict[str, object]:
    """Keep everything, sync everything, nothing but C-STORE."""
    return {
        "Name": "bench",
        "StorageDirectory": str(folder),
        "IndexDirectory": str(folder),
        "SyncStorageArea": True,
        "MaximumStorageSize": 0,
        "MaximumPatientCount": 0,
        "Plugins": [],
        "HttpServerEnabled": False,
        "DicomPort": port,
        "DicomAlwaysAllowStore": True,
        "DicomThreadsCount": 8,
    }


def indexed(database: Path) -> int:
    """Images in Orthanc's index. Opened for writing: after a kill SQLite has its journal to replay."""
    engine = create_engine(f"sqlite:///{database}", poolclass=NullPool)
    with engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(RESOURCES).where(RESOURCES.c.resourceType == INSTANCES)) or 0


def peers(net: Net, nodelay: bool) -> list[Contender]:
    """Those that are not ours, with TCP_NODELAY in their environment or as they are shipped."""
    return [StoreScp(net, False, nodelay), StoreScp(net, True, nodelay), Orthanc(net, nodelay)]


@contextlib.contextmanager
def _peer(command: list[str], port: int, peer: StoreScp | Orthanc, count: Callable[[], int], folder: Path) -> Iterator[Receiver]:
    """Start a peer, wait until it listens, end it in any case."""
    env = {key: value for key, value in os.environ.items() if key != "TCP_NODELAY"} | ({"TCP_NODELAY": "1"} if peer.receiver_tcp_nodelay else {})
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, start_new_session=True)
    receiver = PeerReceiver(port, process, count)
    try:
        _await(receiver, peer)
        yield receiver
    finally:
        receiver.stop()


def _await(receiver: PeerReceiver, peer: StoreScp | Orthanc) -> None:
    deadline = time.monotonic() + READY_S
    while not peer.net.is_listening(receiver.port):
        if receiver.process.poll() is not None or time.monotonic() > deadline:
            raise ServiceUnavailable(f"{peer.what} does not listen on port {receiver.port} after {READY_S:.0f} s or has ended; start it by hand")
        time.sleep(POLL_S)
