"""The listener as its own process or processes, as a site runs it: `ctreport listener` on a migrated database."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from workers.embedded.ports import free_port, is_listening
from workers.stack import CTREPORT

READY_S = 60.0


@dataclass
class ListenerProcess:
    """Started, killed and started again on the same data folder and port. `wrapper` is a command line that runs it."""

    data: Path
    env: dict[str, str]
    port: int
    wrapper: Sequence[str] = ()
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def log(self) -> Path:
        return self.data / "listener.log"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """In a session of its own; returns when the port is listened on and an association would be accepted."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*self.wrapper, *CTREPORT, "listener"], env=self.env, stdout=output, stderr=output, start_new_session=True, cwd=Path.cwd()
            )
        deadline = time.monotonic() + READY_S
        while not is_listening(self.port):
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        """SIGKILL every process of it at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(timeout=10)

    def stop(self) -> None:
        """SIGTERM, and wait."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.kill()
                raise

    def exit_code(self, timeout_s: float = 15.0) -> int:
        """Of its first process, which is about to end."""
        assert self._process is not None
        return self._process.wait(timeout_s)

    def processes(self) -> list[psutil.Process]:
        """The process and what it forked."""
        first = psutil.Process(self.pid)
        return [first, *first.children(recursive=True)]

    def threads(self) -> int:
        """Of all its processes."""
        return sum(process.num_threads() for process in self.processes())

    def descriptors(self) -> int:
        """Of all its processes."""
        return sum(process.num_fds() for process in self.processes())

    def resident_mb(self) -> dict[int, float]:
        """Resident MiB by process id."""
        return {process.pid: process.memory_info().rss / (1 << 20) for process in self.processes()}

    def peak_mb(self) -> dict[int, float]:
        """Largest resident MiB ever, by process id."""
        return {process.pid: _peak_kib(process.pid) / 1024 for process in self.processes()}

    def connections(self) -> int:
        """Open ones of its port, on its side."""
        found = (c for process in self.processes() for c in process.net_connections("tcp"))
        return sum(1 for c in found if c.laddr.port == self.port and c.status != psutil.CONN_LISTEN)

    def ctreport(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One command at the same site."""
        return subprocess.run([*CTREPORT, *arguments], env=self.env, capture_output=True, text=True, timeout=120, check=False)


def _peak_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))


@contextmanager
def listening(data: Path, database_url: str, redis_url: str, wrapper: Sequence[str] = (), **env: str) -> Iterator[ListenerProcess]:
    """A listener process on a migrated database, ended at the end of the block."""
    data.mkdir(parents=True, exist_ok=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CTREPORT_")}
    port = free_port()
    ours = {
        "CTREPORT_MODE": "demo",
        "CTREPORT_DATA": str(data),
        "CTREPORT_DATABASE_URL": database_url,
        "CTREPORT_REDIS_URL": redis_url,
        "CTREPORT_LISTENER_PORT": str(port),
        "CTREPORT_ARCHIVE_FREE_FLOOR_MB": "0",
    }
    made = ListenerProcess(data, kept | ours | env, port, wrapper)
    made.start()
    try:
        yield made
    finally:
        with contextlib.suppress(ProcessLookupError):
            made.stop()
