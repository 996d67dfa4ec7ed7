"""What a process and its descendants have used, as /proc says (proc(5)): CPU seconds and peak memory."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

SAMPLE_S = 0.2
PROC = Path("/proc")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def cpu_s(root: int) -> float:
    """CPU seconds of the process, of its descendants (zombies too) and of the children that they have waited for. Resolution: 10 ms a process."""
    return sum(ticks(text) for pid in tree(root) if (text := _read(pid, "stat"))) / TICKS_PER_S


def ticks(stat: str) -> int:
    """utime + stime + cutime + cstime of a stat line, clock ticks."""
    fields = stat.rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15])


def parent(stat: str) -> int:
    """Process id of the parent in a stat line."""
    return int(stat.rpartition(")")[2].split()[1])


def kilobytes(text: str, key: str) -> int:
    """A figure of `status` or `smaps_rollup` in KiB; 0 where it is not there (a zombie has none)."""
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{key}:")), 0)


def tree(root: int) -> list[int]:
    """The process and all that descend from it and live now."""
    parents = {pid: parent(stat) for pid in _pids() if (stat := _read(pid, "stat"))}
    found = [root] if root in parents else []
    for pid in found:
        found += [child for child, of in parents.items() if of == pid]
    return found


class PeakMemory:
    """Peak memory of a process tree while the block runs, looked at five times a second.

    `mb`: sum of VmHWM (the kernel's own peak) over every process that was seen, pages that several share counted in each: an upper bound.
    `pss_mb`: the largest sum of proportional set sizes at one moment, shared pages counted once. MB are 10^6 bytes.
    """

    def __init__(self, root: int) -> None:
        self._root = root
        self._peaks_kb: dict[int, int] = {}
        self._pss_kb = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="peak-memory", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    @property
    def mb(self) -> float:
        """Sum of VmHWM in MB."""
        return sum(self._peaks_kb.values()) * 1024 / 1e6

    @property
    def pss_mb(self) -> float:
        """Largest sum of PSS in MB."""
        return self._pss_kb * 1024 / 1e6

    def _run(self) -> None:
        self._look()
        while not self._done.wait(SAMPLE_S):
            self._look()
        self._look()

    def _look(self) -> None:
        pids = tree(self._root)
        for pid in pids:
            self._peaks_kb[pid] = max(self._peaks_kb.get(pid, 0), kilobytes(_read(pid, "status"), "VmHWM"))
        self._pss_kb = max(self._pss_kb, sum(kilobytes(_read(pid, "smaps_rollup"), "Pss") for pid in pids))


def _pids() -> Iterable[int]:
    return [int(entry) for entry in os.listdir(PROC) if entry.isdigit()]


def _read(pid: int, name: str) -> str:
    """A file of a process, empty when the process is gone or the file is not ours to read."""
    with contextlib.suppress(OSError):
        return (PROC / str(pid) / name).read_text(encoding="utf-8", errors="replace")
    return ""
