"""The plan of a trial: the same seed, the same strikes, and every fault among them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.chaos.plan import BROKER, EVERYTHING, SHAPES, Fault, plan

SECONDS = 60.0
SEEDS = st.integers(0, 1_000_000)


def test_the_same_seed_gives_the_same_strikes_and_another_seed_others() -> None:
    assert plan(7, SECONDS) == plan(7, SECONDS)
    assert plan(7, SECONDS) != plan(8, SECONDS)


@given(SEEDS)
def test_every_fault_strikes_as_often_and_as_long_as_its_shape_says_and_in_time(seed: int) -> None:
    strikes = plan(seed, SECONDS)
    assert list(strikes) == sorted(strikes, key=lambda one: one.at_s)
    for fault in Fault:
        mine = [one for one in strikes if one.fault is fault]
        assert len(mine) == SHAPES[fault].times
        assert all(one.at_s >= 0 and one.until_s <= SECONDS for one in mine)
        assert all(SHAPES[fault].least_s <= one.for_s <= SHAPES[fault].most_s for one in mine)
        assert all(earlier.until_s < later.at_s for earlier, later in pairwise(mine))


@given(SEEDS)
def test_a_paused_broker_is_neither_stopped_nor_emptied(seed: int) -> None:
    strikes = plan(seed, SECONDS)
    (pause,) = [one for one in strikes if one.fault is Fault.BROKER_PAUSED]
    assert not [one for one in strikes if one.fault in BROKER and pause.at_s < one.at_s < pause.until_s]


@pytest.mark.parametrize("faults", [{Fault.KILL_BEAT}, {Fault.KILL_IO, Fault.DISK_FULL}, EVERYTHING])
def test_a_plan_holds_the_faults_that_it_is_asked_for_and_once_where_once_is_asked(faults: frozenset[Fault]) -> None:
    assert {one.fault for one in plan(3, SECONDS, faults)} == faults
    assert len(plan(3, SECONDS, faults, once=True)) == len(faults)
