"""The library's threads die of some malformed PDUs (a presentation context without a transfer syntax, a command set cut short). The connection
then hung, and the traceback could show values of a header. Here it is closed, with one log line that names the error's type and place."""

from __future__ import annotations

import contextlib
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from pynetdicom.association import Association
from pynetdicom.dul import DULServiceProvider

from pipeline import log

if TYPE_CHECKING:
    Failed = threading.ExceptHookArgs

logger = log.get(__name__)


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """While it lasts, a thread of an association that dies takes its connection along; other threads go to the hook that was there before."""
    before = threading.excepthook

    def hook(failed: Failed) -> None:
        _thread_failed(failed, before)

    threading.excepthook = hook
    try:
        yield
    finally:
        if threading.excepthook is hook:
            threading.excepthook = before


def _thread_failed(failed: Failed, before: Callable[[Failed], object]) -> None:
    thread = failed.thread
    if isinstance(thread, DULServiceProvider):
        network = thread
        if network.assoc.requestor.primitive is None:
            network.to_user_queue.put(None)  # the acceptor's thread waits for a request that will not come
    elif isinstance(thread, Association):
        network = thread.dul
        network.kill_dul()
    else:
        before(failed)
        return
    frame = traceback.extract_tb(failed.exc_traceback)[-1]
    logger.warning("association_broken", error=failed.exc_type.__name__, file=frame.filename, line=frame.lineno)
    if network.socket is not None:
        network.socket.close()
