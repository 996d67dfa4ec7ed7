"""A RabbitMQ of Debian for tests, on loopback and in a folder of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import amqp
import pytest

from workers.embedded.ports import free_port

SCRIPTS = Path("/usr/lib/rabbitmq/bin")  # the one on PATH wants to become the user rabbitmq
START_S = 240.0


class Rabbit:
    """One node. Its folder survives a kill."""

    def __init__(self, folder: Path) -> None:
        self.port, self._epmd, self._peers = free_port(), free_port(), free_port()
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None
        # Erlang's name server; Erlang would start one itself that stays when everything else has ended
        names = ["epmd", "-port", str(self._epmd), "-address", "127.0.0.1"]
        self._names = subprocess.Popen(names, env=self._environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def start(self) -> None:
        """Start it and wait until it lets somebody in."""
        log = (self._folder / "rabbit.log").open("ab")
        self._process = subprocess.Popen([SCRIPTS / "rabbitmq-server"], env=self._environment(), stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_S
        while not self._lets_in():
            assert self._process.poll() is None, (self._folder / "rabbit.log").read_text(encoding="utf-8", errors="replace")
            assert time.monotonic() < deadline, "RabbitMQ lets nobody in"
            time.sleep(0.2)
        log.close()

    def kill(self) -> None:
        """SIGKILL: what it had not written is gone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # the script, and the Erlang that it started
            self._process.wait()

    def close(self) -> None:
        """End it and its name server."""
        self.kill()
        self._names.terminate()
        self._names.wait()

    def _lets_in(self) -> bool:
        try:
            with amqp.Connection(f"127.0.0.1:{self.port}", connect_timeout=2, read_timeout=5):
                return True
        except (OSError, amqp.AMQPError):
            return False

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))}
        folders = {name: str(self._folder / name.lower()) for name in ("RABBITMQ_MNESIA_BASE", "RABBITMQ_LOG_BASE")}
        return (
            kept
            | folders
            | {
                "HOME": str(self._folder),  # Erlang's cookie
                "ERL_EPMD_ADDRESS": "127.0.0.1",
                "ERL_EPMD_PORT": str(self._epmd),
                "RABBITMQ_CONF_ENV_FILE": "/dev/null",
                "RABBITMQ_CONFIG_FILE": str(self._folder / "none"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
                "RABBITMQ_NODENAME": f"ctreport{self.port}@localhost",
                "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
                "RABBITMQ_NODE_PORT": str(self.port),
                "RABBITMQ_DIST_PORT": str(self._peers),
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +S 1:1",
            }
        )


@contextmanager
def rabbit_server(folder: Path) -> Iterator[Rabbit]:
    """A node that is ended afterwards; skips where RabbitMQ is not installed."""
    if not (SCRIPTS / "rabbitmq-server").exists() or shutil.which("epmd") is None:
        pytest.skip("RabbitMQ is not installed (Debian: apt-get install --no-install-recommends rabbitmq-server)")
    server = Rabbit(folder)
    try:
        server.start()
        yield server
    finally:
        server.close()
