"""Seeded models of several shapes, each of which exercises another branch of the architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from pipeline.engine.model import Model
from pipeline.engine.rope import Yarn
from pipeline.engine.seeded import WORDS, seeded_model, tiny_config
from pipeline.engine.tokenizer import TextTokenizer, build
from tests.unit.engine.conftest import FEATURE_DIM

TOKENIZER = TextTokenizer(build(WORDS))
SHAPES: Mapping[str, Mapping[str, Any]] = {
    "tiny": {},
    "no dense layer": {"first_k_dense_replace": 0},
    "only dense layers": {"first_k_dense_replace": 2},
    "deep": {"num_hidden_layers": 5, "first_k_dense_replace": 2},
    "routing scaled up": {"routed_scaling_factor": 2.5, "num_experts_per_tok": 3},
    "routing scaled down": {"routed_scaling_factor": 0.4, "num_experts_per_tok": 1},
    "two shared experts": {"n_shared_experts": 2, "n_routed_experts": 6},
    "other widths": {"num_attention_heads": 3, "qk_nope_head_dim": 12, "qk_rope_head_dim": 10, "v_head_dim": 20, "kv_lora_rank": 28},
    "other theta": {"rope_theta": 500.0, "rms_norm_eps": 1e-5},
    "yarn": {"rope_scaling": Yarn(40.0, 64, mscale=1.0, mscale_all_dim=1.0), "qk_rope_head_dim": 16},
    "yarn of two scales": {"rope_scaling": Yarn(4.0, 16, beta_fast=8, mscale=0.7, mscale_all_dim=0.3), "rope_theta": 100.0, "qk_rope_head_dim": 16},
    "two MTP layers": {"num_nextn_predict_layers": 2},
}


def model_of(shape: str, seed: int = 0) -> Model:
    """A seeded model of one of the shapes, with a router bias that changes its choices."""
    model = seeded_model(replace(tiny_config(TOKENIZER, FEATURE_DIM), **SHAPES[shape]), TOKENIZER, seed)
    source = torch.Generator().manual_seed(seed)
    for name, tensor in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            tensor.copy_(torch.randn(tensor.shape, generator=source) * 0.3)
    return model
