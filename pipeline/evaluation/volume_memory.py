"""Peak memory of this process and those that it starts, above what it held before (proc(5))."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from pipeline.evaluation.receive_usage import PROC, kilobytes, tree

SAMPLE_S = 0.01
FORGET_PEAK = "5"  # written to clear_refs: VmHWM starts again at the present VmRSS


class Above:
    """`mb`: the larger of two peaks above the start of the block, in 10^6 bytes.

    One is this process's VmHWM, the kernel's own peak; the other, for readers that start processes, the largest sum of proportional set sizes
    (pages that several share counted once) of this process and its descendants, looked at a hundred times a second.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="peak-memory", daemon=True)
        self._pss_kb = 0

    def __enter__(self) -> Self:
        with contextlib.suppress(OSError):
            (PROC / str(self._pid) / "clear_refs").write_text(FORGET_PEAK, encoding="ascii")
        self._start_kb = self._own("status", "VmRSS")
        self._start_pss_kb = self._of_all()
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._done.set()
        self._thread.join()
        self.mb = max(self._own("status", "VmHWM") - self._start_kb, self._pss_kb - self._start_pss_kb) * 1024 / 1e6

    def _run(self) -> None:
        while not self._done.wait(SAMPLE_S):
            self._pss_kb = max(self._pss_kb, self._of_all())

    def _of_all(self) -> int:
        return sum(kilobytes(_read(PROC / str(pid) / "smaps_rollup"), "Pss") for pid in tree(self._pid))

    def _own(self, name: str, key: str) -> int:
        return kilobytes(_read(PROC / str(self._pid) / name), key)


def _read(path: Path) -> str:
    """Empty when the process is gone or the file is not ours to read."""
    with contextlib.suppress(OSError):
        return path.read_text(encoding="utf-8", errors="replace")
    return ""
