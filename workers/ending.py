"""How a worker ends: it takes nothing more, has a grace time for what it works on, and then hands that back and goes."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from celery import signals

from pipeline import log, metrics
from pipeline.errors import PipelineError

logger = log.get(__name__)
_ending = threading.Event()


def stopping() -> bool:
    """True once this process was told to end."""
    return _ending.is_set()


def end_in_order(grace_s: float, hand_back: Callable[[], int]) -> None:
    """From the first SIGTERM on take no more; after `grace_s` seconds hand back what is held, and end. For pools that work in this process."""
    signals.worker_shutting_down.connect(lambda **_: _begin(grace_s, hand_back), weak=False)


def _begin(grace_s: float, hand_back: Callable[[], int]) -> None:
    if _ending.is_set():
        return
    _ending.set()  # celery says so itself; nothing that a signal handler logs would be written
    timer = threading.Timer(grace_s, _give_up, args=(hand_back,))
    timer.daemon = True  # a worker that is done before just ends
    timer.start()


def _give_up(hand_back: Callable[[], int]) -> None:
    try:
        rows = hand_back()
        metrics.HANDED_BACK.inc(rows)
        logger.warning("handed_back", rows=rows)
    except PipelineError as error:  # without a database: the leases run out
        logger.warning("not_handed_back", reason=str(error))
    finally:
        os._exit(0)
