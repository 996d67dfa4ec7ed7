"""A listener on loopback with a real archive, ledger and PostgreSQL."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydicom.uid import ExplicitVRLittleEndian
from pynetdicom import AE
from pynetdicom.association import Association
from pynetdicom.dimse_primitives import C_STORE
from pynetdicom.presentation import build_context

from pipeline.dicom.archive import FileArchive
from pipeline.dicom.headers import read_header
from pipeline.dicom.ledger import FileLedger, read_ledger
from pipeline.dicom.listener import Listener
from pipeline.dicom.listener import Site as Around
from pipeline.dicom.verify import Verification, compare
from pipeline.flow.receive import Receiving
from pipeline.settings import ListenerSettings
from pipeline.store import proof
from pipeline.store.session import PgStore
from tests.builders import Bell

CT = "1.2.840.10008.5.1.4.1.1.2"


@dataclass
class Site:
    """One running listener and what stands behind it."""

    root: Path
    url: str
    store: PgStore
    archive: FileArchive
    bell: Bell
    listener: Listener

    @property
    def port(self) -> int:
        return self.listener.port

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url) as connection:
            return connection.execute(sql.encode()).fetchall()

    def verified(self) -> Verification:
        return compare(read_ledger(self.root / "ledger"), proof.instance_rows(self.store), self.archive)

    def files(self, area: str) -> list[Path]:
        return sorted(p for p in (self.root / area).rglob("*.*") if p.is_file())


@contextmanager
def serving(root: Path, url: str, around: Around | None = None, **settings: Any) -> Iterator[Site]:
    """A listener with settings of its own, and `around` it what a test wants there."""
    archive, bell = FileArchive(root, 0), Bell()
    store = PgStore(url, connect_timeout_s=2)
    ledger = FileLedger(root / "ledger", "listener")
    room = ListenerSettings(port=0, **settings)
    listener = Listener(room, Receiving(store, archive, ledger, read_header), archive, store, bell, around)
    listener.start()
    try:
        yield Site(root, url, store, archive, bell, listener)
    finally:
        listener.stop(grace_s=1.0)
        ledger.close()
        store.dispose()


@pytest.fixture
def site(tmp_path: Path, url: str) -> Iterator[Site]:
    with serving(tmp_path / "archive", url) as made:
        yield made


def associate(port: int, *kinds: tuple[str, str]) -> Association:
    """An established association for the given SOP classes and transfer syntaxes; CT in explicit VR without any."""
    contexts = [build_context(*kind) for kind in kinds or ((CT, ExplicitVRLittleEndian),)]
    ae = AE("TEST")
    ae.connection_timeout = ae.acse_timeout = ae.dimse_timeout = 10
    assoc = ae.associate("127.0.0.1", port, contexts=contexts)
    assert assoc.is_established
    return assoc


def store_raw(assoc: Association, data: bytes, sop_uid: str, sop_class: str = CT, syntax: str | None = None) -> int:
    """C-STORE bytes as they are, whatever they hold; returns the status."""
    request = C_STORE()
    request.MessageID, request.Priority = 1, 2
    request.AffectedSOPClassUID, request.AffectedSOPInstanceUID = sop_class, sop_uid
    request.DataSet = BytesIO(data)
    context = next(c for c in assoc.accepted_contexts if c.abstract_syntax == sop_class and syntax in (None, c.transfer_syntax[0]))
    assoc._reactor_checkpoint.clear()
    while not assoc._is_paused:
        time.sleep(0.0001)
    assert context.context_id is not None
    assoc.dimse.send_msg(request, context.context_id)
    _, answer = assoc.dimse.get_msg(block=True)
    assoc._reactor_checkpoint.set()
    assert answer is not None, "no answer"
    assert answer.Status is not None
    return int(answer.Status)


def connection_of(assoc: Association) -> socket.socket:
    """The requestor's own TCP socket."""
    assert assoc.dul.socket is not None
    assert assoc.dul.socket.socket is not None
    return assoc.dul.socket.socket


def eventually(found: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    """The first true answer of `found`, asked again until the deadline."""
    deadline = time.monotonic() + timeout_s
    while not (answer := found()):
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s"
        time.sleep(0.02)
    return answer
