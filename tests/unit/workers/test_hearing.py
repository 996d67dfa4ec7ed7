"""A worker starts again only when it is idle, has heard nothing, rows wait, and its broker is there."""

from __future__ import annotations

import pytest

from pipeline.errors import ServiceUnavailable
from workers.hearing import Hearing, is_deaf


def no_database() -> int:
    raise ServiceUnavailable("the database does not answer")


@pytest.mark.parametrize(
    ("silent_s", "busy", "waiting", "reachable", "deaf"),
    [
        (120.0, False, 3, True, True),
        (119.0, False, 3, True, False),
        (500.0, True, 3, True, False),
        (500.0, False, 0, True, False),
        (500.0, False, 3, False, False),
    ],
)
def test_deaf_is_silent_idle_needed_and_connected(silent_s: float, busy: bool, waiting: int, reachable: bool, deaf: bool) -> None:
    assert is_deaf(Hearing(120.0, 1000.0), 1000.0 + silent_s, busy, lambda: waiting, lambda: reachable) is deaf


def test_a_bell_makes_it_hear_again() -> None:
    hearing = Hearing(120.0, 0.0)
    hearing.heard(100.0)
    hearing.heard(90.0)  # of another thread, a little late
    assert not hearing.is_silent(219.0)
    assert hearing.is_silent(220.0)


def test_without_a_database_nothing_could_be_done_anyway() -> None:
    assert not is_deaf(Hearing(1.0, 0.0), 100.0, False, no_database, lambda: True)
