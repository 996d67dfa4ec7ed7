"""Nothing leaks: not what was rolled back, not what an earlier text left behind, not a companion in the batch, not a feature outside its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pipeline.drafting.prompt import render
from pipeline.drafting.schema import schema_text
from pipeline.engine.cache import Memory
from pipeline.engine.generate import Engine, Request
from pipeline.engine.network import Network
from pipeline.engine.places import Span
from pipeline.engine.policy import Policy
from pipeline.errors import BadInput
from tests.unit.engine.conftest import FEATURE_DIM, features
from tests.unit.engine.shapes import SHAPES, model_of
from tests.unit.engine.slow import Slow

ROOM = 64
IDS = st.lists(st.integers(4, 300), min_size=1, max_size=12)


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    with torch.inference_mode():
        yield


@pytest.fixture(scope="module")
def network() -> Network:
    return Network(model_of("routing scaled up"))


def states(network: Network, memory: Memory, blocks: Sequence[tuple[int, int, Sequence[int]]]) -> list[Tensor]:
    """Hidden states (rows, hidden) of each block (slot, start, ids), all of them in one pass."""
    spans = [Span(slot, start, len(ids)) for slot, start, ids in blocks]
    seen = network.forward(network.embed([token for _, _, ids in blocks for token in ids]), spans, memory.main)
    return list(torch.split(seen.hidden, [span.count for span in spans]))


@pytest.mark.parametrize("shape", SHAPES)
def test_packed_blocks_of_three_texts_equal_the_reference(shape: str) -> None:
    model = model_of(shape)
    network, slow = Network(model), Slow.of(model)
    texts = [list(range(20, 38)), list(range(60, 69)), list(range(100, 113))]
    cuts = [3, 8, 5]
    memory = network.memory(3, ROOM)
    first = states(network, memory, [(slot, 0, ids[:cut]) for slot, (ids, cut) in enumerate(zip(texts, cuts, strict=True))])
    rest = states(network, memory, [(slot, cut, ids[cut:]) for slot, (ids, cut) in enumerate(zip(texts, cuts, strict=True))])
    for ids, begun, ended in zip(texts, first, rest, strict=True):
        hidden, wanted = torch.cat([begun, ended]), slow.hidden(ids)
        assert torch.allclose(hidden.double(), wanted, atol=1e-4)
        assert torch.allclose(network.logits(hidden).double(), slow.logits(wanted), atol=1e-4)


@pytest.mark.parametrize("shape", ["tiny", "yarn", "other widths"])
def test_packed_drafts_equal_the_recursion_by_hand(shape: str) -> None:
    model = model_of(shape, seed=3)
    network, slow = Network(model), Slow.of(model)
    texts = [list(range(20, 31)), list(range(60, 66))]
    memory = network.memory(2, ROOM)
    hidden = torch.cat(states(network, memory, [(slot, 0, ids) for slot, ids in enumerate(texts)]))
    tokens, known = [[*ids[1:], 90] for ids in texts], [list(slow.hidden(ids)) for ids in texts]
    state = network.draft([*tokens[0], *tokens[1]], hidden, [Span(0, 0, 11), Span(1, 0, 6)], memory.mtp, 1)  # (2, hidden)
    for step in range(4):
        for slot in range(2):
            wanted = slow.mtp(tokens[slot], torch.stack(known[slot]))[-1]
            assert torch.allclose(state[slot].double(), wanted, atol=1e-4), (step, slot)
            tokens[slot], known[slot] = [*tokens[slot], 100 + step], [*known[slot], wanted]
        state = network.draft([100 + step] * 2, state, [Span(0, 11 + step, 1), Span(1, 6 + step, 1)], memory.mtp, 1)


@given(prompt=IDS, guesses=IDS, truth=IDS)
@settings(max_examples=25, deadline=None)
def test_what_was_rolled_back_leaves_no_trace(network: Network, prompt: list[int], guesses: list[int], truth: list[int]) -> None:
    used, fresh = network.memory(1, ROOM), network.memory(1, ROOM)
    states(network, used, [(0, 0, prompt)])
    states(network, used, [(0, len(prompt), guesses)])
    states(network, fresh, [(0, 0, prompt)])
    again, wanted = (states(network, memory, [(0, len(prompt), truth)])[0] for memory in (used, fresh))
    assert torch.equal(again, wanted)


@given(own=IDS, one=IDS, other=st.integers(4, 300))
@settings(max_examples=25, deadline=None)
def test_a_companion_changes_nothing_in_a_row(network: Network, own: list[int], one: list[int], other: int) -> None:
    def beside(companion: Sequence[int]) -> Tensor:
        memory = network.memory(2, ROOM)
        return states(network, memory, [(0, 0, own), (1, 0, companion)])[0]

    assert torch.equal(beside(one), beside([other] * len(one)))


def test_left_overs_of_an_earlier_text_change_nothing(engines: tuple[Engine, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engines[1]
    wanted = engine.generate(render("咳嗽", 4), features(1), schema=schema_text(), k=3, max_tokens=40)
    untouched = engine.network.memory

    def dirty(slots: int, capacity: int) -> Memory:
        memory = untouched(slots, capacity)
        for rows in (*memory.main.rows, *memory.mtp.rows):
            rows.fill_(1e3)
        return memory

    monkeypatch.setattr(engine.network, "memory", dirty)
    monkeypatch.setattr(engine, "_memory", None)
    for policy in (Policy.fixed(3), Policy.plain(), Policy.default()):
        assert engine.generate(render("咳嗽", 4), features(1), schema=schema_text(), policy=policy, max_tokens=40).ids == wanted.ids


def test_a_text_does_not_change_with_its_companions_in_the_batch(engines: tuple[Engine, ...]) -> None:
    engine = engines[0]
    own = Request(render("咳嗽", 4), features(1), schema_text(), 50)
    alone = engine.generate_many([own], batch=1, policy=Policy.plain())[0].ids
    loud = Request(render("体检", 4), features(2) * np.float32(1e4), None, 70)
    quiet = Request(render("", 1), features(3, 1), schema_text(), 5)
    for companions in ([loud], [quiet] * 5, [loud, quiet, loud], [own]):
        written = engine.generate_many([*companions, own], batch=len(companions) + 1, policy=Policy.fixed(4))
        assert written[-1].ids == alone


@pytest.mark.parametrize("shape", ["tiny", "no dense layer"])
def test_a_feature_is_seen_from_its_place_on_and_nowhere_before(shape: str) -> None:
    model = model_of(shape)
    network = Network(model)
    ids = [30, 31, model.config.ct_placeholder_id, 32, model.config.ct_placeholder_id, 33]
    first = torch.from_numpy(features(1, 2)).unsqueeze(0)
    second = first.clone()
    second[0, 1] += 1.0  # another picture at the second place, position 4

    def seen(rows: Tensor) -> Tensor:
        return network.forward(network.embed(ids, rows), [Span(0, 0, len(ids))], network.memory(1, ROOM).main).hidden

    one, other = seen(first), seen(second)
    assert torch.equal(one[:4], other[:4])
    assert not torch.allclose(one[4:], other[4:], atol=1e-3)
    embedded = network.embed(ids, first)
    assert torch.equal(embedded[[0, 1, 3, 5]], network.embed(ids)[[0, 1, 3, 5]])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_features_that_are_no_numbers_are_refused_alone_and_in_a_batch(engines: tuple[Engine, ...], value: float) -> None:
    engine, bad = engines[0], features(1)
    bad[2, FEATURE_DIM - 1] = value
    good = Request(render("", 4), features(0), None, 5)
    with pytest.raises(BadInput, match="NaN or infinite values; encode the study again"):
        engine.generate(render("", 4), bad, schema=None, k=2)
    with pytest.raises(BadInput, match="NaN or infinite values"):
        engine.generate_many([good, Request(render("", 4), bad, None, 5)], batch=2)
    assert engine.generate_many([good], batch=2)[0].ids
