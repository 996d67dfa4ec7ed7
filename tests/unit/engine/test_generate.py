"""Decoding with drafts writes the same text as plain decoding, and plain decoding what a slow loop without a cache writes."""

from __future__ import annotations

import json

import jsonschema
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import report_schema, schema_text
from pipeline.engine import decode
from pipeline.engine.generate import Decoded, Engine
from pipeline.engine.grammar import Grammar
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


@given(
    model=st.integers(0, 3),
    image=st.integers(0, 10_000),
    k=st.integers(1, 8),
    limit=st.integers(1, 90),
    schema=st.sampled_from([None, SMALL, schema_text()]),
    indication=st.text(max_size=12),
)
@settings(max_examples=60, deadline=None)
def test_drafting_never_changes_the_text(
    engines: tuple[Engine, ...], model: int, image: int, k: int, limit: int, schema: str | None, indication: str
) -> None:
    def run(depth: int) -> Decoded:
        return engines[model].generate(render(indication, 4), features(image), schema=schema, k=depth, max_tokens=limit)

    plain, drafted = run(0), run(k)
    assert (drafted.ids, drafted.text, drafted.stop) == (plain.ids, plain.text, plain.stop)
    assert len(drafted.generation.accepted_histogram) == k + 1
    assert drafted.generation.verify_count <= plain.generation.verify_count


def test_a_near_tie_is_decided_alike_at_every_draft_length(engines: tuple[Engine, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "NEAR_TIE", float("inf"))  # every step takes the careful way
    texts = {engines[0].generate(render("", 4), features(5), schema=SMALL, k=k, max_tokens=40).ids for k in (0, 1, 4)}
    assert len(texts) == 1


def test_an_end_token_inside_a_drafted_block_drops_the_tail(engines: tuple[Engine, ...]) -> None:
    engine = engines[1]
    plain = engine.generate(render("", 4), features(1), schema=None, k=0, max_tokens=30)
    end = engine.tokenizer.eos_id
    for place in (3, 11, 12, 25):
        engine.tokenizer.eos_id = plain.ids[place]  # declare a token that the text contains to be the end
        try:
            texts = [engine.generate(render("", 4), features(1), schema=None, k=k, max_tokens=30) for k in range(9)]
        finally:
            engine.tokenizer.eos_id = end
        first = plain.ids.index(plain.ids[place])
        assert {(text.ids, text.stop) for text in texts} == {(plain.ids[:first], "end")}


def test_a_grammar_always_yields_a_valid_report_when_the_text_ends(engines: tuple[Engine, ...]) -> None:
    ended = 0
    for engine in engines:
        for image in range(3):
            decoded = engine.generate(render("体检", 4), features(image), schema=schema_text(), k=3)
            if decoded.stop == "end":
                ended += 1
                jsonschema.validate(json.loads(decoded.text), report_schema())
    assert ended >= 8


def test_the_histogram_accounts_for_every_token(engines: tuple[Engine, ...]) -> None:
    decoded = engines[2].generate(render("", 4), features(1), schema=SMALL, k=3)
    made = decoded.generation
    written = 1 + sum((i + 1) * n for i, n in enumerate(made.accepted_histogram))  # the prompt's pass writes the first
    assert made.tokens == len(decoded.ids)
    assert written - made.tokens in (0, 1)  # the last step writes no token of its own when the grammar ends on an accepted draft
    assert made.verify_count == sum(made.accepted_histogram)


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
