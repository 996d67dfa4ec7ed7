"""The storm makes each strike at its time, tries again at what is down, and ends what it began."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from workers.chaos import storm as storms
from workers.chaos.blows import Target, Undo, refusals
from workers.chaos.plan import DRAFTER, PROCESSES, Fault, Strike
from workers.chaos.storm import Storm

NOWHERE = Target("postgresql://nowhere/x", "redis://nowhere/0")


class Blows:
    """What was made and ended, in order."""

    def __init__(self, down: int = 0) -> None:
        self.seen: list[str] = []
        self.first = threading.Event()
        self._down = down

    def __call__(self, target: Target, one: Strike) -> Undo:
        if self._down:
            self._down -= 1
            raise psycopg.OperationalError("down")
        self.seen.append(f"{one.fault} begins")
        self.first.set()
        return lambda: self.seen.append(f"{one.fault} ends")


def test_faults_overlap_and_each_ends_at_its_own_time() -> None:
    blows = Blows()
    strikes = (Strike(0.0, Fault.DISK_FULL, 0.3), Strike(0.1, Fault.CLOCK_JUMPS, 0.05))
    storm = Storm(NOWHERE, strikes, blows)
    storm.start()
    storm.wait()
    assert blows.seen == ["disk-full begins", "clock-jumps begins", "clock-jumps ends", "disk-full ends"]
    assert [one.missed for one in storm.struck] == ["", ""]


def test_a_storm_that_is_stopped_ends_what_it_began_and_begins_nothing_more() -> None:
    blows = Blows()
    storm = Storm(NOWHERE, (Strike(0.0, Fault.DISK_FULL, 600.0), Strike(500.0, Fault.KILL_IO)), blows)
    storm.start()
    assert blows.first.wait(30)
    storm.stop()
    assert blows.seen == ["disk-full begins", "disk-full ends"]


def test_what_is_down_already_is_struck_when_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storms, "AGAIN_S", 0.01)
    storm = Storm(NOWHERE, (Strike(0.0, Fault.DATABASE_CUT),), Blows(down=3))
    storm.start()
    storm.wait()
    assert [one.missed for one in storm.struck] == [""]


def test_what_stays_down_is_told_as_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storms, "AGAIN_S", 0.01)
    monkeypatch.setattr(storms, "TRIES_S", 0.05)
    storm = Storm(NOWHERE, (Strike(0.0, Fault.DATABASE_CUT),), Blows(down=10_000))
    begun = time.monotonic()
    storm.start()
    storm.wait()
    assert [one.missed for one in storm.struck] == ["OperationalError"]
    assert time.monotonic() - begun < 30


def test_what_cannot_be_made_in_a_stack_has_a_reason_unless_the_site_has_a_command_for_it() -> None:
    said = refusals(NOWHERE)
    assert set(said) == {*PROCESSES, *DRAFTER, Fault.DATABASE_RESTARTED, Fault.DISK_FULL, Fault.CLOCK_JUMPS}
    assert all(said.values())
    own = Target(NOWHERE.database_url, "amqp://nowhere", commands={Fault.KILL_IO: "true"})
    assert Fault.KILL_IO not in refusals(own)
    assert "no Redis" in refusals(own)[Fault.BROKER_PAUSED]
