"""Child processes that die with the launcher, and what `/proc` says about processes of earlier launchers."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from workers.embedded import child

POLL_S = 0.02


class Identity(enum.StrEnum):
    """Who a child runs as."""

    SELF = "self"
    USERNS = "userns"  # root, seen as user 1 by the program
    NOBODY = "nobody"


def wrapped(argv: Sequence[str], identity: Identity, death_signal: signal.Signals) -> list[str]:
    """The command line that starts `argv` as a child which gets `death_signal` when the calling thread ends."""
    stand_in = [sys.executable, "-I", "-S", child.__file__]
    return [*stand_in, str(os.getpid()), str(int(death_signal)), identity.value, *argv]


class Child:
    """One child process in a session of its own, appending its output to `log`. Start it from a thread that lives as long as it should."""

    def __init__(
        self,
        argv: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        identity: Identity = Identity.SELF,
        death_signal: signal.Signals = signal.SIGKILL,
    ) -> None:
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                wrapped(argv, identity, death_signal),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(env) if env is not None else None,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id; the stand-in keeps it when it becomes the program."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """Exit status once `alive()` was false (negative: the signal), else None."""
        return self._popen.returncode

    def alive(self) -> bool:
        """True while the process runs; the first False also ends what is left of its process group."""
        if self._popen.returncode is not None:
            return False
        if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            return True
        # The dead leader is not reaped yet, so its group number cannot belong to anybody else.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
        return False

    def send(self, signal_number: signal.Signals) -> None:
        """Signal the process if it still runs."""
        if self.alive():
            self._popen.send_signal(signal_number)

    def wait(self, timeout_s: float) -> bool:
        """True as soon as the process has ended, False after `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while self.alive():
            if time.monotonic() >= deadline:
                return False
            time.sleep(POLL_S)
        return True

    def stop(self, steps: Iterable[tuple[signal.Signals, float]]) -> bool:
        """Send each signal in turn and wait its seconds; SIGKILL comes last in any case. True if it ended before that."""
        for signal_number, timeout_s in steps:
            self.send(signal_number)
            if self.wait(timeout_s):
                return True
        self.send(signal.SIGKILL)
        self._popen.wait()
        return False


def start_ticks(pid: int) -> int | None:
    """When the process started (clock ticks since boot), None when there is none: pid and ticks together never repeat."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else int(fields[19])


def running_in(folder: Path, names: Iterable[str]) -> list[int]:
    """Processes called one of `names` whose working folder is `folder`: PostgreSQL and Valkey stay in their data folder."""
    wanted, place = frozenset(names), str(folder.resolve())
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if os.readlink(entry / "cwd") == place and Path(os.readlink(entry / "exe")).name in wanted:
                    found.append(int(entry.name))
    return found


def end_all_in(folder: Path, names: Sequence[str], steps: Iterable[tuple[signal.Signals, float]]) -> int:
    """End what an earlier launcher left running in `folder`, gently first; the number of processes that were found."""
    found = running_in(folder, names)
    for signal_number, timeout_s in [*steps, (signal.SIGKILL, 5.0)]:
        deadline = time.monotonic() + timeout_s
        for pid in running_in(folder, names):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal_number)
        while running_in(folder, names) and time.monotonic() < deadline:
            time.sleep(POLL_S)
    return len(found)
