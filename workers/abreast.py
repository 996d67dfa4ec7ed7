"""Work side by side on threads, with one of them kept free for what cannot wait."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from contextvars import copy_context

LOOK_S = 1.0


def side_by_side(width: int, work: Callable[[], int], urgent: Callable[[], int] | None = None, look_s: float = LOOK_S) -> int:
    """Do the same work on so many threads; returns the sum of what each says. What one raises is raised once all have ended. With `urgent` one of
    them does that alone, again and again while the others are at work: what cannot wait finds it free."""
    if width == 1:
        return work()
    over = threading.Event()
    with ThreadPoolExecutor(width, thread_name_prefix="draft") as pool:
        attending = [] if urgent is None else [pool.submit(copy_context().run, _attend, urgent, over, look_s)]
        working = [pool.submit(copy_context().run, work) for _ in range(width - len(attending))]
        wait(working)
        over.set()
    return sum(one.result() for one in (*working, *attending))


def _attend(urgent: Callable[[], int], over: threading.Event, look_s: float) -> int:
    done = urgent()
    while not over.wait(look_s):
        done += urgent()
    return done
