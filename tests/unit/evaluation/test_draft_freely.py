"""Texts for measuring alone: without an end, and drawn by chance."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipeline.drafting.prompt import render
from pipeline.engine.generate import Engine, Request
from pipeline.engine.policy import Policy
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.evaluation.draft_freely import SampledText, endless, nucleus, sampled

DIM = 12
SMALL = json.dumps(
    {"type": "object", "properties": {"建议": {"type": "string", "maxLength": 12}}, "required": ["建议"], "additionalProperties": False}
)
FEATURES = np.random.default_rng(0).normal(size=(4, DIM)).astype(np.float32)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tmp_path_factory.mktemp("freely")
    write_seeded_checkpoint(folder, feature_dim=DIM)
    return Engine.load(folder)


def request() -> Request:
    return Request(render("咳嗽", 4), FEATURES, SMALL, 60)


def test_an_endless_text_has_exactly_its_tokens_the_same_with_and_without_drafts(engine: Engine) -> None:
    prompt = engine.prepared(render("咳嗽", 4), FEATURES, 1)
    plain = endless(engine, [prompt], 40, Policy.plain())
    assert [one.tokens for one in plain.made] == [40]
    assert engine.tokenizer.eos_id not in plain.ids[0]
    for policy in (Policy.fixed(3), Policy()):
        assert endless(engine, [prompt], 40, policy).ids == plain.ids
    together = endless(engine, [prompt] * 3, 40, Policy.fixed(3))
    assert together.ids == plain.ids * 3
    assert plain.made[0].verify_count >= together.made[0].verify_count > 0


def test_an_endless_text_goes_on_where_the_engine_would_end(engine: Engine) -> None:
    prompts = [engine.prepared(render(str(number), 4), FEATURES, 1) for number in range(6)]
    usual = [engine.generate(render(str(number), 4), FEATURES, schema=None, max_tokens=300) for number in range(6)]
    assert any(one.stop == "end" for one in usual)
    assert all(made.tokens == 300 for made in endless(engine, prompts, 300, Policy.fixed(2)).made)


def test_the_same_seed_draws_the_same_text_and_others_draw_others(engine: Engine) -> None:
    texts = [sampled(engine, request(), 1.0, 1.0, seed)[0] for seed in (0, 0, 1, 2, 3)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


@pytest.mark.parametrize("heat", [(1e-4, 1.0), (1.0, 1e-6)])
def test_cold_or_narrow_draws_are_the_greedy_text(engine: Engine, heat: tuple[float, float]) -> None:
    greedy = engine.generate(request().prompt, FEATURES, schema=SMALL, k=0, max_tokens=60).text
    assert sampled(engine, request(), *heat, seed=5)[0] == greedy


@pytest.mark.parametrize("seed", range(8))
def test_what_is_drawn_still_fits_the_grammar(engine: Engine, seed: int) -> None:
    text, made = sampled(engine, request(), 1.5, 1.0, seed)
    assert len(json.loads(text)["建议"]) <= 12
    assert made.forced > 0
    assert made.accepted_histogram == (made.verify_count,)


@given(st.lists(st.floats(-6, 6), min_size=2, max_size=12), st.floats(0.05, 1.0))
def test_the_nucleus_is_the_smallest_set_of_the_likeliest_that_has_enough(logits: list[float], top_p: float) -> None:
    scores = torch.tensor(logits, dtype=torch.float64).log_softmax(dim=-1)
    kept = nucleus(scores, top_p)
    inside = kept > -torch.inf
    probabilities = scores.exp()
    assert inside.any()
    assert probabilities[inside].min() >= probabilities[~inside].max() if (~inside).any() else True
    assert float(probabilities[inside].sum()) >= top_p - 1e-9
    assert float(probabilities[inside].sum() - probabilities[inside].min()) < top_p + 1e-9


def test_draws_follow_the_probabilities(engine: Engine) -> None:
    text = engine.begin(Request("a", None, None, 5), Policy.fixed(0))
    drawer = SampledText(text.tokenizer, text.prompt, None, None, 5, text.watcher, text.counts, False, temperature=1.0, top_p=1.0)
    drawer.rng = torch.Generator().manual_seed(0)
    logits = torch.tensor([0.0, 1.0, 2.0])
    drawn = torch.tensor([int(drawer.masked(logits).argmax()) for _ in range(4000)]).bincount(minlength=3) / 4000
    assert torch.allclose(drawn, logits.softmax(dim=0), atol=0.03)
