"""A whole stack per test: real processes on a data folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from workers.local import StackInfo, read_stack, stop_stack
from workers.stack import CTREPORT, reader_url

READY_S = 90.0
FAST = {
    "CTREPORT_ASSEMBLE_QUIET_S": "1",
    "CTREPORT_ASSEMBLE_PATIENCE_S": "2",
    "CTREPORT_WORK_SWEEP_S": "0.5",
    "CTREPORT_WORK_LEASE_S": "3",
    "CTREPORT_WORK_RETRY_DELAY_S": "0.5",
    "CTREPORT_REDIS_VISIBILITY_TIMEOUT_S": "20",
}


@dataclass(frozen=True)
class RunningStack:
    """A stack and the commands that a person would type."""

    data: Path
    env: dict[str, str]

    @property
    def info(self) -> StackInfo:
        info = read_stack(self.data)
        assert info is not None, (self.data / "up.log").read_text()
        return info

    def ctreport(self, *arguments: str, expect: int | None = 0) -> str:
        """Standard output of one command."""
        ran = subprocess.run(
            [*CTREPORT, *arguments, "--data", str(self.data)], capture_output=True, text=True, env=self.env, timeout=120, check=False
        )
        if expect is not None:
            assert ran.returncode == expect, ran.stdout + ran.stderr
        return ran.stdout

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """One command in the background."""
        return subprocess.Popen([*CTREPORT, *arguments, "--data", str(self.data)], env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def resend(self, folder: Path) -> Any:
        """Send until every file is accepted, as a scanner does after a failure."""
        return eventually(lambda: (sent := self.json("send", str(folder), expect=None))["failed"] == [] and sent)

    def json(self, *arguments: str, expect: int | None = 0) -> Any:
        return json.loads(self.ctreport(*arguments, "--json", "-", expect=expect))

    def query(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows as the application role sees them."""
        with psycopg.connect(self.info.database_url) as connection:
            return connection.execute(sql, values).fetchall()

    def read(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        """Rows as the read-only role sees them."""
        with psycopg.connect(reader_url(self.info)) as connection:
            return connection.execute(sql, values).fetchall()

    def logs(self) -> str:
        """Everything that any process of the stack wrote."""
        return "".join(path.read_text(errors="replace") for path in sorted((self.data / "logs").glob("*.log")))


def eventually(found: Callable[[], Any], timeout_s: float = 90.0) -> Any:
    """The first true answer of `found`, asked again until the deadline."""
    deadline = time.monotonic() + timeout_s
    while not (answer := found()):
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s"
        time.sleep(0.05)
    return answer


@contextmanager
def running(data: Path, **env: str) -> Iterator[RunningStack]:
    """`ctreport up` on `data`, stopped at the end."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CTREPORT_")}
    stack = RunningStack(data, kept | FAST | {"CTREPORT_MODE": "demo"} | env)
    data.mkdir(parents=True, exist_ok=True)
    with (data / "up.log").open("ab") as output:
        up = subprocess.Popen([*CTREPORT, "up", "--data", str(data), "--port", "0", "--web-port", "0"], stdout=output, stderr=output, env=stack.env)
    try:
        eventually(lambda: read_stack(data) or up.poll() is not None, READY_S)
        assert up.poll() is None, (data / "up.log").read_text()
        yield stack
    finally:
        if up.poll() is None:
            stop_stack(data, timeout_s=60)
        up.wait(timeout=10)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """One demo stack for the tests of a module."""
    with running(tmp_path_factory.mktemp("stack")) as started:
        yield started
