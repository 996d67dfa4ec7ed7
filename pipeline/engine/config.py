"""Shape of one DeepSeek-V3 model, read from and written to the official `config.json`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal, Self

from pipeline.engine.rope import Yarn, plain

ARCHITECTURE = "DeepseekV3ForCausalLM"
Projector = Literal["linear", "mlp"]
PROJECTORS: tuple[Projector, ...] = ("linear", "mlp")
PROJECTOR_KEY = "ct_projector_type"  # absent from config.json: linear

# keys that other engines read and that have one legal value here
FIXED: Mapping[str, object] = {
    "architectures": [ARCHITECTURE],
    "model_type": "deepseek_v3",
    "torch_dtype": "bfloat16",
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "num_nextn_predict_layers": 1,  # a field below: here is its place in the file
    "moe_layer_freq": 1,
    "n_group": 1,
    "topk_group": 1,
    "topk_method": "noaux_tc",
    "scoring_func": "sigmoid",
    "norm_topk_prob": True,
    "rope_interleave": True,
}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Official keys under their official names, and three of ours (`ct_*`)."""

    vocab_size: int
    ct_feature_dim: int  # D of the encoder's (N, D) features
    ct_placeholder_id: int  # the token that a projected feature row replaces
    eos_token_id: int
    bos_token_id: int
    pad_token_id: int
    hidden_size: int = 256
    intermediate_size: int = 512
    moe_intermediate_size: int = 48
    num_hidden_layers: int = 8
    num_attention_heads: int = 4
    q_lora_rank: int = 96
    kv_lora_rank: int = 64
    qk_nope_head_dim: int = 32
    qk_rope_head_dim: int = 16
    v_head_dim: int = 32
    n_routed_experts: int = 8
    n_shared_experts: int = 1
    num_experts_per_tok: int = 2
    first_k_dense_replace: int = 1
    routed_scaling_factor: float = 1.0
    max_position_embeddings: int = 2048
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    ct_projector_type: Projector = "linear"  # how a feature row becomes an embedding
    num_nextn_predict_layers: int = 1  # MTP depths; SGLang runs exactly one
    rope_scaling: Yarn | None = None  # None: plain RoPE

    @property
    def latent_dim(self) -> int:
        """Width of one cached position: compressed key/value and the shared rotary key."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    @property
    def head_dim(self) -> int:
        """Width of one query head."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def yarn(self) -> Yarn:
        """The yarn block that servers ask for; at factor 1 it is plain RoPE."""
        return self.rope_scaling or plain(self.max_position_embeddings)

    @property
    def softmax_scale(self) -> float:
        """What attention scores are multiplied by."""
        return self.yarn.temperature / math.sqrt(self.head_dim)

    def to_json(self) -> str:
        """The text of `config.json`: official keys, fixed keys, and a yarn block always."""
        heads = {"num_key_value_heads": self.num_attention_heads}
        own = asdict(replace(self, rope_scaling=None))
        del own["rope_scaling"]  # it comes last
        if self.ct_projector_type == "linear":
            del own[PROJECTOR_KEY]  # the file is then the same as before there was a choice
        return json.dumps({**FIXED, **own, **heads, "rope_scaling": self.yarn.to_dict()}, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """The shape that a `config.json` without faults (`config_faults.py`) describes."""
        known = {field.name: raw[field.name] for field in fields(cls) if field.name in raw}
        scaling = raw.get("rope_scaling")
        return cls(**(known | {"rope_scaling": Yarn.of(scaling) if scaling else None}))
