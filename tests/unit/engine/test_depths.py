"""A checkpoint with several MTP depths is written and read under its own names, and names the depth that is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.drafting.prompt import render
from pipeline.engine.checkpoint import load, save
from pipeline.engine.generate import Engine
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.errors import ModelMissing
from tests.unit.engine.conftest import FEATURE_DIM, features


@pytest.fixture
def two(tmp_path: Path) -> Path:
    write_seeded_checkpoint(tmp_path / "two", feature_dim=FEATURE_DIM, depths=2)
    return tmp_path / "two"


def test_each_depth_has_a_layer_of_its_own_with_the_shared_embedding_and_head(two: Path) -> None:
    tensors = load_file(two / "model.safetensors")
    for layer in (2, 3):
        names = {name.removeprefix(f"model.layers.{layer}.") for name in tensors if name.startswith(f"model.layers.{layer}.")}
        assert {"enorm.weight", "hnorm.weight", "eh_proj.weight", "shared_head.norm.weight"} <= names
        assert torch.equal(tensors[f"model.layers.{layer}.embed_tokens.weight"], tensors["model.embed_tokens.weight"])
        assert torch.equal(tensors[f"model.layers.{layer}.shared_head.head.weight"], tensors["lm_head.weight"])
    assert not any(name.startswith("model.layers.4.") for name in tensors)


def test_saving_what_was_loaded_changes_no_byte(two: Path, tmp_path: Path) -> None:
    found = load(two)
    assert found.model.config.num_nextn_predict_layers == 2
    assert save(tmp_path / "again", found.model, found.tokenizer, found.card, "") == found.digest


def test_a_missing_second_depth_is_named(two: Path) -> None:
    tensors = load_file(two / "model.safetensors")
    del tensors["model.layers.3.eh_proj.weight"]
    save_file(tensors, two / "model.safetensors")
    with pytest.raises(ModelMissing, match="no complete MTP layer"):
        load(two)


def test_each_depth_drafts_with_its_own_weights_and_cache(two: Path) -> None:
    model = load(two).model
    ids = torch.randint(4, model.config.vocab_size, (1, 9), generator=torch.Generator().manual_seed(1))
    hidden = model(ids[:, :-2])  # (1, 7, hidden)
    first = model.draft(ids[:, 1:-1], hidden)
    second = model.draft(ids[:, 2:], first, depth=1)
    assert not torch.allclose(second, model.draft(ids[:, 2:], first), atol=1e-3)
    cache = model.new_mtp_cache(9)
    parts = [model.draft(ids[:, 2 + place : 3 + place], first[:, place : place + 1], cache, depth=1) for place in range(7)]
    assert torch.allclose(torch.cat(parts, dim=1), second, atol=1e-4)
    assert [layer.length for layer in cache.layers] == [0, 7]


def test_drafting_with_two_depths_writes_the_same_text(two: Path) -> None:
    engine = Engine.load(two)
    texts = {engine.generate(render("", 4), features(1), schema=None, k=k, max_tokens=40).ids for k in (0, 1, 2, 5)}
    assert len(texts) == 1
