"""Decoding with drafts writes the same text as plain decoding, and plain decoding what a slow loop without a cache writes."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
import torch

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import report_schema, schema_text
from pipeline.engine.generate import Engine, Request
from pipeline.engine.grammar import Grammar
from pipeline.engine.policy import Policy
from pipeline.errors import BadInput
from tests.unit.engine.conftest import features

SMALL = json.dumps(
    {
        "type": "object",
        "properties": {"a": {"enum": ["左肺", "右肺"]}, "n": {"type": "integer"}},
        "required": ["a", "n"],
        "additionalProperties": False,
    }
)


def slow(engine: Engine, prompt: str, seed: int, schema: str | None, max_tokens: int) -> list[int]:
    """Greedy decoding in the obvious way: the whole text through the model for every token."""
    ids = engine.tokenizer.encode(prompt)
    out: list[int] = []
    rows = torch.from_numpy(features(seed)).unsqueeze(0)
    grammar = Grammar(engine.tokenizer, schema) if schema else None
    while len(out) < max_tokens and not (grammar and grammar.finished):
        logits = engine.model.logits(engine.model(torch.tensor([ids + out]), rows)[0, -1])
        token = int((logits + grammar.mask() if grammar else logits).argmax())
        if token == engine.tokenizer.eos_id:
            break
        out.append(token)
        if grammar:
            grammar.consume(token)
    return out


@pytest.mark.parametrize("schema", [None, SMALL, schema_text()])
def test_plain_decoding_equals_the_slow_loop_without_a_cache(engines: tuple[Engine, ...], schema: str | None) -> None:
    for seed, engine in enumerate(engines[:2]):
        prompt = render("咳嗽", 4)
        assert list(engine.generate(prompt, features(seed), schema=schema, k=0, max_tokens=60).ids) == slow(engine, prompt, seed, schema, 60)


def test_a_grammar_always_yields_a_valid_report_when_the_text_ends(engines: tuple[Engine, ...]) -> None:
    ended = 0
    for engine in engines:
        for image in range(2):
            decoded = engine.generate(render("体检", 4), features(image), schema=schema_text(), k=3)
            if decoded.stop == "end":
                ended += 1
                jsonschema.validate(json.loads(decoded.text), report_schema())
    assert ended >= 5


@pytest.mark.parametrize("policy", [Policy.fixed(3), Policy.fixed(0), Policy.plain(), Policy.default(), Policy(k=3, jump=False)])
def test_the_figures_account_for_every_token(engines: tuple[Engine, ...], policy: Policy) -> None:
    decoded = engines[2].generate(render("", 4), features(1), schema=schema_text(), policy=policy, max_tokens=90)
    made = decoded.generation
    accepted = sum(i * n for i, n in enumerate(made.accepted_histogram))
    assert made.tokens == len(decoded.ids) == sum(row[0] for row in made.sections.values())
    assert made.verify_count == sum(made.accepted_histogram)
    by_passes = made.tokens - made.forced - accepted  # the prompt's pass and each later one write at most one token of their own
    assert made.verify_count - 2 <= by_passes <= made.verify_count + 1 or not policy.jump
    assert (made.forced > 0) == policy.jump
    assert (
        accepted == sum(row[1] for row in made.positions) == sum(row[1] for row in made.sources.values()) == sum(r[2] for r in made.sections.values())
    )


def test_the_default_policy_writes_what_the_slow_loop_writes(engines: tuple[Engine, ...]) -> None:
    prompt = render("咳嗽", 4)
    made = engines[3].generate(prompt, features(3), schema=schema_text(), max_tokens=60, prior="胸廓对称。")
    assert list(made.ids) == slow(engines[3], prompt, 3, schema_text(), 60)


def test_features_change_the_text(engines: tuple[Engine, ...]) -> None:
    texts = {engines[0].generate(render("", 4), features(image), schema=None, k=0, max_tokens=20).ids for image in range(5)}
    assert len(texts) > 1


@pytest.mark.parametrize(
    ("prompt", "rows", "k", "message"),
    [
        (render("", 3), features(0, 4), 0, "3 feature places and 4 feature rows"),
        (render("", 4), None, 0, "4 feature places and 0 feature rows"),
        (render("", 4), np.zeros((4, 5), np.float32), 0, r"\(4, 5\).*\(N, 12\)"),
        (render("", 4), np.full((4, 12), np.nan, np.float32), 0, "NaN"),
        (render("", 4), features(0), 17, "draft length 17"),
        ("", None, 0, "0 tokens"),
    ],
)
def test_unfit_input_is_refused_with_the_value(engines: tuple[Engine, ...], prompt: str, rows: np.ndarray | None, k: int, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        engines[0].generate(prompt, rows, schema=None, k=k)


def test_a_text_longer_than_the_model_is_refused(engines: tuple[Engine, ...]) -> None:
    with pytest.raises(BadInput, match="must fit into"):
        engines[0].generate(render("", 4), features(0), schema=None, k=0, max_tokens=5000)


def test_a_broken_schema_is_refused(engines: tuple[Engine, ...]) -> None:
    with pytest.raises(BadInput, match="schema"):
        engines[0].generate(render("", 4), features(0), schema="{not json", k=0)


@pytest.mark.parametrize("batch", [0, 17])
def test_a_batch_outside_the_caches_is_refused(engines: tuple[Engine, ...], batch: int) -> None:
    with pytest.raises(BadInput, match=f"batch size {batch}"):
        engines[0].generate_many([Request(render("", 4), features(0), None)], batch=batch)


def test_no_request_gives_no_text(engines: tuple[Engine, ...]) -> None:
    assert engines[0].generate_many([], batch=8) == []


def test_one_unfit_request_is_refused_before_any_text_is_written(engines: tuple[Engine, ...]) -> None:
    wanted = [Request(render("", 4), features(0), None, 5), Request(render("", 4), features(0, 3), None, 5)]
    with pytest.raises(BadInput, match="4 feature places and 3 feature rows"):
        engines[0].generate_many(wanted, batch=2, policy=Policy.plain())
