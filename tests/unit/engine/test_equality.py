"""In float32 the logits are those of transformers' DeepseekV3ForCausalLM on the same weights, in every shape, with and without caches."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from pipeline.engine.checkpoint import load
from pipeline.engine.model import Model
from pipeline.engine.names import to_official
from tests.unit.engine.shapes import SHAPES, model_of

transformers = pytest.importorskip("transformers")
ATOL = 1e-4


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """transformers reports the layer that it does not load; no gradients anywhere."""
    logging.getLogger("transformers").setLevel(logging.ERROR)
    with torch.no_grad():
        yield


def theirs(model: Model) -> Any:
    """transformers' model with the same weights, through the published names."""
    raw = json.loads(model.config.to_json())
    other = transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(**{key: raw[key] for key in raw if key != "torch_dtype"})).eval()
    tensors = to_official(dict(model.state_dict()), model.config)
    state = other.state_dict()
    for name in state:
        state[name] = _packed(name, tensors) if ".experts." in name and "shared" not in name else tensors[name]
    other.load_state_dict(state)
    return other


def _packed(name: str, tensors: dict[str, torch.Tensor]) -> torch.Tensor:
    """transformers 5 keeps all experts of a layer in one tensor (experts, out, in)."""
    stem = name.rpartition("experts.")[0] + "experts."
    parts = ("gate_proj", "up_proj") if name.endswith("gate_up_proj") else ("down_proj",)
    count = len({found[1] for key in tensors if (found := re.match(re.escape(stem) + r"(\d+)\.", key))})
    return torch.stack([torch.cat([tensors[f"{stem}{expert}.{part}.weight"] for part in parts]) for expert in range(count)])


def some_ids(model: Model, rows: int, length: int) -> torch.Tensor:
    return torch.randint(4, model.config.vocab_size, (rows, length), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("shape", SHAPES)
def test_logits_are_equal_in_every_shape(shape: str) -> None:
    model = model_of(shape)
    ids = some_ids(model, 2, 41)
    assert torch.allclose(model.logits(model(ids)), theirs(model)(ids).logits, atol=ATOL)


@pytest.mark.parametrize("shape", ["tiny", "routing scaled up"])
def test_logits_are_equal_through_both_caches_a_prompt_and_then_token_by_token(shape: str) -> None:
    model = model_of(shape)
    other, ids = theirs(model), some_ids(model, 1, 30)
    ours, memory = model.new_cache(30), transformers.DynamicCache()
    name = "cache" if "cache" in inspect.signature(other.forward).parameters else "past_key_values"  # renamed in transformers 5.24
    for part in (ids[:, :17], *torch.split(ids[:, 17:], 1, dim=1)):
        mine = model.logits(model(part, None, ours))
        assert torch.allclose(mine, other(part, use_cache=True, **{name: memory}).logits, atol=ATOL)


def test_logits_are_equal_over_projected_features(checkpoint: Path) -> None:
    model = load(checkpoint).model
    ids = some_ids(model, 1, 20)
    ids[0, 2:6] = model.config.ct_placeholder_id
    rows = torch.randn(1, 4, model.config.ct_feature_dim, generator=torch.Generator().manual_seed(1))
    embeds = model.embed(ids, rows)
    assert torch.allclose(model.logits(model(ids, rows)), theirs(model)(inputs_embeds=embeds).logits, atol=ATOL)


def test_an_exported_folder_loads_without_a_missing_key_and_nothing_but_mtp_and_projector_left_over(checkpoint: Path) -> None:
    other, report = transformers.AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32, output_loading_info=True)
    model = load(checkpoint).model
    ids = some_ids(model, 2, 37)
    assert torch.allclose(model.logits(model(ids)), other(ids).logits, atol=ATOL)
    assert not report["missing_keys"]
    assert not report["mismatched_keys"]
    ours = (f"model.layers.{model.config.num_hidden_layers}.", "ct_projector.")
    assert report["unexpected_keys"]
    assert [name for name in report["unexpected_keys"] if not name.startswith(ours)] == []


def test_mtp_states_are_those_of_transformers_own_mtp_layer() -> None:
    layers = pytest.importorskip("transformers.modeling_layers")
    if not hasattr(layers, "MtpModel"):
        pytest.skip("this transformers has no MTP")
    model = model_of("no dense layer")  # transformers builds its MTP layer as layer 0, which must be one of experts as ours is
    other = layers.MtpModel(theirs(model), 1).eval()
    prefix = f"model.layers.{model.config.num_hidden_layers}."
    tensors = to_official(dict(model.state_dict()), model.config)
    state = other.state_dict()
    for name in state:
        source = prefix + name.removeprefix("layers.0.").replace("mtp_block.", "").replace("post_norm", "shared_head.norm")
        if name.startswith("layers.0."):
            state[name] = _packed(source, tensors) if ".experts." in name and "shared" not in name else tensors[source]
    other.load_state_dict(state)
    ids = some_ids(model, 1, 25)
    hidden = model(ids[:, :-1])
    positions = torch.arange(1, 25).unsqueeze(0)  # theirs count from the token, ours from the state: only distances matter
    assert torch.allclose(model.draft(ids[:, 1:], hidden), other.forward_layer(0, hidden, positions, None, input_ids=ids[:, 1:]), atol=ATOL)
