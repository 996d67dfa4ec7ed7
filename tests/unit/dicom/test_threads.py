"""A thread of an association that dies takes its connection along and says nothing of what it held."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from pynetdicom import AE
from pynetdicom.association import Association
from structlog.testing import capture_logs

from pipeline.dicom.threads import guarded
from tests.wire import CT, EXPLICIT_LE, Gone, Peer, associate_rq, c_store_rq, connect, context, p_data, pdv

if TYPE_CHECKING:
    from pynetdicom.transport import ThreadedAssociationServer

    Failed = threading.ExceptHookArgs

SECRET = "Zhang^San 1.2.3.4.5.6.7"
DEADLINE_S = 10.0


def fail(*_: object) -> None:
    raise RuntimeError(SECRET)


@dataclass
class Hook:
    """The hook that was there before."""

    failed: list[Failed] = field(default_factory=list)

    def __call__(self, failed: Failed) -> None:
        self.failed.append(failed)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Hook:
    made = Hook()
    monkeypatch.setattr(threading, "excepthook", made)
    return made


@contextmanager
def serving() -> Iterator[ThreadedAssociationServer]:
    """A plain server of the library that takes CT images."""
    ae = AE("CTREPORT")
    ae.add_supported_context(CT, EXPLICIT_LE)
    server = ae.start_server(("127.0.0.1", 0), block=False)
    assert server is not None
    try:
        yield server
    finally:
        server.shutdown()


def port_of(server: ThreadedAssociationServer) -> int:
    return int(server.server_address[1])


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def says_nothing_more(peer: socket.socket) -> bool:
    try:
        return peer.recv(1) == b""
    except ConnectionError:
        return True


def test_a_network_thread_that_dies_closes_its_connection_and_logs_no_value(hook: Hook) -> None:
    """Half a command set: the library's network thread dies of an unhandled exception."""
    with serving() as server, guarded(), capture_logs() as lines:
        with Peer(port_of(server)) as peer:
            peer.socket.sendall(p_data(pdv(1, 3, c_store_rq(CT, "1.2.3.4.5.6.7")[:21])))
            with pytest.raises(Gone):
                peer.status()
        until(lambda: not server.active_associations)
        with Peer(port_of(server)) as good:
            good.release()
    broken = [line for line in lines if line["event"] == "association_broken"]
    assert len(broken) == 1
    assert broken[0].keys() == {"event", "log_level", "error", "file", "line"}
    assert "1.2.3.4.5.6.7" not in repr(lines)
    assert not hook.failed


def test_a_network_thread_that_dies_before_there_is_a_request_frees_the_thread_that_waits_for_it(hook: Hook) -> None:
    """A presentation context with an even id (PS3.8 9.3.2.2): the library would wait for the request for as long as its timeout."""
    with serving() as server, guarded():
        server.ae.acse_timeout = server.ae.network_timeout = 10 * DEADLINE_S
        with connect(port_of(server), timeout_s=DEADLINE_S) as peer:
            peer.sendall(associate_rq([context(2, CT, EXPLICIT_LE)]))
            assert says_nothing_more(peer)
            until(lambda: not server.active_associations)
    assert not hook.failed


def test_an_association_thread_that_dies_closes_its_connection_and_logs_no_value(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as server, guarded(), capture_logs() as lines:
        monkeypatch.setattr(Association, "run", fail)
        with connect(port_of(server), timeout_s=DEADLINE_S) as peer:
            assert says_nothing_more(peer)
        monkeypatch.undo()
        until(lambda: not server.active_associations)
    broken = [line for line in lines if line["event"] == "association_broken"]
    assert [line["error"] for line in broken] == ["RuntimeError"]
    assert broken[0]["file"] == __file__
    assert SECRET not in repr(lines)


def test_another_thread_s_exception_reaches_the_hook_that_was_there_before(hook: Hook) -> None:
    with guarded():
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join(DEADLINE_S)
    assert [(failed.thread, failed.exc_type) for failed in hook.failed] == [(thread, RuntimeError)]


def test_the_former_hook_is_back_afterwards(hook: Hook) -> None:
    with guarded():
        assert threading.excepthook is not hook
    assert threading.excepthook is hook


def test_a_hook_that_somebody_set_meanwhile_stays(hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Hook()
    with guarded():
        monkeypatch.setattr(threading, "excepthook", other)
    assert threading.excepthook is other


def test_after_two_guards_that_ended_in_the_order_of_their_start_exceptions_reach_the_former_hook(hook: Hook) -> None:
    """As two listeners of one process do."""
    first, second = guarded(), guarded()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    thread = threading.Thread(target=fail)
    thread.start()
    thread.join(DEADLINE_S)
    assert len(hook.failed) == 1
