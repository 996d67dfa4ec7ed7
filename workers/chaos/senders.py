"""Scanners under fire: several associations at a time, each study sent again and again until every file of it has been accepted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pipeline.dicom.send import SendResult, send
from workers.chaos.studies import TrialStudy

AGAIN_S = 0.3
ASSOCIATIONS = 4


@dataclass(frozen=True)
class Peer:
    """Where studies are sent to."""

    host: str
    port: int
    aet: str


@dataclass
class Sending:
    """Studies on their way. `pace_s`: seconds between the beginnings of two; the times that files were refused or got no answer are counted."""

    peer: Peer
    studies: Sequence[TrialStudy]
    pace_s: float = 0.0
    send_files: Callable[..., SendResult] = send
    acknowledged: set[Path] = field(default_factory=set)
    refused: int = 0
    _next: int = 0
    _done: int = 0
    _threads: list[threading.Thread] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _over: threading.Event = field(default_factory=threading.Event)

    def start(self, associations: int = ASSOCIATIONS) -> None:
        """Begin."""
        began = time.monotonic()
        for number in range(associations):
            self._threads.append(threading.Thread(target=self._run, args=(began,), name=f"scanner-{number}", daemon=True))
            self._threads[-1].start()

    def wait(self, timeout_s: float) -> bool:
        """True once everything is acknowledged, False when the time is over first; nothing is sent any more then."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        self._over.set()
        return self._done == len(self.studies)

    def _run(self, began: float) -> None:
        while (number := self._take()) < len(self.studies) and not self._over.wait(max(0.0, began + number * self.pace_s - time.monotonic())):
            self._send(self.studies[number])

    def _take(self) -> int:
        with self._lock:
            self._next += 1
            return self._next - 1

    def _send(self, study: TrialStudy) -> None:
        files = study.files()
        while not self._over.is_set():
            result = self.send_files(files, self.peer.host, self.peer.port, self.peer.aet)
            failed = {Path(failure.file) for failure in result.failed}
            with self._lock:
                self.acknowledged.update(set(files) - failed)
                self.refused += len(failed)
                self._done += not failed
            if not failed:
                return
            self._over.wait(AGAIN_S)
