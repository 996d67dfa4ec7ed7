"""The fast engine against a slow, obviously right one: states, logits, drafts and greedy text."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import schema_text
from pipeline.engine.generate import Engine
from pipeline.engine.policy import Policy
from tests.unit.engine.conftest import features
from tests.unit.engine.shapes import SHAPES, model_of
from tests.unit.engine.slow import Slow, Trying, drafts, write
from tests.unit.engine.test_generate import SMALL


@pytest.mark.parametrize("shape", SHAPES)
def test_states_and_logits_equal_the_reference(shape: str) -> None:
    model = model_of(shape)
    slow = Slow.of(model)
    rows = torch.from_numpy(features(3))
    ids = [5, *[model.config.ct_placeholder_id] * 4, *range(20, 50)]
    with torch.inference_mode():
        hidden = model(torch.tensor([ids]), rows.unsqueeze(0))
        wanted = slow.hidden(ids, rows)
        assert torch.allclose(hidden[0].double(), wanted, atol=1e-4)
        assert torch.allclose(model.logits(hidden)[0].double(), slow.logits(wanted), atol=1e-4)


@pytest.mark.parametrize("shape", ["tiny", "routing scaled up", "other widths"])
def test_mtp_states_equal_the_recursion_by_hand(shape: str) -> None:
    model = model_of(shape, seed=1)
    slow = Slow.of(model)
    ids = list(range(30, 52))
    with torch.inference_mode():
        hidden = model(torch.tensor([ids]))
        tokens, states = [*ids[1:], 60], list(slow.hidden(ids))
        cache = model.new_mtp_cache(40)
        state = model.draft(torch.tensor([tokens]), hidden, cache)[:, -1:]
        for step in range(6):
            wanted = slow.mtp(tokens, torch.stack(states))[-1]
            assert torch.allclose(state[0, 0].double(), wanted, atol=1e-4), step
            tokens, states = [*tokens, 70 + step], [*states, wanted]
            state = model.draft(torch.tensor([[70 + step]]), state, cache)


@pytest.mark.parametrize("schema", [None, SMALL, schema_text()])
def test_the_engine_writes_what_the_reference_writes(engines: tuple[Engine, ...], schema: str | None) -> None:
    for seed, engine in enumerate(engines[:2]):
        prompt = render("咳嗽", 4)
        wanted = write(Slow.of(engine.model), engine.tokenizer, engine.tokenizer.encode(prompt), torch.from_numpy(features(seed)), schema, 24)
        for k in (0, 3):
            assert list(engine.generate(prompt, features(seed), schema=schema, k=k, max_tokens=24).ids) == wanted


def accepted_by_hand(engine: Engine, prompt: list[int], rows: np.ndarray, schema: str | None, k: int, limit: int) -> list[int]:
    """How many free drafts each step accepts, from the reference's text and its drafts."""
    slow, tensor = Slow.of(engine.model), torch.from_numpy(rows)
    text = write(slow, engine.tokenizer, prompt, tensor, schema, limit)
    grammar = Trying(engine.tokenizer, schema)
    histogram = [0] * (k + 1)
    done = 1
    follow(grammar, text[:1])
    while done < len(text):
        known = [*prompt, *text[:done]]
        guesses = drafts(slow, known, slow.hidden(known[:-1], tensor), grammar, min(k, limit - done - 1), engine.tokenizer.eos_id)
        hits = [guess == token for (guess, _), token in zip(guesses, text[done:], strict=False)]
        accepted = hits.index(False) if False in hits else len(hits)
        histogram[sum(free for _, free in guesses[:accepted])] += 1
        follow(grammar, text[done : done + accepted + 1])
        done += accepted + 1
    return histogram


def follow(grammar: Trying, tokens: list[int]) -> None:
    if grammar.matcher is not None:
        assert grammar.matcher.consume_tokens(tokens)


@pytest.mark.parametrize("schema", [None, schema_text()])
@pytest.mark.parametrize("k", [1, 4])
def test_each_step_accepts_what_the_recursion_by_hand_foretells(engines: tuple[Engine, ...], schema: str | None, k: int) -> None:
    engine, rows = engines[2], features(2)
    prompt = render("体检", 4)
    made = engine.generate(prompt, rows, schema=schema, policy=Policy(k=k, jump=False), max_tokens=20).generation
    assert list(made.accepted_histogram) == accepted_by_hand(engine, engine.tokenizer.encode(prompt), rows, schema, k, 20)
