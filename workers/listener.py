"""Process entry of the listener: one socket, bound once, and processes forked from it that each serve associations of their own.

The fork comes before any thread or database connection. A process that dies is replaced; when this one dies, the kernel ends them all.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from functools import partial
from types import FrameType

from pipeline import log
from pipeline.dicom.transport import bind
from pipeline.errors import ServiceUnavailable
from pipeline.settings import settings
from workers import wiring

logger = log.get(__name__)
ENDING = (signal.SIGTERM, signal.SIGINT)
PR_SET_PDEATHSIG = 1
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
BIND_PATIENCE_S = 5.0  # a predecessor that was killed may still hold the port for a moment
SHORT_LIFE_S, SHORT_LIVES = 2.0, 3
MOST_PROCESSES = 32


def serve() -> None:
    """Listen until SIGTERM or SIGINT; associations under way may finish. Raises ServiceUnavailable when the port is taken."""
    room = settings().listener
    try:
        bound = bind(room.host, room.port, BIND_PATIENCE_S)
    except OSError as error:
        where = f"{room.host}:{room.port}"
        raise ServiceUnavailable(f"{where} cannot be listened on ({error.strerror}): choose another port or stop its owner") from error
    logger.info("listening", port=bound.getsockname()[1], processes=room.processes)
    if room.processes == 1:
        serve_one(bound, room.name, [f"{room.name}-{number}" for number in range(1, MOST_PROCESSES + 1)])
        return
    wiring.listener()  # its modules are loaded once, before the fork, and their memory is shared
    gc.freeze()
    names = [f"{room.name}-{number}" for number in range(1, room.processes + 1)]
    gone = [room.name, *(f"{room.name}-{number}" for number in range(room.processes + 1, MOST_PROCESSES + 1))]
    Family({name: partial(serve_one, bound, name, gone if name == names[0] else []) for name in names}, bound.close).run()


def serve_one(bound: socket.socket, name: str, gone: list[str]) -> None:
    """One listener on the shared socket, until it is told to end. `gone`: names whose open associations it closes as lost."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # in every thread to come: a handler would run when the main thread wakes, maybe never
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    _keep_memory()
    service = wiring.listener(bound, name, gone)
    service.start()
    bound.close()  # the service listens on a copy: once it ends, peers are refused instead of kept waiting
    signal.sigwait(ENDING)
    service.stop()


def _keep_memory() -> None:
    """Have glibc keep freed blocks for the next image: PDUs are larger than what it gives back to the kernel at once, which cost 500 page faults an
    image, a quarter of the time. Elsewhere than on glibc nothing happens. Python's collector has nothing to find in an image and runs less often."""
    gc.set_threshold(10_000, 10, 10)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 32 << 20)
        mallopt(M_TRIM_THRESHOLD, 64 << 20)


class Family:
    """Processes forked from this one, each replaced when it dies. Ends when it is told to, or when one cannot live; first of all it does `ending`."""

    def __init__(self, members: dict[str, Callable[[], None]], ending: Callable[[], None] = lambda: None) -> None:
        self._members, self._at_end = members, ending
        self._running: dict[int, tuple[str, float]] = {}  # pid → name, when it was born
        self._short_lives = 0
        self._ending = False

    def run(self) -> None:
        """Fork all, and stay until all have ended. Raises ServiceUnavailable when one dies again and again right after its start."""
        for number in ENDING:
            signal.signal(number, self._end)
        for name in self._members:
            self._fork(name)
        while self._running:
            pid, status = os.wait()
            name, born = self._running.pop(pid, ("", 0.0))
            if not self._ending and name:
                self._died(name, born, os.waitstatus_to_exitcode(status))
        if self._short_lives >= SHORT_LIVES:
            raise ServiceUnavailable("a process of the listener ends right after its start; its own message above says why")

    def _died(self, name: str, born: float, code: int) -> None:
        lived_s = time.monotonic() - born
        logger.warning("listener_process_died", process=name, code=code, lived_s=round(lived_s, 1))
        failed = lived_s < SHORT_LIFE_S and code != -signal.SIGKILL  # one that was killed could have lived
        self._short_lives = self._short_lives + 1 if failed else 0
        if self._short_lives >= SHORT_LIVES:
            self._end(signal.SIGTERM, None)
        else:
            self._fork(name)

    def _fork(self, name: str) -> None:
        """Signals wait meanwhile: none may hit a child that has our handlers, or miss one that we do not know yet."""
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _live(self._members[name], parent)
        self._running[pid] = name, time.monotonic()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
        if self._ending:
            os.kill(pid, signal.SIGTERM)

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._ending = True
        self._at_end()
        for pid in self._running:
            with contextlib.suppress(ProcessLookupError):  # it has just died and is not written off yet
                os.kill(pid, signal.SIGTERM)


def _live(member: Callable[[], None], parent: int) -> None:
    """The child's whole life; it never returns into the parent's code."""
    code = 1
    try:
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() == parent:
            member()
            code = 0
    except ServiceUnavailable as error:
        logger.error("listener_process_failed", reason=str(error))
    except BaseException:  # noqa: BLE001  # a forked child must not run on into its parent's code, whatever happens
        traceback.print_exc()
    finally:
        os._exit(code)
