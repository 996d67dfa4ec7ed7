"""The same model in the head sizes of the published DeepSeek-V3, which are all that vLLM's MLA kernels take: 512 + 64 cached columns.

Nothing is learnt or lost. New rows and columns are zero; three factors make up for what depends on a width: the norm over the compressed
key/value divides by its width, attention by the root of a head's, and rotary pair i of d turns by theta^(−2i/d), so that a pair moves to
the place that turns as fast.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from pipeline.engine.config import ModelConfig

KV, NOPE, ROPE, VALUE = 512, 128, 64, 128
SIZES = {"kv_lora_rank": KV, "qk_nope_head_dim": NOPE, "qk_rope_head_dim": ROPE, "v_head_dim": VALUE}


def widen(folder: Path, target: Path) -> Path:
    """Write `folder` again, in float32 and in the published head sizes."""
    raw = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config = ModelConfig.of(raw)
    shutil.copytree(folder, target)
    tensors = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file({name: widened(name, tensor, config).contiguous() for name, tensor in tensors.items()}, target / "model.safetensors")
    (target / "config.json").write_text(json.dumps(raw | SIZES), encoding="utf-8")
    return target


def widened(name: str, tensor: Tensor, config: ModelConfig) -> Tensor:
    """One tensor of the wider model."""
    change = CHANGES.get(name.removesuffix(".weight").rpartition(".")[2])
    return tensor if change is None else change(tensor, config)


def _query(weight: Tensor, c: ModelConfig) -> Tensor:
    """(H · (nope + rope), q_lora), times what attention divides more by."""
    rows = weight.view(c.num_attention_heads, c.head_dim, -1) * math.sqrt((NOPE + ROPE) / c.head_dim)
    wide = rows.new_zeros(c.num_attention_heads, NOPE + ROPE, rows.shape[2])
    wide[:, : c.qk_nope_head_dim] = rows[:, : c.qk_nope_head_dim]
    wide[:, NOPE + _pairs(c)] = rows[:, c.qk_nope_head_dim :]
    return wide.flatten(0, 1)


def _down(weight: Tensor, c: ModelConfig) -> Tensor:
    """(kv + rope, hidden), its kv rows times what their norm divides less by."""
    wide = weight.new_zeros(KV + ROPE, weight.shape[1])
    wide[: c.kv_lora_rank] = weight[: c.kv_lora_rank] * math.sqrt(KV / c.kv_lora_rank)
    wide[KV + _pairs(c)] = weight[c.kv_lora_rank :]
    return wide


def _norm(weight: Tensor, c: ModelConfig) -> Tensor:
    """(kv), divided by the same factor again."""
    wide = weight.new_zeros(KV)
    wide[: c.kv_lora_rank] = weight / math.sqrt(KV / c.kv_lora_rank)
    return wide


def _up(weight: Tensor, c: ModelConfig) -> Tensor:
    """(H · (nope + v), kv)."""
    rows = weight.view(c.num_attention_heads, -1, c.kv_lora_rank)
    wide = rows.new_zeros(c.num_attention_heads, NOPE + VALUE, KV)
    wide[:, : c.qk_nope_head_dim, : c.kv_lora_rank] = rows[:, : c.qk_nope_head_dim]
    wide[:, NOPE : NOPE + c.v_head_dim, : c.kv_lora_rank] = rows[:, c.qk_nope_head_dim :]
    return wide.flatten(0, 1)


def _out(weight: Tensor, c: ModelConfig) -> Tensor:
    """(hidden, H · v)."""
    columns = weight.view(-1, c.num_attention_heads, c.v_head_dim)
    wide = columns.new_zeros(len(weight), c.num_attention_heads, VALUE)
    wide[..., : c.v_head_dim] = columns
    return wide.flatten(1)


def _pairs(c: ModelConfig) -> Tensor:
    """Where the rows of each rotary pair go: pair i of d turns like pair i · 64/d of 64."""
    assert ROPE % c.qk_rope_head_dim == 0, "no pair of 64 turns as fast as each of these"
    step = ROPE // c.qk_rope_head_dim
    return torch.tensor([2 * step * pair + side for pair in range(c.qk_rope_head_dim // 2) for side in (0, 1)])


CHANGES: Mapping[str, Callable[[Tensor, ModelConfig], Tensor]] = {
    "q_b_proj": _query,
    "kv_a_proj_with_mqa": _down,
    "kv_a_layernorm": _norm,
    "kv_b_proj": _up,
    "o_proj": _out,
}
