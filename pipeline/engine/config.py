"""Shape of one DeepSeek-V3 model, read from and written to the official `config.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, Self

from pipeline.errors import ModelMissing

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
    "num_nextn_predict_layers": 1,
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

    @property
    def latent_dim(self) -> int:
        """Width of one cached position: compressed key/value and the shared rotary key."""
        return self.kv_lora_rank + self.qk_rope_head_dim

    @property
    def head_dim(self) -> int:
        """Width of one query head."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def yarn(self) -> dict[str, object]:
        """The yarn block that servers ask for; at factor 1 it is plain RoPE."""
        return {
            "type": "yarn",
            "rope_type": "yarn",
            "factor": 1.0,
            "original_max_position_embeddings": self.max_position_embeddings,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        }

    def to_json(self) -> str:
        """The text of `config.json`: official keys, fixed keys, yarn with factor 1."""
        heads = {"num_key_value_heads": self.num_attention_heads}
        own = asdict(self)
        if self.ct_projector_type == "linear":
            del own[PROJECTOR_KEY]  # the file is then the same as before there was a choice
        return json.dumps({**FIXED, **own, **heads, "rope_scaling": self.yarn}, ensure_ascii=False, indent=2) + "\n"

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read `config.json`; ModelMissing names the key that is absent or has a value that this engine cannot run."""
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise ModelMissing(f"no config.json in the model folder '{path.parent.name}'; point to a checkpoint folder") from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ModelMissing(f"config.json is not valid JSON ({error}); export the checkpoint again") from None
        _refuse_others(raw)
        known = {f.name: raw[f.name] for f in fields(cls) if f.name in raw}
        missing = [f.name for f in fields(cls) if f.name not in raw and f.name != PROJECTOR_KEY]
        if missing:
            raise ModelMissing(f"config.json lacks {', '.join(missing)}; export the checkpoint again")
        return cls(**known)


def _refuse_others(raw: Mapping[str, Any]) -> None:
    for key, value in FIXED.items():
        if key != "torch_dtype" and raw.get(key, value) != value:
            raise ModelMissing(f"config.json has {key} = {raw[key]!r}; this engine runs only {value!r}: choose another model")
    if (projector := raw.get(PROJECTOR_KEY, PROJECTORS[0])) not in PROJECTORS:
        raise ModelMissing(f"config.json has {PROJECTOR_KEY} = {projector!r}; this engine knows {' and '.join(PROJECTORS)}: choose another model")
    factor = (raw.get("rope_scaling") or {}).get("factor", 1.0)
    if factor != 1.0:
        raise ModelMissing(f"config.json asks for rope_scaling factor {factor}; this engine runs only factor 1: choose another model")
