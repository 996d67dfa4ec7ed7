"""Side by side, with one thread kept free for what cannot wait."""

from __future__ import annotations

import threading

import pytest

from pipeline.errors import ServiceUnavailable
from workers.abreast import side_by_side


def test_every_thread_does_the_same_work_at_the_same_time() -> None:
    together = threading.Barrier(4, timeout=20)

    def work() -> int:
        together.wait()
        return 2

    assert side_by_side(4, work) == 8


def test_one_alone_needs_no_thread_and_keeps_none_free() -> None:
    here = threading.get_ident()
    assert side_by_side(1, lambda: int(threading.get_ident() == here), lambda: 99) == 1


def test_what_cannot_wait_finds_a_free_thread_while_all_others_are_busy() -> None:
    came, drafted = threading.Event(), threading.Event()
    busy: list[str] = []

    def long() -> int:
        busy.append("others")
        if len(busy) == 2:
            came.set()  # a STAT study, when nothing else is free
        assert drafted.wait(20)
        return 1

    def urgent() -> int:
        if not came.is_set() or drafted.is_set():
            return 0
        drafted.set()
        return 10

    assert side_by_side(3, long, urgent, look_s=0.01) == 12
    assert len(busy) == 2


def test_what_one_raises_is_raised_once_all_have_ended() -> None:
    ended: list[int] = []
    first = threading.Lock()

    def work() -> int:
        if first.acquire(blocking=False):
            raise ServiceUnavailable("no answer")
        ended.append(1)
        return 1

    with pytest.raises(ServiceUnavailable):
        side_by_side(3, work, lambda: 0, look_s=0.01)
    assert ended == [1]
