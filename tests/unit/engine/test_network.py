"""The folded network computes what the model computes, alone, continued and in batches."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from pipeline.engine.generate import Engine
from pipeline.engine.model import Model
from pipeline.engine.network import Network
from pipeline.engine.places import Span
from pipeline.engine.rope import Yarn

CLOSE = 1e-4
LENGTHS = (7, 23, 12)


def ids_of(model: Model, length: int, seed: int) -> list[int]:
    """Random ids (length)."""
    drawn: list[int] = torch.randint(4, model.config.vocab_size, (length,), generator=torch.Generator().manual_seed(seed)).tolist()
    return drawn


def by_model(model: Model, ids: list[int]) -> Tensor:
    """Hidden states (T, hidden) of the plain module."""
    hidden: Tensor = model(torch.tensor([ids]))[0]
    return hidden


@pytest.mark.parametrize("index", [0, 1])
def test_a_text_read_at_once_or_in_blocks_gives_the_models_states(engines: tuple[Engine, ...], index: int) -> None:
    model, network = engines[index].model, engines[index].network
    ids = ids_of(model, 40, index)
    wanted = by_model(model, ids)
    memory = network.memory(2, 40)
    with torch.inference_mode():
        whole = network.forward(network.embed(ids), [Span(0, 0, 40)], memory.main).hidden
        parts = [(0, 9), (9, 10), (10, 27), (27, 40)]
        blocks = [network.forward(network.embed(ids[a:b]), [Span(1, a, b - a)], memory.main).hidden for a, b in parts]
    assert torch.allclose(whole, wanted, atol=CLOSE)
    assert torch.allclose(torch.cat(blocks), wanted, atol=CLOSE)
    assert torch.allclose(network.logits(whole), model.logits(wanted), atol=10 * CLOSE)


def test_rows_of_texts_of_different_lengths_do_not_see_each_other(engines: tuple[Engine, ...]) -> None:
    model, network = engines[2].model, engines[2].network
    texts = [ids_of(model, length, length) for length in LENGTHS]
    fresh = (1, 5, 3)  # rows of each text in the common block
    memory = network.memory(3, 40)
    with torch.inference_mode():
        for slot, (ids, rows) in enumerate(zip(texts, fresh, strict=True)):
            network.forward(network.embed(ids[:-rows]), [Span(slot, 0, len(ids) - rows)], memory.main)
        spans = [Span(slot, len(ids) - rows, rows) for slot, (ids, rows) in enumerate(zip(texts, fresh, strict=True))]
        block = [token for ids, rows in zip(texts, fresh, strict=True) for token in ids[-rows:]]
        seen = network.forward(network.embed(block), spans, memory.main)
    wanted = torch.cat([by_model(model, ids)[-rows:] for ids, rows in zip(texts, fresh, strict=True)])
    assert torch.allclose(seen.hidden, wanted, atol=CLOSE)
    assert seen.routing[0].scores.shape == (sum(fresh), model.config.num_experts_per_tok + 1)


def test_an_mtp_pass_gives_the_models_state_of_the_last_row(engines: tuple[Engine, ...]) -> None:
    model, network = engines[0].model, engines[0].network
    ids = ids_of(model, 20, 5)
    hidden = by_model(model, ids)
    memory, cache = network.memory(1, 30), model.new_mtp_cache(30)
    with torch.inference_mode():
        first = network.draft(ids[1:], hidden[:-1], [Span(0, 0, 19)], memory.mtp, 1)
        second = network.draft([7], first, [Span(0, 19, 1)], memory.mtp, 2)
    wanted = model.draft(torch.tensor([ids[1:]]), hidden[None, :-1], cache)[:, -1:]
    assert torch.allclose(first, wanted[0], atol=CLOSE)
    assert torch.allclose(second, model.draft(torch.tensor([[7]]), wanted, cache)[0], atol=CLOSE)


def test_an_mtp_pass_over_several_texts_equals_one_over_each(engines: tuple[Engine, ...]) -> None:
    model, network = engines[1].model, engines[1].network
    texts = [ids_of(model, length, length) for length in LENGTHS]
    states = [by_model(model, ids) for ids in texts]
    together, alone = network.memory(3, 40), network.memory(1, 40)
    spans = [Span(slot, 0, length - 1) for slot, length in enumerate(LENGTHS)]
    with torch.inference_mode():
        block = [token for ids in texts for token in ids[1:]]
        batch = network.draft(block, torch.cat([state[:-1] for state in states]), spans, together.mtp, 1)
        each = [network.draft(ids[1:], state[:-1], [Span(0, 0, len(ids) - 1)], alone.mtp, 1) for ids, state in zip(texts, states, strict=True)]
        moved = network.draft([5, 6, 7], batch, [Span(slot, length - 1, 1) for slot, length in enumerate(LENGTHS)], together.mtp, 1)
    assert torch.allclose(batch, torch.cat(each), atol=CLOSE)
    assert moved.shape == batch.shape


def test_yarn_reaches_the_angles_and_the_softmax(engines: tuple[Engine, ...]) -> None:
    yarn = Yarn.of({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "mscale": 1.0, "mscale_all_dim": 0.8})
    model = Model(replace(engines[0].config, rope_scaling=yarn)).eval().requires_grad_(False)
    model.load_state_dict(engines[0].model.state_dict())
    network = Network(model)
    ids = ids_of(model, 30, 9)
    with torch.inference_mode():
        seen = network.forward(network.embed(ids), [Span(0, 0, 30)], network.memory(1, 30).main).hidden
    assert torch.allclose(seen, by_model(model, ids), atol=CLOSE)
    assert not torch.allclose(seen, by_model(engines[0].model, ids), atol=CLOSE)
