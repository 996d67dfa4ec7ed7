import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline.errors import IllegalMove
from pipeline.model import MOVES, REQUEST_MOVES, AlertState, Generation, JobState, Machine, ReportState, RequestState, StudyState

FIRST: dict[type[Machine], Machine] = {
    StudyState: StudyState.RECEIVING,
    JobState: JobState.READY,
    ReportState: ReportState.WAITING,
    AlertState: AlertState.OPEN,
}
ALL = [state for machine in FIRST for state in machine]
ENDS = {JobState.SUPERSEDED, ReportState.REJECTED, AlertState.ACKNOWLEDGED}  # a withdrawn study opens again only for new images after rejection notes


@given(st.sampled_from(ALL), st.sampled_from(ALL))
def test_a_move_is_legal_exactly_where_the_table_says_so(state: Machine, to: Machine) -> None:
    if to in MOVES[state] and type(to) is type(state):
        assert state.move(to) is to
    else:
        with pytest.raises(IllegalMove, match=str(to)):
            state.move(to)


def test_every_state_is_in_the_table_and_moves_stay_in_their_machine() -> None:
    assert set(MOVES) == set(ALL)
    assert all(type(to) is type(state) for state in ALL for to in MOVES[state])


@pytest.mark.parametrize("machine", FIRST, ids=lambda machine: machine.__name__)
def test_every_state_can_be_reached(machine: type[Machine]) -> None:
    reached, ahead = set[Machine](), [FIRST[machine]]
    while ahead:
        state = ahead.pop()
        reached.add(state)
        ahead += MOVES[state] - reached
    assert reached == set(machine)


def test_final_states_are_the_ones_that_the_design_calls_final() -> None:
    assert {state for state in ALL if state.final} == ENDS


@given(st.sampled_from(RequestState), st.sampled_from(RequestState))
def test_a_request_moves_by_a_table_of_its_own(state: RequestState, to: RequestState) -> None:
    if to in REQUEST_MOVES[state]:
        assert state.move(to) is to
    else:
        with pytest.raises(IllegalMove, match=str(to)):
            state.move(to)


def test_a_request_is_written_or_failed_only_by_whoever_holds_it_and_then_for_good() -> None:
    assert set(REQUEST_MOVES) == set(RequestState)
    assert [state for state in RequestState if state.final] == [RequestState.DRAFTED, RequestState.FAILED]
    assert {state for state in RequestState if RequestState.DRAFTED in state.onward} == {RequestState.DRAFTING}


def test_a_signed_report_never_becomes_unsigned() -> None:
    assert MOVES[ReportState.SIGNED] | MOVES[ReportState.AMENDED] == {ReportState.AMENDED}


def test_only_a_written_report_can_be_signed() -> None:
    assert [state for state in ReportState if ReportState.SIGNED in MOVES[state]] == [ReportState.WRITTEN]


class Walk(RuleBasedStateMachine):
    """A job walks at random: whatever it does, it is drafted only after encoding and drafting."""

    def __init__(self) -> None:
        super().__init__()
        self.path: list[JobState] = [JobState.READY]

    @rule(to=st.sampled_from(list(JobState)))
    def step(self, to: JobState) -> None:
        try:
            self.path.append(self.path[-1].move(to))
        except IllegalMove:
            assert to not in MOVES[self.path[-1]]

    @invariant()
    def drafted_only_after_its_steps(self) -> None:
        if self.path[-1] is JobState.DRAFTED:
            assert [state for state in dict.fromkeys(self.path) if state in (JobState.ENCODING, JobState.ENCODED, JobState.DRAFTING)] == [
                JobState.ENCODING,
                JobState.ENCODED,
                JobState.DRAFTING,
            ]

    @invariant()
    def nothing_follows_superseded(self) -> None:
        assert JobState.SUPERSEDED not in self.path[:-1]


TestWalk = Walk.TestCase


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8))
def test_acceptance_is_a_share(histogram: list[int]) -> None:
    generation = Generation(1, sum(histogram), tuple(histogram), 0.1)
    assert 0.0 <= generation.acceptance <= 1.0


def test_acceptance_of_plain_decoding_is_zero_and_of_perfect_drafts_one() -> None:
    assert Generation(9, 9, (9,), 0.1).acceptance == 0.0
    assert Generation(9, 3, (0, 0, 3), 0.1).acceptance == 1.0


def test_with_positions_acceptance_counts_what_was_drafted_there_and_nothing_else() -> None:
    """A step whose draft was cut short, or filled with forced tokens, does not look like one whose tokens were refused."""
    varying = Generation(30, 10, (0, 5, 5), 0.1, forced=12, positions=((10, 9), (4, 3), (0, 0)))
    assert varying.acceptance == 12 / 14
    assert Generation(9, 9, (9,), 0.1, positions=((0, 0),)).acceptance == 0.0
