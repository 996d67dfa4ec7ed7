"""Who goes first: STAT, then whoever's patience ran out first; and nobody waits for ever."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.model import Header, Patient, Priority
from pipeline.urgency import IN_A_ROW, PATIENCE, USUAL, Pick, Slots, Turns, UrgencyRule, priority_of, rank
from tests.builders import instance

START = datetime(2026, 1, 1, tzinfo=UTC)
OTHERS = (Priority.INPATIENT, Priority.ROUTINE, Priority.NIGHT)
SECONDS = st.integers(0, 10**7)


def header(*, station: str = "CT1", requesting_service: str = "", priority: Priority = Priority.ROUTINE) -> Header:
    patient = Patient("P-1", "", "张^小东", False, None, "M")
    return Header(instance(), patient, "A-1", None, "", "", "", "", "", 5.0, station, priority, requesting_service=requesting_service)


class Queue:
    """One worker and what waits for it, as the store's claim sees it: a lane for STAT and one by rank."""

    def __init__(self) -> None:
        self.waiting: list[tuple[datetime, int, Priority]] = []
        self.turns = Turns()
        self.came = 0

    def come(self, priority: Priority, at: datetime) -> int:
        self.came += 1
        self.waiting.append((rank(priority, at), self.came, priority))
        return self.came

    def next(self) -> int | None:
        """The claim of one job; its number."""
        for pick in dict.fromkeys((self.turns.pick(), Pick.FIRST)):
            for urgent in {Pick.FIRST: (True, False), Pick.OTHERS: (False,), Pick.URGENT: (True,)}[pick]:
                lane = sorted(one for one in self.waiting if (one[2] is Priority.STAT) == urgent)
                if lane:
                    self.waiting.remove(lane[0])
                    self.turns.took([lane[0][2]])
                    return lane[0][1]
        self.turns.took([])
        return None


@given(st.sampled_from(Priority), SECONDS, SECONDS)
def test_within_a_class_who_came_first_goes_first(priority: Priority, first: int, second: int) -> None:
    ranks = [rank(priority, START + timedelta(seconds=came)) for came in (first, second)]
    assert (ranks[0] < ranks[1]) == (first < second)


@given(st.sampled_from(OTHERS), st.sampled_from(OTHERS), SECONDS)
def test_a_class_that_came_at_the_same_time_stands_back_by_its_patience_and_no_longer(one: Priority, other: Priority, later: int) -> None:
    lead = (PATIENCE[other] - PATIENCE[one]).total_seconds()
    goes_first = rank(one, START + timedelta(seconds=later)) < rank(other, START)
    assert goes_first == (later < lead)


@given(st.lists(st.sampled_from(OTHERS), max_size=40), st.integers(0, 39))
def test_one_stat_among_others_is_the_very_next_claim(others: list[Priority], before: int) -> None:
    queue = Queue()
    for number, priority in enumerate(others):
        queue.come(priority, START + timedelta(seconds=number))
    for _ in range(min(before, len(others))):
        assert queue.next() is not None
    stat = queue.come(Priority.STAT, START + timedelta(days=1))
    assert queue.next() == stat


@given(st.sampled_from(OTHERS), st.lists(st.sampled_from(Priority), min_size=200, max_size=200), st.integers(1, 3600))
def test_whoever_waits_is_claimed_however_many_urgent_ones_keep_coming(mine: Priority, coming: list[Priority], apart_s: int) -> None:
    """One comes for each that is claimed, so the queue never gets shorter: what came later than my patience cannot pass me for ever."""
    queue = Queue()
    me = queue.come(mine, START)
    served = []
    arrivals = [*coming, *[Priority.STAT] * 200]
    for number, priority in enumerate(arrivals, start=1):
        queue.come(priority, START + timedelta(seconds=number * apart_s))
        served.append(queue.next())
        if served[-1] == me:
            break
    passed = PATIENCE[mine].total_seconds() / apart_s + 2  # of the others that may go before me
    assert me in served or passed * (IN_A_ROW + 1) > len(arrivals)


def test_a_flood_of_stat_leaves_every_fifth_turn_to_the_others() -> None:
    queue = Queue()
    routine = [queue.come(Priority.ROUTINE, START + timedelta(seconds=number)) for number in range(3)]
    for number in range(40):
        queue.come(Priority.STAT, START + timedelta(seconds=number))
    served = [queue.next() for _ in range(15)]
    assert [served.index(one) for one in routine] == [4, 9, 14]


def test_stat_goes_on_when_nobody_else_waits() -> None:
    queue = Queue()
    numbers = [queue.come(Priority.STAT, START + timedelta(seconds=number)) for number in range(12)]
    assert [queue.next() for _ in numbers] == numbers


@pytest.mark.parametrize(
    ("capacity", "reserved", "working", "stat", "others"),
    [(4, 1, 0, 4, 3), (4, 1, 3, 1, 0), (4, 1, 4, 0, 0), (1, 1, 0, 1, 1), (2, 9, 0, 2, 1), (2, 1, 7, 0, 0)],
)
def test_slots_are_kept_for_stat_but_never_all_of_them(capacity: int, reserved: int, working: int, stat: int, others: int) -> None:
    slots = Slots(capacity, reserved)
    assert (slots.free(True, working), slots.free(False, working)) == (stat, others)


def test_without_a_capacity_nothing_is_bound() -> None:
    assert Slots(None, 3).free(False, 10**6) is None


@pytest.mark.parametrize(
    ("service", "station", "aet", "expected"),
    [
        ("急诊科", "CT1", "CT", Priority.STAT),
        ("Emergency Medicine", "CT1", "CT", Priority.STAT),
        ("胸外科", "急诊CT", "CT", Priority.STAT),
        ("胸外科", "CT1", "CT", Priority.ROUTINE),
        ("", "", "", Priority.ROUTINE),
    ],
)
def test_an_emergency_department_is_known_by_its_name(service: str, station: str, aet: str, expected: Priority) -> None:
    assert priority_of(header(requesting_service=service, station=station), aet, USUAL) is expected


def test_the_first_rule_that_fits_counts_and_never_makes_a_study_less_urgent_than_its_header() -> None:
    rules = (
        UrgencyRule(Priority.NIGHT, aet="^RESEARCH$"),
        UrgencyRule(Priority.INPATIENT, aet="WARD", station="CT2"),
        UrgencyRule(Priority.STAT, aet="WARD"),
    )
    assert priority_of(header(), "RESEARCH", rules) is Priority.ROUTINE
    assert priority_of(header(priority=Priority.NIGHT), "RESEARCH", rules) is Priority.NIGHT
    assert priority_of(header(station="CT2"), "ward_7", rules) is Priority.INPATIENT
    assert priority_of(header(station="CT1"), "ward_7", rules) is Priority.STAT
    assert priority_of(header(priority=Priority.STAT), "RESEARCH", rules) is Priority.STAT
