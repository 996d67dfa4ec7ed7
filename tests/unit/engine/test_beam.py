"""Assisted beam search finds what plain beam search finds, with fewer passes; plain search equals a slow one without a cache."""

from __future__ import annotations

import json
from collections.abc import Sequence

import jsonschema
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import report_schema, schema_text
from pipeline.engine.beam import MAX_WIDTH, Beamed, beam_search
from pipeline.engine.branches import Branch, Node, leaves, settled, step
from pipeline.engine.checkpoint import PACKAGED
from pipeline.engine.generate import Engine
from pipeline.engine.grammar import Grammar
from pipeline.errors import BadInput
from tests.unit.engine.conftest import features
from tests.unit.engine.test_generate import SMALL

SAME = 1e-4  # of a score: passes of different sizes differ by about 1e-6 in their logits


def slow(engine: Engine, prompt: str, seed: int, schema: str | None, width: int, max_tokens: int) -> Branch:
    """Beam search in the obvious way: every branch's whole text through the model for every token."""
    ids, rows, eos = engine.tokenizer.encode(prompt), torch.from_numpy(features(seed)).unsqueeze(0), engine.tokenizer.eos_id
    live, ended = [Branch(grammar=Grammar(engine.tokenizer, schema) if schema else None)], list[Branch]()
    while live and len(live[0].tokens) < max_tokens:
        grown: list[Branch] = []
        for branch in live:
            logits = engine.model.logits(engine.model(torch.tensor([[*ids, *branch.tokens]]), rows)[0, -1])
            logs = (logits if branch.grammar is None else logits + branch.grammar.mask()).log_softmax(dim=-1)
            best = logs.topk(min(2 * width, len(logs)))
            allowed = [(log, token) for log, token in zip(best.values.tolist(), best.indices.tolist(), strict=True) if log > float("-inf")]
            grown += [branch.grown(token, branch.total + log, eos) for log, token in allowed]
        grown = sorted(grown, key=lambda branch: -branch.total)[: 2 * width]
        ended += [branch for branch in grown[:width] if branch.ended]
        live = [branch for branch in grown if not branch.ended][:width]
        if settled(live, ended, width):
            break
    return max(ended or live, key=lambda branch: branch.score)


def search(engine: Engine, seed: int, schema: str | None, width: int, *, assisted: bool, max_tokens: int = 60, depth: int = 6) -> Beamed:
    return beam_search(engine, render("咳嗽", 4), features(seed), schema, width, assisted=assisted, max_tokens=max_tokens, depth=depth)


@pytest.mark.parametrize("schema", [None, SMALL, schema_text()], ids=["free", "small", "report"])
@pytest.mark.parametrize("width", [1, 3])
def test_plain_search_equals_the_slow_one_without_a_cache(engines: tuple[Engine, ...], schema: str | None, width: int) -> None:
    for seed, engine in enumerate(engines[:2]):
        wanted = slow(engine, render("咳嗽", 4), seed, schema, width, 25)
        found = search(engine, seed, schema, width, assisted=False, max_tokens=25)
        assert found.ids == wanted.tokens
        assert found.score == pytest.approx(wanted.score, abs=SAME)
        assert found.stop == ("end" if wanted.ended else "length")
        assert found.drafts == 0


@given(
    model=st.integers(0, 3),
    image=st.integers(0, 10_000),
    width=st.integers(1, 5),
    depth=st.integers(1, 9),
    limit=st.integers(1, 60),
    schema=st.sampled_from([None, SMALL, schema_text()]),
)
@settings(max_examples=25, deadline=None)
def test_assisted_search_scores_at_least_as_well_with_no_more_passes(
    engines: tuple[Engine, ...], model: int, image: int, width: int, depth: int, limit: int, schema: str | None
) -> None:
    plain, assisted = (search(engines[model], image, schema, width, assisted=assisted, max_tokens=limit, depth=depth) for assisted in (False, True))
    assert assisted.score >= plain.score - SAME
    assert (assisted.ids, assisted.stop) == (plain.ids, plain.stop)
    assert assisted.forwards <= plain.forwards
    assert len(assisted.ids) <= limit


def test_one_branch_writes_the_greedy_text(engines: tuple[Engine, ...]) -> None:
    greedy = engines[0].generate(render("咳嗽", 4), features(2), schema=schema_text(), k=0, max_tokens=60)
    assert search(engines[0], 2, schema_text(), 1, assisted=True).ids == greedy.ids


def test_the_packaged_model_needs_far_fewer_passes_for_the_same_score() -> None:
    engine = Engine.load(PACKAGED)
    rows = torch.randn(24, engine.config.ct_feature_dim, generator=torch.Generator().manual_seed(0)).numpy()
    plain, assisted = (beam_search(engine, render("咳嗽", 24), rows, schema_text(), 3, assisted=each, max_tokens=120) for each in (False, True))
    assert assisted.score >= plain.score - SAME
    assert assisted.forwards <= 0.6 * plain.forwards


def test_a_text_that_ends_is_a_valid_report(engines: tuple[Engine, ...]) -> None:
    found = search(engines[1], 1, schema_text(), 4, assisted=True, max_tokens=600)
    assert found.stop == "end"
    jsonschema.validate(json.loads(found.text), report_schema())


@pytest.mark.parametrize("width", [0, MAX_WIDTH + 1])
def test_a_width_outside_is_refused(engines: tuple[Engine, ...], width: int) -> None:
    with pytest.raises(BadInput, match=f"{width} branches are outside 1 … {MAX_WIDTH}"):
        search(engines[0], 0, SMALL, width, assisted=True)


def logs(*rows: Sequence[float]) -> torch.Tensor:
    return torch.tensor(rows)


def test_a_step_keeps_the_best_that_go_on_and_notes_what_ends() -> None:
    branches = [Branch((5,), -1.0, 1), Branch((6,), -2.0, 1)]
    live, ended = step(branches, logs([-0.1, -3.0, -9.0], [-0.5, -0.2, -9.0]), 2, eos=0)
    assert [(child.parent, child.token, child.branch.tokens) for child in live] == [(1, 1, (6, 1)), (0, 1, (5, 1))]
    assert [(branch.tokens, branch.steps, branch.ended) for branch in ended] == [((5,), 2, True)]  # the other end was third
    assert ended[0].score == pytest.approx(-0.55)


def test_a_search_is_over_when_nothing_that_goes_on_scores_better() -> None:
    live, good, bad = Branch((1, 2), -1.0, 2), Branch((1,), -0.4, 1, ended=True), Branch((1,), -0.6, 1, ended=True)
    assert settled([live], [good], 3)
    assert not settled([live], [bad], 3)
    assert settled([live], [bad, bad, bad], 3)
    assert settled([], [], 3)
    assert not settled([live], [], 3)


def test_the_unlikeliest_paths_are_cut_and_roots_never() -> None:
    roots = [Node.at(Branch((place,), 0.0, 1), place) for place in range(2)]
    for token, total in ((1, -1.0), (2, -5.0), (3, -3.0)):
        child = roots[0].add(token, Branch((0, token), total, 2))
        child.add(9, Branch((0, token, 9), total - 1, 3))
    assert [end.branch.tokens for end in leaves(roots, 3)] == [(0, 1, 9), (0, 3, 9), (1,)]
    assert [end.branch.tokens for end in leaves(roots, 1)] == [(0,), (1,)]
