"""Starting, killing and asking test launchers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg

from workers.embedded.info import StackInfo
from workers.local import read_stack

ROOT = Path(__file__).resolve().parents[3]
DEADLINE_S = 60.0


class Launcher:
    """One running test launcher on a data folder; `prefix` is a command that runs it as somebody else."""

    def __init__(self, data: Path, *names: str, prefix: Sequence[str] = (), python: str = sys.executable) -> None:
        self.data = data
        self.process = subprocess.Popen(
            [*prefix, python, "-m", "tests.integration.platform.driver", str(data), *names],
            cwd="/",
            env=environment(data.parent),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ready(self) -> StackInfo:
        assert self.process.stdout is not None
        if self.process.stdout.readline().strip() != "ready":
            raise AssertionError(self.process.communicate(timeout=DEADLINE_S)[1])
        info = read_stack(self.data)
        assert info is not None
        return info

    def finish(self) -> tuple[str, str]:
        output, errors = self.process.communicate(timeout=DEADLINE_S)
        return output, errors


def environment(home: Path) -> dict[str, str]:
    """Ours, for a Python that may not be the one of this virtual environment."""
    packages = Path(psycopg.__file__).parents[1]
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{packages}", "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}


@contextlib.contextmanager
def launched(data: Path, *names: str, prefix: Sequence[str] = (), python: str = sys.executable) -> Iterator[Launcher]:
    """A launcher that is stopped at the end of the test, whatever happens."""
    launcher = Launcher(data, *names, prefix=prefix, python=python)
    try:
        yield launcher
    finally:
        if launcher.process.poll() is None:
            launcher.process.terminate()
        launcher.process.communicate(timeout=DEADLINE_S)


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {DEADLINE_S:.0f} s: {what}")
        time.sleep(0.02)


def put_word(url: str, word: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO kept VALUES (%s)", [word])


def words(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT word FROM kept ORDER BY word").fetchall()]
