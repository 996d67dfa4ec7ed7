"""Forced tokens are jumped over: only where the mask allows exactly one token, without a pass, and counted as no draft."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import schema_text
from pipeline.engine.generate import Engine
from pipeline.engine.grammar import Grammar
from pipeline.engine.policy import Policy
from pipeline.engine.seeded import WORDS
from pipeline.engine.tokenizer import TextTokenizer, build
from tests.unit.engine.conftest import features

TOKENIZER = TextTokenizer(build(WORDS))
SCHEMAS = (schema_text(), json.dumps({"type": "integer"}), json.dumps({"type": "string", "maxLength": 5}), json.dumps({"enum": ["左肺", "左侧"]}))
FORCED = json.dumps({"type": "object", "properties": {"胸腔积液": {"enum": ["无"]}}, "required": ["胸腔积液"], "additionalProperties": False})


@given(seed=st.integers(0, 10**6), schema=st.sampled_from(SCHEMAS))
@settings(max_examples=15, deadline=None)
def test_forced_and_allowed_say_what_the_mask_says(seed: int, schema: str) -> None:
    rng, grammar = random.Random(seed), Grammar(TOKENIZER, schema)
    for _ in range(60):
        if grammar.finished:
            return
        mask = grammar.mask() == 0
        allowed: list[int] = mask.nonzero().flatten().tolist()
        forced = grammar.forced
        assert forced is None or allowed == [forced]
        if forced is None:
            assert [token for token in range(TOKENIZER.size) if grammar.allows(token)] == allowed
        words = [token for token in allowed if len(TOKENIZER.piece(token)) > 1]
        token = rng.choice(words or allowed)
        if token == TOKENIZER.eos_id:
            return
        grammar.consume(token)


def test_a_text_without_any_choice_costs_no_pass(engines: tuple[Engine, ...]) -> None:
    made = engines[0].generate(render("", 4), features(0), schema=FORCED, policy=Policy.default())
    assert json.loads(made.text) == {"胸腔积液": "无"}
    assert (made.generation.verify_count, made.generation.forced, made.stop) == (0, made.generation.tokens, "end")


@pytest.mark.parametrize("limit", range(1, 9))
def test_a_jump_stops_at_the_longest_length(engines: tuple[Engine, ...], limit: int) -> None:
    made = [
        engines[0].generate(render("", 4), features(0), schema=FORCED, policy=policy, max_tokens=limit)
        for policy in (Policy.default(), Policy.plain())
    ]
    assert made[0].ids == made[1].ids
    assert made[0].stop == made[1].stop


def test_jumps_save_passes_and_are_no_drafts(engines: tuple[Engine, ...]) -> None:
    plain, jumping, drafting = (
        engines[1].generate(render("", 4), features(2), schema=schema_text(), policy=policy)
        for policy in (Policy.plain(), Policy.plain(jump=True), Policy.fixed(4))
    )
    assert plain.ids == jumping.ids == drafting.ids
    assert plain.generation.forced == 0
    assert jumping.generation.verify_count + jumping.generation.forced >= plain.generation.verify_count
    assert jumping.generation.verify_count < plain.generation.verify_count - jumping.generation.forced // 2
    assert drafting.generation.forced == jumping.generation.forced
    free = drafting.generation.tokens - drafting.generation.forced
    assert sum(accepted for _, accepted in drafting.generation.positions) <= free


@pytest.mark.parametrize("policy", [Policy.plain(), Policy.fixed(8), Policy.default(), Policy(k=3, jump=False)])
def test_a_finished_grammar_is_never_asked(engines: tuple[Engine, ...], policy: Policy, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []
    exact: dict[str, Callable[..., object]] = {"mask": Grammar.mask, "allows": Grammar.allows, "forced": vars(Grammar)["forced"].fget}

    def watched(name: str) -> Callable[..., object]:
        def call(self: Grammar, *args: int) -> object:
            asked.append(self.finished)
            return exact[name](self, *args)

        return call

    for name in exact:
        monkeypatch.setattr(Grammar, name, property(watched(name)) if name == "forced" else watched(name))
    for schema in (*SCHEMAS, FORCED):
        assert engines[2].generate(render("", 4), features(5), schema=schema, policy=policy, max_tokens=120).ids
    assert asked
    assert not any(asked)
