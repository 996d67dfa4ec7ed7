"""Fixtures that every test may use: a real PostgreSQL, a real Valkey, the public test data, and a fence around the network."""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest
import redis

from workers.embedded.postgres import Postgres
from workers.embedded.valkey import Valkey

# How long one example takes says something about the machine, not about the code.
hypothesis.settings.register_profile("ctreport", deadline=None)
hypothesis.settings.load_profile("ctreport")

# A test database need not survive a power cut.
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
NO_DATA = "test data not found"
ON = ("1", "true", "yes")


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Postgres]:
    """One embedded PostgreSQL for the whole session."""
    server = Postgres(tmp_path_factory.mktemp("postgres"), settings=FAST)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def database_url(postgres_server: Postgres) -> Iterator[str]:
    """postgresql:// URL of a fresh, empty database, dropped after the test."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        yield postgres_server.url_of(name)
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    """One embedded Valkey for the whole session."""
    server = Valkey(tmp_path_factory.mktemp("valkey"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def redis_url(redis_server: Valkey) -> str:
    """redis:// URL of an empty Valkey."""
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture(scope="session")
def test_data() -> Path:
    """Folder of the public test data (CTREPORT_TEST_DATA, else ../shared/data beside the checkout); skips without it, fails in CI."""
    default = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("CTREPORT_TEST_DATA") or default)
    if folder.is_dir():
        return folder
    message = f"{NO_DATA} at {folder}; set CTREPORT_TEST_DATA to its folder"
    if os.environ.get("CI", "").lower() in ON:
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="session", autouse=True)
def _loopback_only() -> Iterator[None]:
    """A Python socket that leaves this machine fails the test."""
    connect, connect_ex = socket.socket.connect, socket.socket.connect_ex

    def guarded_connect(self: socket.socket, address: object) -> None:
        _refuse_outside(self, address)
        connect(self, address)  # type: ignore[arg-type]  # the address is handed on as it came

    def guarded_connect_ex(self: socket.socket, address: object) -> int:
        _refuse_outside(self, address)
        return connect_ex(self, address)  # type: ignore[arg-type]  # the address is handed on as it came

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", guarded_connect)
        patch.setattr(socket.socket, "connect_ex", guarded_connect_ex)
        yield


@pytest.fixture(scope="session", autouse=True)
def _signals_heard() -> Iterator[None]:
    """Tests that send signals, and the processes they start, hear them also under nohup or in a background job, where they begin ignored."""
    ignored = [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is signal.SIG_IGN]
    for number in ignored:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


def _refuse_outside(sock: socket.socket, address: object) -> None:
    if sock.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return
    host = str(address[0])
    if host != "localhost" and not _is_loopback(host):
        raise AssertionError(f"a test tried to connect to {host}; tests may open loopback sockets only")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests marked `sglang`, `vllm`, `fire` or `long` out, unless -m asks for them, or CTREPORT_LONG=1 for the long ones."""
    if config.getoption("markexpr"):
        return
    own = {"sglang", "vllm", "fire"}  # these need environments of their own, or a machine to themselves
    unwanted = own if os.environ.get("CTREPORT_LONG", "").lower() in ON else {*own, "long"}
    left_out = [item for item in items if unwanted & {marker.name for marker in item.iter_markers()}]
    if left_out:
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in the last lines how much was not tested for lack of test data."""
    skipped = terminalreporter.stats.get("skipped", [])
    missing = sum(1 for report in skipped if NO_DATA in str(report.longrepr))
    if missing:
        terminalreporter.write_line(f"{missing} tests were skipped because the test data was not found (CTREPORT_TEST_DATA).", yellow=True)
