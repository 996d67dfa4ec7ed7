"""Order and estimate of a night's plan, as pure functions."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.flow.night import UNMEASURED, expected, kind_of, measured, order_key, planned, reads_at
from pipeline.model import JobState, Priority
from pipeline.nightly import Kind, Pace, Waiting

START = datetime(2026, 12, 1, 14, tzinfo=UTC)
READER = START + timedelta(hours=10)
LIVE = (JobState.READY, JobState.ENCODING, JobState.ENCODED, JobState.DRAFTING)
PACE = Pace(encode_s=10.0, draft_s=30.0, studies=7)


def waiting(number: int = 1, **changes: object) -> Waiting:
    one = Waiting(UUID(int=number), JobState.READY, Priority.ROUTINE, START - timedelta(hours=1), ("CT",))
    return replace(one, **changes)  # type: ignore[arg-type]  # by name


def order(*studies: Waiting) -> list[int]:
    return [one.study_id.int for one in planned(studies, PACE, START, READER)]


times = st.one_of(st.none(), st.integers(0, 1440).map(lambda minutes: START + timedelta(minutes=minutes)))
studies = st.lists(
    st.builds(
        Waiting,
        st.integers(1, 10**6).map(lambda number: UUID(int=number)),
        st.sampled_from(LIVE),
        st.sampled_from(Priority),
        st.integers(0, 10_000).map(lambda minutes: START - timedelta(minutes=minutes)),
        st.sampled_from([("CT",), ("CT", "PT"), ()]),
        times,
        times,
    ),
    max_size=30,
    unique_by=lambda one: one.study_id,
)


def test_stat_goes_first_then_who_is_read_first_then_who_waits_longest_then_plain_ct() -> None:
    stat = waiting(5, priority=Priority.STAT)
    early = waiting(4, reads_at=READER - timedelta(hours=1))
    old = waiting(3, received=START - timedelta(hours=5))
    plain, combined = waiting(2), waiting(1, modalities=("CT", "PT"))
    assert order(combined, plain, old, early, stat) == [5, 4, 3, 2, 1]


def test_of_those_that_are_read_at_the_same_time_inpatients_go_first() -> None:
    assert order(waiting(1), waiting(2, priority=Priority.INPATIENT)) == [2, 1]


def test_tomorrows_priors_come_before_the_backlog_and_after_what_is_read_earlier() -> None:
    backlog = waiting(1, priority=Priority.NIGHT)
    prior = waiting(2, priority=Priority.NIGHT, wanted_by=READER + timedelta(hours=2))
    later = waiting(3, reads_at=READER + timedelta(hours=3))
    assert order(backlog, prior, later) == [2, 3, 1]
    assert [kind_of(one) for one in (backlog, prior, later)] == [Kind.BACKLOG, Kind.PRIOR, Kind.UNREAD]


def test_a_backlog_that_has_waited_for_nights_is_not_passed_by_for_ever() -> None:
    forgotten = waiting(1, priority=Priority.NIGHT, received=START - timedelta(days=4))
    assert order(waiting(2, reads_at=READER + timedelta(hours=1)), waiting(3, priority=Priority.NIGHT), forgotten) == [1, 2, 3]
    assert reads_at(forgotten, READER) is None  # nobody is known to wait for it


def test_a_prior_is_wanted_when_the_newer_examination_is_read_and_never_before_the_first_reader() -> None:
    assert reads_at(waiting(priority=Priority.NIGHT, wanted_by=START), READER) == READER
    assert reads_at(waiting(priority=Priority.NIGHT, wanted_by=READER + timedelta(hours=1)), READER) == READER + timedelta(hours=1)


def test_the_estimate_is_that_of_two_steps_one_behind_the_other() -> None:
    ends = expected([waiting(1), waiting(2, state=JobState.ENCODED), waiting(3)], PACE, START)
    assert [(end - START).total_seconds() for end in ends] == [40.0, 70.0, 100.0]


def test_more_slots_draft_at_the_same_time() -> None:
    ends = expected([waiting(number) for number in range(1, 4)], replace(PACE, draft_slots=3), START)
    assert [(end - START).total_seconds() for end in ends] == [40.0, 50.0, 60.0]


def test_without_a_measurement_the_pace_says_that_it_is_a_guess() -> None:
    assert measured(None, 1, 12) == replace(UNMEASURED, draft_slots=12)
    assert measured(None, 1, 12).studies == 0


@given(studies)
def test_every_study_stands_in_the_plan_once_and_stat_before_all_others(some: list[Waiting]) -> None:
    plan = planned(some, PACE, START, READER)
    assert sorted(one.study_id for one in plan) == sorted(one.study_id for one in some)
    urgent = [one.priority is Priority.STAT for one in plan]
    assert urgent == sorted(urgent, reverse=True)


@given(studies, st.randoms(use_true_random=False))
def test_the_order_does_not_depend_on_the_order_of_the_rows(some: list[Waiting], random: object) -> None:
    shuffled = list(some)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis gives a random.Random
    assert planned(shuffled, PACE, START, READER) == planned(some, PACE, START, READER)


@given(studies)
def test_who_is_read_earlier_never_stands_behind_one_of_the_same_lane_who_is_read_later(some: list[Waiting]) -> None:
    ordered = sorted(some, key=lambda one: order_key(one, READER))
    lanes: Sequence[list[Waiting]] = ([one for one in ordered if one.priority is Priority.STAT], [one for one in ordered if one.priority > 0])
    for lane in lanes:
        wanted = [reads_at(one, READER) for one in lane if reads_at(one, READER) is not None]
        assert all(a <= b for a, b in pairwise(wanted) if a is not None and b is not None)


@pytest.mark.parametrize("slots", [1, 3])
@given(some=studies)
def test_nothing_is_expected_before_it_can_be_and_no_more_at_once_than_there_are_slots(slots: int, some: list[Waiting]) -> None:
    pace = replace(PACE, draft_slots=slots)
    ends = expected(some, pace, START)
    shortest = [pace.draft_s + (pace.encode_s if one.state in LIVE[:2] else 0.0) for one in some]
    assert all((end - START).total_seconds() >= least for end, least in zip(ends, shortest, strict=True))
    begun = [end - timedelta(seconds=pace.draft_s) for end in ends]
    for begin in begun:
        assert sum(other <= begin < end for other, end in zip(begun, ends, strict=True)) <= slots
