"""Between our fused expert matrices and DeepSeek's published tensor names."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from pipeline.engine.config import ModelConfig

PARTS = ("gate_proj", "up_proj")
PROJECTOR = "ct_projector."  # ours, beside the published names
FIRST = {"linear": f"{PROJECTOR}weight", "mlp": f"{PROJECTOR}linear_1.weight"}  # (hidden, D) of each type


def layer_of(name: str) -> int:
    """Index of the layer that a published name belongs to; −1 outside the layers."""
    parts = name.split(".")
    return int(parts[2]) if name.startswith("model.layers.") and parts[2].isdigit() else -1


def to_official(state: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Official tensors of a model's state; each MTP layer carries copies of the shared embedding and head, as published."""
    out: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name.endswith("mlp.gate_up"):
            out.update(_split_gate_up(name.removesuffix("gate_up"), tensor, config))
        elif name.endswith("mlp.down"):
            out.update(_split_down(name.removesuffix("down"), tensor, config))
        else:
            out[name] = tensor
    for depth in range(config.num_nextn_predict_layers):
        mtp = f"model.layers.{config.num_hidden_layers + depth}"
        out[f"{mtp}.embed_tokens.weight"] = state["model.embed_tokens.weight"]
        out[f"{mtp}.shared_head.head.weight"] = state["lm_head.weight"]
    return out


def from_official(tensors: Mapping[str, Tensor], config: ModelConfig, wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """State of our model from official tensors; a name that the file lacks is left out."""
    out: dict[str, Tensor] = {}
    for name in wanted:
        stem = name.rpartition(".")[0] + "."
        if name.endswith("mlp.gate_up"):
            rows = [tensors.get(f"{stem}{expert}.{part}.weight") for part in PARTS for expert in _experts(config)]
            found = [row for row in rows if row is not None]
            if len(found) == len(rows):
                out[name] = torch.cat(found)
        elif name.endswith("mlp.down"):
            columns = [tensors.get(f"{stem}{expert}.down_proj.weight") for expert in _experts(config)]
            kept = [column for column in columns if column is not None]
            if len(kept) == len(columns):
                out[name] = torch.cat(kept, dim=1)
        elif name in tensors:
            out[name] = tensors[name]
    return out


def _experts(config: ModelConfig) -> list[str]:
    """Names of the expert blocks in slot order; the shared block comes last."""
    return [*(f"experts.{index}" for index in range(config.n_routed_experts)), "shared_experts"]


def _widths(config: ModelConfig) -> list[int]:
    width = config.moe_intermediate_size
    return [width] * config.n_routed_experts + [width * config.n_shared_experts]


def _split_gate_up(stem: str, tensor: Tensor, config: ModelConfig) -> dict[str, Tensor]:
    out = {}
    for part, half in zip(PARTS, tensor.chunk(2), strict=True):  # half (slots · width, hidden)
        for expert, rows in zip(_experts(config), torch.split(half, _widths(config)), strict=True):
            out[f"{stem}{expert}.{part}.weight"] = rows
    return out


def _split_down(stem: str, tensor: Tensor, config: ModelConfig) -> dict[str, Tensor]:
    columns = torch.split(tensor, _widths(config), dim=1)  # each (hidden, width)
    return {f"{stem}{expert}.down_proj.weight": part for expert, part in zip(_experts(config), columns, strict=True)}
