"""How long and how the language model is trained, and its shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.engine.config import ModelConfig
from pipeline.engine.tokenizer import TextTokenizer

LAYERS = 10  # deep and thin: one draft costs a tenth of a step
EXPERTS, EXPERT_WIDTH = 4, 64  # all of them are computed on a CPU: few and wide ones do more for it than many and narrow ones


@dataclass(frozen=True, slots=True)
class LanguagePlan:
    """A stage ends at its steps or at its share of the time, whichever comes first. Times are processor seconds of one process."""

    steps: int = 6_000
    distil_steps: int = 600
    budget_s: float = 2_400.0
    distil_share: float = 0.12  # of the time
    batch: int = 8  # texts per process and step
    world: int = 2  # single-threaded processes
    rate: float = 2e-3
    muon_rate: float = 3e-3
    mtp_weight: float = 0.3
    mtp_depth: int = 3
    distil_depth: int = 6
    deep_from: float = 0.65  # before this share of the stage only one token is drafted
    deep_every: int = 2  # from there on, each so many-th step drafts `mtp_depth` tokens
    balance_rate: float = 1e-3
    save_every: int = 250
    held_out: int = 64
    layers: int = LAYERS
    bf16: bool = True  # matrix products in bfloat16, weights in float32
    seed: int = 0

    def depth_at(self, step: int, done: float) -> int:
        """How many tokens are drafted in one step of the main stage."""
        return self.mtp_depth if done >= self.deep_from and step % self.deep_every == 0 else 1

    def share_at(self, step: int, done: float) -> float:
        """Of the peak rates: a short warm-up, then a cosine down to a fiftieth."""
        return min(1.0, (step + 1) / 100) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def config_for(tokenizer: TextTokenizer, feature_dim: int, layers: int = LAYERS) -> ModelConfig:
    """The shape of the packaged model for a vocabulary and an encoder."""
    return ModelConfig(
        vocab_size=tokenizer.size,
        ct_feature_dim=feature_dim,
        ct_placeholder_id=tokenizer.ct_id,
        eos_token_id=tokenizer.eos_id,
        bos_token_id=tokenizer.bos_id,
        pad_token_id=tokenizer.pad_id,
        num_hidden_layers=layers,
        n_routed_experts=EXPERTS,
        moe_intermediate_size=EXPERT_WIDTH,
    )
