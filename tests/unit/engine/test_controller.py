"""The controller picks the length of most expected tokens per second, shortens when drafts fail, and recovers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine import costs as costing
from pipeline.engine.controller import FLOOR, PROBE_STEPS, Controller, expected_share, trusted
from pipeline.engine.costs import Costs, Expectation, expectations, fastest, measure, measured_once
from pipeline.engine.policy import MAX_DRAFT
from pipeline.engine.sections import ADVICE, FINDINGS, IMPRESSION, SECTIONS, START_K

FLAT = Costs(tuple(4.0 + 0.3 * row for row in range(MAX_DRAFT + 1)), 0.7)  # ms in MODEL.md's proportions
Rates = st.lists(st.floats(0, 1), min_size=MAX_DRAFT, max_size=MAX_DRAFT)
Blocks = st.lists(st.tuples(st.integers(0, MAX_DRAFT), st.integers(0, MAX_DRAFT)).map(lambda pair: (max(pair), min(pair))), max_size=60)


@st.composite
def tables(draw: st.DrawFn) -> Costs:
    steps = draw(st.lists(st.floats(0.0, 2.0), min_size=MAX_DRAFT, max_size=MAX_DRAFT))
    return Costs(tuple(itertools.accumulate(steps, initial=draw(st.floats(0.5, 10.0)))), draw(st.floats(0.01, 5.0)))


def taught(costs: Costs, blocks: list[tuple[int, int]], section: str = FINDINGS) -> Controller:
    controller = Controller(costs)
    for drafted, accepted in blocks:
        controller.observe(section, drafted, accepted)
    return controller


def speed(rates: list[float], costs: Costs, k: int) -> float:
    """Tokens per second of length k, in the obvious way."""
    tokens = 1.0
    for length in range(1, k + 1):
        product = 1.0
        for rate in rates[:length]:
            product *= rate
        tokens += product
    return tokens / (k * costs.draft_s + costs.verify_s[k])


@given(rates=Rates, costs=tables(), limit=st.integers(0, MAX_DRAFT))
@settings(deadline=None)
def test_the_choice_equals_brute_force(rates: list[float], costs: Costs, limit: int) -> None:
    found = fastest(expectations(rates, costs, limit, drafts=limit))
    assert 0 <= found.length <= limit
    assert found.rate == pytest.approx(speed(rates, costs, found.length))
    assert found.rate == pytest.approx(max(speed(rates, costs, k) for k in range(limit + 1)))


@given(rates=Rates, costs=tables(), place=st.integers(0, MAX_DRAFT - 1), more=st.floats(0, 1))
@settings(deadline=None)
def test_more_acceptance_never_gives_a_shorter_draft(rates: list[float], costs: Costs, place: int, more: float) -> None:
    raised = [max(rate, more) if index == place else rate for index, rate in enumerate(rates)]
    before, after = (fastest(expectations(each, costs, MAX_DRAFT, drafts=MAX_DRAFT)).length for each in (rates, raised))
    tied = after < before and speed(raised, costs, after) == pytest.approx(speed(raised, costs, before), rel=1e-12)
    assert after >= before or tied
    assert trusted(raised, MAX_DRAFT) >= trusted(rates, MAX_DRAFT)


@given(blocks=Blocks, costs=tables())
@settings(deadline=None)
def test_full_acceptance_is_answered_with_at_least_as_long_drafts(blocks: list[tuple[int, int]], costs: Costs) -> None:
    mixed, full = taught(costs, blocks), taught(costs, [(drafted, drafted) for drafted, _ in blocks])
    assert all(high >= low - 1e-12 for low, high in zip(mixed.rates(FINDINGS), full.rates(FINDINGS), strict=True))
    assert full.choose(FINDINGS).length >= mixed.choose(FINDINGS).length


@given(blocks=Blocks, costs=tables(), power=st.integers(-10, 10), room=st.integers(0, MAX_DRAFT))
@settings(deadline=None)
def test_the_unit_of_cost_does_not_matter(blocks: list[tuple[int, int]], costs: Costs, power: int, room: int) -> None:
    scaled = Costs(tuple(cost * 2.0**power for cost in costs.verify_s), costs.draft_s * 2.0**power)
    one, other = taught(costs, blocks).choose(FINDINGS, room), taught(scaled, blocks).choose(FINDINGS, room)
    assert (one.length, one.tokens) == (other.length, other.tokens)


@given(blocks=Blocks, costs=tables(), room=st.integers(0, MAX_DRAFT), section=st.sampled_from(SECTIONS))
@settings(deadline=None)
def test_a_length_stays_within_the_room_and_is_the_same_for_the_same_history(
    blocks: list[tuple[int, int]], costs: Costs, room: int, section: str
) -> None:
    choices = [
        [controller.choose(section, room) for _ in range(40)] for controller in (taught(costs, blocks, section), taught(costs, blocks, section))
    ]
    assert choices[0] == choices[1]
    assert all(0 <= choice.length <= room for choice in choices[0])


def test_before_anything_is_seen_each_section_has_its_start_length() -> None:
    controller = Controller(FLAT)
    assert {section: controller.choose(section).length for section in SECTIONS} == START_K
    assert controller.choose(FINDINGS, 2).length == 2


def test_sections_learn_apart() -> None:
    controller = Controller(FLAT)
    for _ in range(50):
        controller.observe(FINDINGS, 8, 8)
        controller.observe(IMPRESSION, 3, 1)
    assert controller.choose(FINDINGS).length > 8
    assert controller.choose(IMPRESSION).length <= 2
    assert controller.choose(ADVICE).length == START_K[ADVICE]


def test_refused_drafts_are_shortened_to_none_and_said_once() -> None:
    controller = Controller(FLAT)
    said = [controller.observe(FINDINGS, 7, 0) for _ in range(60)]
    sentences = [sentence for sentence in said if sentence]
    assert len(sentences) == 1
    assert "findings" in sentences[0]
    assert sentences[0].isascii()
    assert "below 0.5" in sentences[0]
    assert controller.choose(FINDINGS).length == 0


def test_the_far_end_of_long_drafts_is_no_reason_to_warn() -> None:
    controller = Controller(FLAT)
    assert [controller.observe(FINDINGS, 16, 4) for _ in range(60)] == [None] * 60


def test_a_shortened_section_is_probed_and_recovers() -> None:
    controller = Controller(FLAT)
    for _ in range(60):
        controller.observe(FINDINGS, 7, 0)
    lengths = [controller.choose(FINDINGS).length for _ in range(2 * PROBE_STEPS)]
    assert (lengths.count(1), lengths.count(0)) == (2, 2 * PROBE_STEPS - 2)
    steps = 0
    while controller.choose(FINDINGS).length < 6 and steps < 100 * PROBE_STEPS:
        steps += 1
        drafted = controller.choose(FINDINGS).length
        assert controller.observe(FINDINGS, drafted, drafted) is None
    assert controller.choose(FINDINGS).length >= 6
    assert any(controller.observe(FINDINGS, 6, 0) for _ in range(60))  # it says so again after it had recovered


@given(rates=Rates, limit=st.integers(0, MAX_DRAFT))
@settings(deadline=None)
def test_a_trusted_length_is_the_longest_of_which_half_is_expected_to_hold(rates: list[float], limit: int) -> None:
    length = trusted(rates, limit)
    assert expected_share(rates, length) >= FLOOR
    assert all(expected_share(rates, longer) < FLOOR for longer in range(length + 1, limit + 1))


def test_a_step_without_drafts_writes_one_token_for_one_row() -> None:
    assert expectations([0.9] * 4, FLAT, 4, drafts=4)[0] == Expectation(0, 1.0, 4.0)
    assert expectations([0.5, 0.5], FLAT, 2, drafts=0)[2] == Expectation(2, 1.75, FLAT.verify_s[2])
    assert expectations([0.5, 0.5], FLAT, 2, drafts=1)[2] == Expectation(2, 1.75, FLAT.verify_s[2] + FLAT.draft_s)


class Clock:
    """A clock that the timed calls push forward."""

    def __init__(self) -> None:
        self.now = 0.0
        self.noise: Iterator[float] = itertools.cycle([0.0, 9.0, 0.0, 0.0, 0.0, 0.0])  # one slow round of each six

    def verify(self, rows: int) -> None:
        self.now += 1.0 + 0.125 * rows - (0.5 if rows == 4 else 0.0) + (next(self.noise) if rows == 1 else 0.0)

    def draft(self) -> None:
        self.now += 0.25


def test_costs_are_medians_by_the_given_clock_and_never_fall_with_more_rows() -> None:
    clock = Clock()
    found = measure(clock.verify, clock.draft, lambda: clock.now)
    assert found.draft_s == 0.25
    assert found.verify_s[:5] == (1.125, 1.25, 1.375, 1.375, 1.625)
    assert len(found.verify_s) == MAX_DRAFT + 1


def test_costs_are_measured_once_per_process_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costing, "_MEASURED", {})
    calls: list[int] = []

    def measuring() -> Costs:
        calls.append(1)
        return FLAT

    assert [measured_once(key, measuring) for key in ("a", "a", "b")] == [FLAT] * 3
    assert len(calls) == 2
