"""Process entry of the C-STORE service."""

from __future__ import annotations

import signal
import threading

from pipeline import log
from workers import wiring


def serve() -> None:
    """Listen until SIGTERM or SIGINT; associations under way may finish."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    service = wiring.listener()
    service.start()
    log.get(__name__).info("listening", port=service.port)
    stop.wait()
    service.stop()
