"""A draft may begin with the MTP's guesses and go on with the lookup's; each is counted, learnt from and costed as what it is."""

from __future__ import annotations

import pytest

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import schema_text
from pipeline.engine import lookup as lookups
from pipeline.engine.costs import Costs, Expectation
from pipeline.engine.counts import LOOKUP, MTP, Counts
from pipeline.engine.generate import Engine
from pipeline.engine.lookup import Lookup
from pipeline.engine.policy import MAX_DRAFT, Policy
from pipeline.engine.proposing import Chain, Proposer
from pipeline.engine.sections import FINDINGS, SectionWatcher
from pipeline.engine.text import Draft, Text
from pipeline.engine.tokenizer import TextTokenizer
from tests.unit.engine.conftest import features
from tests.unit.engine.shapes import TOKENIZER

COSTS = Costs(tuple(4.0 + 0.2 * row for row in range(MAX_DRAFT + 1)), 0.7)
PLAN = Expectation(4, 4.2, COSTS.step_s(4, 4))


def text_of(ids: list[int], known: list[int], tokenizer: TextTokenizer = TOKENIZER) -> Text:
    """A text behind a prompt, whose lookup has read `known` often."""
    base = Lookup(tokenizer.eos_id)
    base.add(known, weight=50)
    return Text(tokenizer, ids, None, None, 60, SectionWatcher(), Counts(MAX_DRAFT), True, lookup=Lookup(tokenizer.eos_id, base))


def chain_of(text: Text, guesses: list[int]) -> Chain:
    """A chain that has guessed these tokens and may guess more."""
    chain = Chain(text, PLAN, (0.9,) * MAX_DRAFT, PLAN.length)
    for token in guesses:
        chain.take(token)
    return chain


def ask(chain: Chain) -> None:
    Proposer(None, Policy.default(), None, COSTS)._ask(chain)  # type: ignore[arg-type]  # no network is asked


def test_the_lookup_goes_on_behind_a_guess_that_it_knows_what_follows() -> None:
    text = text_of([20, 21], known=[21, 22, 23, 24, 25, 26, 27, 28])
    chain = chain_of(text, [22])
    ask(chain)
    assert text.draft.tokens == [22, 23, 24, 25, 26, 27, 28]
    assert text.draft.handed == 1
    assert not chain.runs
    assert [behind for behind, _ in text.proposals] == [1]


def test_the_chain_guesses_on_where_the_lookup_knows_nothing_better() -> None:
    text = text_of([20, 21], known=[30, 31, 32])
    chain = chain_of(text, [22])
    ask(chain)
    assert (text.draft.tokens, chain.left) == ([22], PLAN.length - 1)


def test_a_text_that_ends_with_a_guess_is_not_continued() -> None:
    text = text_of([20, 21], known=[21, 22, 23, 24, 25])
    chain = chain_of(text, [22, TOKENIZER.eos_id])
    assert chain.ended
    ask(chain)
    assert text.draft.tokens == [22]


def test_forced_tokens_are_certain_and_guesses_take_their_rates_in_turn() -> None:
    text = text_of([20], known=[])
    chain = Chain(text, PLAN, (0.9, 0.8, 0.7))
    text.draft = Draft(tokens=[5, 6, 7], free=[True, False, True])
    assert chain.chances == [0.9, 1.0, 0.8]


@pytest.mark.parametrize(
    ("judged", "accepted", "counted"),
    [
        (5, 5, {MTP: (1, 1), LOOKUP: (3, 3)}),
        (5, 3, {MTP: (1, 1), LOOKUP: (3, 1)}),
        (1, 0, {MTP: (1, 0)}),
        (0, 0, {}),
    ],
)
def test_free_tokens_are_counted_by_who_proposed_them(judged: int, accepted: int, counted: dict[str, tuple[int, int]]) -> None:
    draft = Draft(handed=2, tokens=[1, 2, 3, 4, 5], free=[True, False, True, True, True])
    assert draft.judged(judged, accepted) == counted
    counts = Counts(MAX_DRAFT)
    counts.verified(FINDINGS, counted)
    made = counts.generation(9, 1.0)
    assert made.sources == counted
    assert sum(drafted for drafted, _ in made.positions) == sum(pair[0] for pair in counted.values())


def test_a_proposal_behind_guesses_is_judged_only_where_the_guesses_stand() -> None:
    text = text_of([20, 21], known=[21, 22, 23, 24, 25])
    ask(chain_of(text, [22]))
    assert text.lookup is not None
    text.learn([9, 23, 24])
    assert sum(text.lookup.calibration.seen) == 0
    text.learn([22, 23, 9])
    assert sum(text.lookup.calibration.seen) > sum(text.lookup.calibration.right) > 0


@pytest.mark.parametrize("margin", [0.0, 1.2, 9.0])
def test_a_known_text_takes_fewer_passes_and_stays_the_same(engines: tuple[Engine, ...], margin: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookups, "MARGIN", margin)  # hand over at once, as decided, or only behind the last guess
    engine, prompt = engines[0], render("咳嗽", 4)
    plain = engine.generate(prompt, features(1), schema=schema_text(), policy=Policy.plain(), max_tokens=80)
    known = engine.generate(prompt, features(1), schema=schema_text(), policy=Policy(k=2, lookup=True), max_tokens=80, prior=plain.text)
    assert known.ids == plain.ids
    assert known.generation.verify_count < 0.5 * plain.generation.verify_count
    assert known.generation.sources[LOOKUP][1] > 0
