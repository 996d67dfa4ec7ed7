"""One launcher, its lock, its ports, and the order in which it stops."""

from __future__ import annotations

import os
import signal
import socket
import stat
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from pipeline.errors import NotAllowed, Permanent, ServiceUnavailable
from tests.integration.platform.driver import SLEEP, migrate
from tests.integration.platform.launching import launched, put_word, until, words
from workers.embedded import stopping
from workers.embedded.ports import LOOPBACK, free_port
from workers.embedded.postgres import Postgres
from workers.embedded.processes import start_ticks
from workers.embedded.valkey import Valkey
from workers.local import ProcessSpec, Stack, StackInfo, is_listening, read_stack, stop_stack

# writes "deaf" once it ignores SIGTERM
DEAF = (sys.executable, "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)")


def _stack(data: Path, *specs: ProcessSpec, ports: dict[str, int] | None = None) -> Stack:
    """A stack without services of its own."""

    def no_migration(_url: str) -> None: ...

    def given(_info: StackInfo) -> Sequence[ProcessSpec]:
        return specs

    return Stack(data, migrate=no_migration, specs=given, database_url="postgresql://elsewhere/x", redis_url="redis://elsewhere/0", ports=ports)


def test_two_stacks_run_side_by_side_and_do_not_mix(tmp_path: Path) -> None:
    with launched(tmp_path / "a") as first, launched(tmp_path / "b") as second:
        one, two = first.ready(), second.ready()
        assert not set(one.ports.values()) & set(two.ports.values())
        put_word(one.database_url, "first")
        put_word(two.database_url, "second")
        assert (words(one.database_url), words(two.database_url)) == (["first"], ["second"])


def test_down_stops_a_stack_in_order_and_leaves_no_trace_of_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with launched(data, "listener", "beat", "worker-io", "web") as launcher:
        info = launcher.ready()
        assert stat.S_IMODE((data / "stack.json").stat().st_mode) == 0o600
        assert stop_stack(data)
        output, errors = launcher.finish()
    assert output.split() == ["listener", "beat", "worker-io", "web", "valkey", "postgres"]
    assert launcher.process.returncode == 0
    assert "password" not in errors
    assert info.database_url.split(":")[2].split("@")[0] not in errors
    assert all(start_ticks(part.pid or 0) is None for part in info.parts)
    assert read_stack(data) is None
    assert not stop_stack(data)


def test_a_second_up_on_the_same_folder_is_refused_with_the_process(tmp_path: Path) -> None:
    with (
        _stack(tmp_path / "data", ProcessSpec("worker", SLEEP)) as first,
        pytest.raises(NotAllowed, match=rf"process {os.getpid()}\) already runs .*ctreport down"),
        _stack(tmp_path / "data"),
    ):
        pass
    assert first.stopped == ["worker"]
    assert read_stack(tmp_path / "data") is None


def test_processes_with_one_stop_order_stop_together_and_a_deaf_one_is_killed_after_its_grace(tmp_path: Path) -> None:
    specs = (ProcessSpec("deaf", DEAF, stop_order=1, grace_s=0.3), ProcessSpec("listener", SLEEP), ProcessSpec("worker", SLEEP, stop_order=1))
    with _stack(tmp_path, *specs) as stack:
        until(lambda: "deaf" in (tmp_path / "logs" / "deaf.log").read_text(encoding="utf-8"), "the deaf process ignores signals")
    assert stack.stopped == ["listener", "worker", "deaf"]


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_one_signal_stops_and_a_second_one_shortens_the_grace(tmp_path: Path, first: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopping, "HURRIED_GRACE_S", 0.1)
    before = signal.getsignal(first)
    with _stack(tmp_path, ProcessSpec("deaf", DEAF, grace_s=600)) as stack:
        until(lambda: "deaf" in (tmp_path / "logs" / "deaf.log").read_text(encoding="utf-8"), "the deaf process ignores signals")
        threading.Timer(0.1, os.kill, [os.getpid(), first]).start()
        stack.wait()
        second = threading.Timer(0.3, os.kill, [os.getpid(), signal.SIGINT])
        second.start()
    second.join()
    assert stack.stopped == ["deaf"]
    assert signal.getsignal(first) is before


def test_a_process_that_ends_before_it_is_ready_is_named_with_its_log(tmp_path: Path) -> None:
    failing = ProcessSpec("listener", (sys.executable, "-c", "import sys; sys.exit('no licence')"), ready=lambda: False)
    with (
        pytest.raises(ServiceUnavailable, match=r"listener ended with code 1 before it was ready; its log .*listener\.log"),
        _stack(tmp_path, failing),
    ):
        pass
    assert "no licence" in (tmp_path / "logs" / "listener.log").read_text(encoding="utf-8")
    assert read_stack(tmp_path) is None


def test_processes_find_the_services_and_the_data_in_their_environment(tmp_path: Path) -> None:
    shown = ProcessSpec("shown", ("/bin/sh", "-c", 'echo "$CTREPORT_DATABASE_URL $CTREPORT_DATA $EXTRA"; exec sleep 600'), env={"EXTRA": "more"})
    log = tmp_path / "logs" / "shown.log"
    with _stack(tmp_path, shown):
        until(lambda: log.exists() and "\n" in log.read_text(encoding="utf-8"), "the process has started")
    assert log.read_text(encoding="utf-8").split() == ["postgresql://elsewhere/x", str(tmp_path), "more"]


def test_a_taken_port_is_named_with_its_setting_and_free_ones_are_given_out(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, free_port())) as other:
        port = int(other.getsockname()[1])
        assert is_listening(port)
        with (
            pytest.raises(ServiceUnavailable, match=f"port {port} .* listener, is taken .* the port of listener"),
            _stack(tmp_path, ports={"listener": port}),
        ):
            pass
        with pytest.raises(ServiceUnavailable, match=f"port {port} .* PostgreSQL, is taken .* --postgres-port"):
            Postgres(tmp_path / "postgres", port, port_setting="--postgres-port").start()
        with pytest.raises(ServiceUnavailable, match=f"port {port} .* Valkey, is taken .* --valkey-port"):
            Valkey(tmp_path / "valkey", port, port_setting="--valkey-port").start()
    with _stack(tmp_path, ports={"listener": 0}) as stack:
        assert stack.info.ports["listener"] > 0


def test_a_folder_made_by_another_version_is_refused_with_both_versions(tmp_path: Path) -> None:
    (tmp_path / "postgres" / "cluster").mkdir(parents=True)
    (tmp_path / "postgres" / "cluster" / "PG_VERSION").write_text("9\n", encoding="ascii")
    with (
        pytest.raises(Permanent, match=r"made by PostgreSQL 9, but only PostgreSQL \d+.* is installed here; install PostgreSQL 9"),
        Stack(tmp_path, migrate=migrate, specs=lambda _info: []),
    ):
        pass
