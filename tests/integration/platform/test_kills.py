"""Killing the launcher, its services and its processes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest
import redis

from tests.integration.platform.launching import launched, put_word, until, words
from workers.embedded import cluster, identity
from workers.embedded.binaries import find_postgres
from workers.embedded.info import StackInfo
from workers.embedded.postgres import Postgres
from workers.embedded.processes import Child, running_in, start_ticks
from workers.embedded.valkey import Valkey
from workers.local import read_stack


def _nothing_runs(info: StackInfo) -> bool:
    left = running_in(info.data / "postgres" / "cluster", ["postgres"]) + running_in(info.data / "valkey", ["valkey-server", "redis-server"])
    return not left and all(part.pid is None or start_ticks(part.pid) is None for part in info.parts)


def test_killing_the_launcher_leaves_nothing_running_and_the_next_start_has_the_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with launched(data, "listener", "worker") as launcher:
        info = launcher.ready()
        put_word(info.database_url, "kept")
        os.kill(info.pid, signal.SIGKILL)
        until(lambda: _nothing_runs(info), "no process of the killed launcher is left")
    assert read_stack(data) is None
    with launched(data, "listener", "worker") as launcher:
        assert words(launcher.ready().database_url) == ["kept"]


def test_killed_services_and_processes_come_back_on_the_same_ports_with_their_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with launched(data, "worker") as launcher:
        before = launcher.ready()
        put_word(before.database_url, "kept")
        for name in ("postgres", "valkey", "worker"):
            os.kill(before.part(name).pid or 0, signal.SIGKILL)
        until(lambda: all(part.pid and part.restarts == 1 for part in _now(data).parts), "every part restarted once")
        after = _now(data)
        assert (after.ports, after.database_url, after.redis_url) == (before.ports, before.database_url, before.redis_url)
        assert not {part.pid for part in after.parts} & {part.pid for part in before.parts}
        assert words(after.database_url) == ["kept"]
        with redis.Redis.from_url(after.redis_url) as client:
            assert client.ping()


def _now(data: Path) -> StackInfo:
    info = read_stack(data)
    assert info is not None
    return info


def test_an_interrupted_first_start_does_not_break_the_next(tmp_path: Path) -> None:
    data = tmp_path / "data"
    unfinished = data / "postgres" / "cluster.new"
    with launched(data) as launcher:
        until(lambda: unfinished.exists(), "initdb is under way")
        os.kill(launcher.process.pid, signal.SIGKILL)
        launcher.finish()
    assert not (data / "postgres" / "cluster").exists()
    with launched(data) as launcher:
        put_word(launcher.ready().database_url, "here")
    assert not unfinished.exists()


def test_a_lock_file_of_a_killed_server_that_names_a_living_process_is_no_obstacle(tmp_path: Path) -> None:
    server = Postgres(tmp_path / "postgres")
    server.start()
    lock_file = server.cluster / "postmaster.pid"
    lines = lock_file.read_text(encoding="utf-8").splitlines()
    os.kill(server.pid or 0, signal.SIGKILL)
    until(lambda: not server.alive(), "the server is dead")
    lock_file.write_text("\n".join([str(os.getpid()), *lines[1:]]) + "\n", encoding="utf-8")
    server.start()
    assert server.stop()


def test_an_orphan_on_our_cluster_is_stopped_before_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "postgres"
    server = Postgres(folder)
    server.start()
    server.stop()
    who = identity.choose(server.folder)
    _, programs = find_postgres(who, cluster.made_by(server.cluster))
    command = [str(programs / "postgres"), "-D", str(server.cluster), "-h", "127.0.0.1", "-p", str(server.port), "-k", ""]
    orphan = Child(command, tmp_path / "orphan.log", identity=who)
    until(lambda: "ready" in _text(server.cluster / "postmaster.pid"), "the orphan serves")
    second = Postgres(folder)
    second.start()
    try:
        assert not orphan.alive()
        with psycopg.connect(second.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        second.stop()


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


def test_bells_that_valkey_cannot_load_are_set_aside(tmp_path: Path) -> None:
    server = Valkey(tmp_path)
    server.start()
    server.stop()
    if not (tmp_path / "appendonlydir").exists():
        pytest.skip("this Redis keeps its append-only file elsewhere")
    for part in (tmp_path / "appendonlydir").iterdir():
        part.write_bytes(b"*1\r\n$-9\r\nnot a command" * 20)
    server.start()
    try:
        with redis.Redis.from_url(server.url) as client:
            assert client.dbsize() == 0
        assert len(list(tmp_path.glob("appendonlydir.unread.*"))) == 1
    finally:
        assert server.stop()
