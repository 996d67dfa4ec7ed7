"""The model computes what DeepSeek-V3 computes, with or without its latent cache."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from pipeline.engine.checkpoint import load
from pipeline.engine.generate import Engine
from pipeline.engine.seeded import write_seeded_checkpoint


def test_transformers_reads_the_same_ids_from_the_tokenizer_file(checkpoint: Path) -> None:
    transformers = pytest.importorskip("transformers")
    text = '胸廓对称，随便 abc 12mm {"检查所见": {"病灶": ['
    assert transformers.AutoTokenizer.from_pretrained(checkpoint)(text)["input_ids"] == load(checkpoint).tokenizer.encode(text)


def test_blocks_through_the_cache_equal_one_pass(engines: tuple[Engine, ...]) -> None:
    model = engines[0].model
    ids = torch.randint(4, model.config.vocab_size, (1, 24), generator=torch.Generator().manual_seed(1))
    whole = model(ids)
    cache = model.new_cache(24)
    parts = [model(part, None, cache) for part in torch.split(ids, [10, 1, 5, 8], dim=1)]
    assert torch.allclose(torch.cat(parts, dim=1), whole, atol=1e-4)


def test_a_rolled_back_cache_forgets_exactly_what_was_added(engines: tuple[Engine, ...]) -> None:
    model = engines[0].model
    ids = torch.randint(4, model.config.vocab_size, (1, 20), generator=torch.Generator().manual_seed(2))
    cache = model.new_cache(20)
    model(ids[:, :8], None, cache)
    model(ids[:, 12:18], None, cache)
    cache.rollback(8)
    again = model(ids[:, 8:], None, cache)
    fresh = model.new_cache(20)
    model(ids[:, :8], None, fresh)
    assert cache.length == 20
    assert torch.equal(again, model(ids[:, 8:], None, fresh))


def test_two_layers_with_a_gelu_between_them_project_a_feature_row(tmp_path: Path) -> None:
    write_seeded_checkpoint(tmp_path, feature_dim=12, projector="mlp")
    model = load(tmp_path).model
    state, rows = model.ct_projector.state_dict(), torch.randn(1, 2, 12)
    inner = rows @ state["linear_1.weight"].T + state["linear_1.bias"]
    inner = 0.5 * inner * (1 + torch.erf(inner / 2**0.5))
    projected = inner @ state["linear_2.weight"].T + state["linear_2.bias"]
    ids = torch.tensor([[5, model.config.ct_placeholder_id, 6, model.config.ct_placeholder_id]])
    assert torch.allclose(model.embed(ids, rows)[0, [1, 3]], projected[0], atol=1e-5)


def test_a_placeholder_takes_its_projected_feature_row(engines: tuple[Engine, ...]) -> None:
    model = engines[0].model
    ids = torch.tensor([[5, model.config.ct_placeholder_id, 6, model.config.ct_placeholder_id]])
    rows = torch.randn(1, 2, 12)
    embedded = model.embed(ids, rows)
    assert torch.allclose(embedded[0, [1, 3]], model.ct_projector(rows)[0])
    assert torch.equal(embedded[0, [0, 2]], model.model.embed_tokens(ids)[0, [0, 2]])
