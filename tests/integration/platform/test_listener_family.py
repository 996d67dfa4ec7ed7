"""The listener's forked processes: replaced when they die, gone when their parent is, ended in order when told."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

from pipeline.errors import ServiceUnavailable
from pipeline.settings import Settings
from tests.integration.dicom.images import made
from tests.listener_process import ListenerProcess, listening
from tests.wire import IMPLICIT_LE, VERIFICATION, Gone, Peer, connect
from workers import listener as entry
from workers.stack import CTREPORT

DEADLINE_S = 30.0
KINDS = ((VERIFICATION, IMPLICIT_LE),)


@pytest.fixture
def listener(tmp_path: Path, url: str, redis_url: str) -> Iterator[ListenerProcess]:
    with listening(tmp_path / "site", url, redis_url, CTREPORT_LISTENER_PROCESSES="2") as running:
        yield running


def until(condition: Callable[[], Any], timeout_s: float = DEADLINE_S) -> Any:
    deadline = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def children(listener: ListenerProcess) -> list[psutil.Process]:
    """Both, as soon as they are born."""
    until(lambda: len(listener.processes()) == 3)
    return listener.processes()[1:]


def serves(listener: ListenerProcess, child: psutil.Process, peer: Peer) -> bool:
    """True when this child has accepted the peer's connection."""
    port = peer.socket.getsockname()[1]
    return any(found.raddr and found.raddr.port == port for found in child.net_connections("tcp"))


def rows(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT listener, how FROM associations ORDER BY listener, opened_at").fetchall()


def test_associations_are_spread_and_a_process_that_dies_is_replaced(listener: ListenerProcess, url: str) -> None:
    killed, other = children(listener)
    with ExitStack() as peers:
        lost, kept = [until(partial(peer_of, listener, child, peers)) for child in (killed, other)]
        assert [made(number, "family").sent(peer) for number, peer in enumerate((lost, kept))] == [0x0000, 0x0000]
        killed.kill()
        with pytest.raises(Gone):
            made(2, "family").sent(lost)
        assert made(3, "family").sent(kept) == 0x0000, "the other process's associations go on"
        until(lambda: killed not in listener.processes())
        (born,) = set(children(listener)) - {other}
        assert made(2, "family").sent(until(lambda: peer_of(listener, born, peers))) == 0x0000
    until(lambda: rows(url) == [("listener-1", "lost"), ("listener-1", "lost"), ("listener-2", "lost")])


def peer_of(listener: ListenerProcess, child: psutil.Process, peers: ExitStack) -> Peer | None:
    """A new association, when it is this child that serves it; else it stays open, so that the child is the less busy one."""
    peer = peers.enter_context(Peer(listener.port))
    return peer if serves(listener, child, peer) else None


def test_when_the_parent_is_killed_its_children_are_gone_at_once_and_the_port_is_free(listener: ListenerProcess) -> None:
    orphans = children(listener)
    with Peer(listener.port, *KINDS) as peer:
        assert peer.echo() == 0x0000
        os.kill(listener.pid, signal.SIGKILL)
        gone, alive = psutil.wait_procs(orphans, timeout=5.0)
        assert (len(gone), alive) == (2, [])
        with pytest.raises((Gone, ConnectionError)):
            peer.echo()
    listener.stop()
    listener.start()
    with Peer(listener.port) as peer:
        assert made(1, "family").sent(peer) == 0x0000
        peer.release()


def test_told_to_end_it_lets_associations_finish_and_takes_no_new_ones(listener: ListenerProcess, url: str) -> None:
    members = children(listener)
    with ExitStack() as open_peers:
        peers = [open_peers.enter_context(Peer(listener.port)) for _ in range(6)]
        os.kill(listener.pid, signal.SIGTERM)
        until(lambda: refuses(listener.port))
        for number, peer in enumerate(peers):
            assert made(number, "family").sent(peer) == 0x0000
            peer.release()
    gone, alive = psutil.wait_procs(members, timeout=15.0)
    assert (len(gone), alive) == (2, [])
    assert listener.exit_code() == 0
    assert [how for _, how in rows(url)] == ["released"] * 6
    said = listener.log.read_text()
    assert "Traceback" not in said
    assert "listener_process_died" not in said


def refuses(port: int) -> bool:
    """True when nobody listens, rather than that nobody has time."""
    try:
        with connect(port, timeout_s=1.0):
            return False
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # it was about to stop listening
        return False


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_database_url_that_is_none_ends_it_with_a_sentence(tmp_path: Path, redis_url: str, processes: str) -> None:
    ran = once(
        tmp_path, CTREPORT_DATABASE_URL="mysql://someone:secret@127.0.0.1/x", CTREPORT_REDIS_URL=redis_url, CTREPORT_LISTENER_PROCESSES=processes
    )
    assert ran.returncode not in (0, None)
    assert "CTREPORT_DATABASE_URL is not a PostgreSQL URL" in ran.stderr + ran.stdout
    assert "secret" not in ran.stderr + ran.stdout
    assert "Traceback" not in ran.stderr + ran.stdout


def test_a_port_that_somebody_holds_ends_it_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "settings", Settings)  # read anew
    monkeypatch.setattr(entry, "BIND_PATIENCE_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setenv("CTREPORT_LISTENER_PORT", str(port))
        with pytest.raises(ServiceUnavailable, match=f"127.0.0.1:{port} cannot be listened on"):
            entry.serve()


def once(data: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """A listener that is expected to end by itself."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CTREPORT_")}
    ours = {"CTREPORT_MODE": "demo", "CTREPORT_DATA": str(data), "CTREPORT_LISTENER_PORT": "0"}
    return subprocess.run([*CTREPORT, "listener"], env=kept | ours | env, capture_output=True, text=True, timeout=DEADLINE_S, check=False)


# What follows forks from a small process of its own: the tests' process has children that are not the family's.
SCRIPT = """
import os, signal, sys, time
from pipeline.errors import ServiceUnavailable
from workers.listener import Family

def lives():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.write(1, f"{os.getpid()}\\n".encode())
    time.sleep(60)

def refuses():
    raise ServiceUnavailable("the thing is missing: bring it")

def breaks():
    raise ZeroDivisionError("bug")

def returns():
    pass

try:
    Family({f"{number} {name}": globals()[name] for number, name in enumerate(sys.argv[1:])}).run()
except ServiceUnavailable as error:
    sys.exit(str(error))
"""


@contextmanager
def family(*members: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, *members], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize(("member", "said"), [("refuses", "the thing is missing: bring it"), ("breaks", "ZeroDivisionError: bug"), ("returns", "")])
def test_a_process_that_cannot_live_ends_the_family_and_says_why(member: str, said: str) -> None:
    with family("lives", member) as process:
        output, errors = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 1
    assert "ends right after its start" in errors
    assert said in output + errors
    (sibling,) = (int(line) for line in output.splitlines() if line.isdigit())
    until(lambda: not psutil.pid_exists(sibling))


def test_a_family_that_is_told_to_end_ends_whole() -> None:
    with family("lives", "lives", "lives") as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=DEADLINE_S)
        assert (process.returncode, errors) == (0, "")
    assert not any(map(psutil.pid_exists, pids))


def test_a_family_that_is_told_to_end_while_it_is_born_ends_whole() -> None:
    for delay_s in (0.0, 0.002):
        with family("lives", "lives", "lives", "lives") as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(delay_s)
            process.terminate()
            process.terminate()
            _, errors = process.communicate(timeout=DEADLINE_S)
            assert (process.returncode, errors) == (0, "")
