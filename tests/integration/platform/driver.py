"""A launcher for tests, run as its own process: `python -m tests.integration.platform.driver DATA [NAME…]` with one sleeping process per NAME."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import psycopg

from pipeline import log
from workers.local import ProcessSpec, Stack, StackInfo

SLEEP = ("/bin/sleep", "600")


def migrate(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (word text)")


def main(data: str, *names: str) -> None:
    def specs(_info: StackInfo) -> list[ProcessSpec]:
        return [ProcessSpec(name, SLEEP, stop_order=order) for order, name in enumerate(names)]

    log.configure()
    stack = Stack(Path(data), migrate=migrate, specs=specs)
    # a signal may come before wait() is reached
    with contextlib.suppress(SystemExit), stack:
        print("ready", flush=True)
        stack.wait()
    print(" ".join(stack.stopped), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
