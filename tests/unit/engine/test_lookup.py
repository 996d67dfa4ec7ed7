"""Lookup proposes what followed the longest known suffix, says how sure it is, and learns from what was written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine import lookup as lookups
from pipeline.engine.costs import Costs, Expectation
from pipeline.engine.lookup import DOUBT, FLOOR, MARGIN, ORDERS, SURE, Calibration, Lookup, Proposal, better, continued
from pipeline.engine.policy import MAX_DRAFT

EOS = 0
Texts = st.lists(st.lists(st.integers(0, 5), max_size=40), max_size=4)
COSTS = Costs(tuple(4.0 + 0.2 * row for row in range(MAX_DRAFT + 1)), 0.7)


def brute(texts: list[list[int]], context: list[int]) -> tuple[int, float]:
    """The token of the longest sure suffix, or of the surest, counted by reading every text from the start."""
    best = (EOS, 0.0)
    for order in ORDERS:
        suffix = context[-order:]
        found: dict[int, int] = {}
        for text in texts:
            for end in range(order, len(text)):
                if text[end - order : end] == suffix:
                    found[text[end]] = found.get(text[end], 0) + 1
        if found and len(context) >= order:
            token = min(found, key=lambda each: (-found[each], each))
            share = found[token] / (sum(found.values()) + DOUBT)
            best = (token, share) if share > best[1] else best
            if share >= SURE:
                break
    return best


def slow(texts: list[list[int]], context: list[int], limit: int) -> list[tuple[int, float]]:
    out: list[tuple[int, float]] = []
    while len(out) < limit:
        step = brute(texts, context + [token for token, _ in out])
        if step[0] == EOS or step[1] < FLOOR:
            return out
        out.append(step)
    return out


@given(base=Texts, own=Texts, context=st.lists(st.integers(0, 5), max_size=20), limit=st.integers(0, MAX_DRAFT))
@settings(max_examples=200, deadline=None)
def test_a_proposal_equals_counting_in_the_obvious_way(base: list[list[int]], own: list[list[int]], context: list[int], limit: int) -> None:
    engine = Lookup(EOS)
    for text in base:
        engine.add(text)
    mine = Lookup(EOS, engine)
    for text in own:
        mine.add(text)
    found = mine.propose(context, limit)
    assert list(zip(found.ids, found.raw, strict=True)) == slow(base + own, context, limit)


@given(learnt=st.lists(st.tuples(st.booleans(), st.integers(0, 3)), max_size=60), limit=st.integers(1, MAX_DRAFT))
@settings(max_examples=100, deadline=None)
def test_what_a_text_or_its_base_learns_between_proposals_counts_in_the_next(learnt: list[tuple[bool, int]], limit: int) -> None:
    base, seen = Lookup(EOS), {True: [1, 2, 3], False: [1, 2, 2]}
    base.add(seen[True])
    mine = Lookup(EOS, base)
    mine.add(seen[False])
    for to_base, token in learnt:
        (base if to_base else mine).write(token)
        seen[to_base].append(token)
        found = mine.propose(seen[False], limit)
        assert list(zip(found.ids, found.raw, strict=True)) == slow([seen[True], seen[False]], seen[False], limit)


@given(ids=st.lists(st.integers(0, 5), max_size=60), cut=st.integers(0, 60), context=st.lists(st.integers(0, 5), max_size=20))
@settings(deadline=None)
def test_writing_token_by_token_equals_adding_at_once(ids: list[int], cut: int, context: list[int]) -> None:
    whole, parts = Lookup(EOS), Lookup(EOS)
    whole.add(ids)
    parts.add(ids[:cut])
    for token in ids[cut:]:
        parts.write(token)
    assert whole.propose(context, 8) == parts.propose(context, 8)


def test_weight_counts_like_repetition() -> None:
    once, often = Lookup(EOS), Lookup(EOS)
    once.add([1, 2, 3], weight=3)
    for _ in range(3):
        often.add([1, 2, 3])
    assert once.propose([1, 2], 4) == often.propose([1, 2], 4)
    assert once.propose([1, 2], 4).raw == (3 / 3.5,)


def test_what_one_text_adds_stays_out_of_the_base_and_of_other_texts() -> None:
    base = Lookup(EOS)
    base.add([1, 2, 3])
    first, second = Lookup(EOS, base), Lookup(EOS, base)
    first.add([4, 4, 4, 4])
    assert first.propose([4, 4], 1).ids == (4,)
    assert first.propose([1, 2], 1).ids == (3,)
    assert second.propose([4, 4], 1).ids == base.propose([4, 4], 1).ids == ()


def test_the_end_token_is_never_proposed() -> None:
    lookup = Lookup(EOS)
    lookup.add([1, 2, 3, 4, EOS])
    assert lookup.propose([1, 2], 16).ids == (3, 4)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MAX_TOKENS", 10)
    lookup = Lookup(EOS)
    lookup.add([1, 2, 3, 4, 5, 6, 7, 8])
    lookup.add([11, 12, 13, 14])
    assert lookup.propose([1, 2], 3).ids == (3, 4, 5)
    assert lookup.propose([11, 12], 3).ids == ()


def test_a_bucket_learns_how_often_it_is_right_whoever_drafted() -> None:
    lookup = Lookup(EOS)
    lookup.add([1, 2, 3, 4, 5, 6], weight=9)
    before = lookup.propose([1, 2], 4)
    assert before.confidences == pytest.approx(before.raw)
    for _ in range(50):
        lookup.observe(before, [3, 9, 9, 9])  # the second token is wrong; those behind it say nothing
    after = lookup.propose([1, 2], 4)
    assert after.ids == before.ids
    assert after.raw == before.raw
    assert after.confidences[0] == pytest.approx(0.5, abs=0.1)
    for _ in range(200):
        lookup.observe(before, [3, 4, 5, 6])
    assert lookup.propose([1, 2], 4).confidences[0] > 0.9


def test_observing_less_than_was_proposed_counts_only_what_was_written() -> None:
    calibration = Lookup(EOS).calibration
    lookup = Lookup(EOS)
    lookup.observe(Proposal((3, 4), (0.9, 0.9), (0.9, 0.9)), [3])
    assert sum(lookup.calibration.seen) == sum(lookup.calibration.right) == 1
    lookup.observe(Proposal(), [3, 4])
    assert sum(lookup.calibration.seen) == 1
    assert sum(calibration.seen) == 0


def test_calibration_is_shared_between_the_texts_of_an_engine() -> None:
    base = Lookup(EOS)
    Lookup(EOS, base).observe(Proposal((1,), (0.9,), (0.9,)), [2])
    assert Lookup(EOS, base).calibration.of(0.9) < 0.9 == Calibration().of(0.9)


def test_the_step_of_more_tokens_per_second_wins() -> None:
    sure, unsure = Proposal((1,) * 8, (0.99,) * 8, (0.99,) * 8), Proposal((1,) * 8, (0.5,) * 8, (0.5,) * 8)
    mtp = Expectation(4, 4.6, COSTS.step_s(4, 4))
    won = better(mtp, sure, COSTS)
    assert won is not None
    assert won.length == 8
    assert won.tokens == pytest.approx(sum(0.99**n for n in range(9)))
    assert better(mtp, unsure, COSTS) is None
    assert better(Expectation(0, 1.0, COSTS.step_s(0, 0)), Proposal(), COSTS) is None


def test_a_long_proposal_is_cut_where_more_rows_no_longer_pay() -> None:
    confidences = (0.99, 0.99, 0.05, 0.9)
    won = better(Expectation(0, 1.0, COSTS.step_s(0, 0)), Proposal((1,) * 4, confidences, confidences), COSTS)
    assert won is not None
    assert won.length == 2


def test_the_first_suffix_that_is_sure_has_the_word_and_else_the_surest() -> None:
    lookup = Lookup(EOS)
    lookup.add([1, 2, 3, 4])  # the longer suffix was seen once …
    lookup.add([7, 2, 3, 5], weight=8)  # … the shorter one often
    assert lookup.propose([1, 2, 3], 1).ids == (5,)
    lookup.add([1, 2, 3, 4], weight=20)
    assert lookup.propose([1, 2, 3], 1) == Proposal((4,), (21 / 21.5,), (21 / 21.5,))


def test_behind_guesses_the_lookup_goes_on_when_both_together_are_faster_than_the_plan() -> None:
    sure, rates = Proposal((1,) * 8, (0.99,) * 8, (0.99,) * 8), (0.95, 0.95)
    mtp = Expectation(6, 5.5, COSTS.step_s(6, 6))
    won = better(mtp, sure, COSTS, rates)
    assert won is not None
    assert (won.length, won.seconds) == (10, COSTS.step_s(10, 2))
    assert won.tokens == pytest.approx(1 + 0.95 + 0.95**2 * (1 + sum(0.99**n for n in range(1, 9))))
    barely = Expectation(6, won.rate / (MARGIN - 0.01) * mtp.seconds, mtp.seconds)
    assert better(barely, sure, COSTS, rates) is None
    assert better(barely, sure, COSTS, rates, last=True) is not None  # behind the last guess there is nothing to compare with
    assert better(mtp, Proposal(), COSTS, rates, last=True) is None


@given(guessed=st.lists(st.floats(0, 1), max_size=8), confidences=st.lists(st.floats(0, 1), max_size=8))
@settings(deadline=None)
def test_a_continuation_never_drops_a_guess_and_is_the_fastest_that_keeps_them(guessed: list[float], confidences: list[float]) -> None:
    found = continued(Proposal((1,) * len(confidences), tuple(confidences), tuple(confidences)), COSTS, guessed)
    rates = [*guessed, *confidences]
    speeds = {}
    for length in range(len(guessed), len(rates) + 1):
        tokens = sum(math.prod(rates[:count]) for count in range(length + 1))
        speeds[length] = tokens / (COSTS.verify_s[length] + len(guessed) * COSTS.draft_s)
    assert found.length >= len(guessed)
    assert found.rate == pytest.approx(max(speeds.values()))
    assert speeds[found.length] == pytest.approx(found.rate)


def test_a_base_is_built_from_whole_texts_that_end() -> None:
    base = Lookup.build(EOS, [[1, 2, 3], [1, 2, 3], [5, 2, 3, 4]])
    assert base.propose([5, 2], 4).ids == (3, 4)
    assert base.propose([1, 2], 4).ids == (3,)
    assert base.propose([9, 2, 3], 4).ids == ()  # two of three texts end here
