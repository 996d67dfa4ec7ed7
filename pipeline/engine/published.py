"""Name and shape of every tensor in a published DeepSeek-V3 checkpoint, written down: nothing is built to know them."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.engine.config import ModelConfig
from pipeline.engine.names import PROJECTOR

Shape = tuple[int, ...]


def shapes(config: ModelConfig) -> dict[str, Shape]:
    """What a checkpoint of this config must hold, the projector aside; MTP layers without their copies of embedding and head, which nobody reads."""
    hidden, layers = config.hidden_size, config.num_hidden_layers
    found: dict[str, Shape] = {"model.embed_tokens.weight": (config.vocab_size, hidden), "model.norm.weight": (hidden,)}
    for layer in range(layers + config.num_nextn_predict_layers):
        start = f"model.layers.{layer}."
        found |= {start + name: shape for name, shape in _layer(config, dense=layer < config.first_k_dense_replace)}
        if layer >= layers:
            found |= {f"{start}{name}.weight": (hidden,) for name in ("enorm", "hnorm", "shared_head.norm")}
            found[f"{start}eh_proj.weight"] = (hidden, 2 * hidden)
    return found | {"lm_head.weight": (config.vocab_size, hidden)}


def projector_shapes(config: ModelConfig) -> dict[str, Shape]:
    """What the projector of CT features must hold."""
    hidden, columns = config.hidden_size, config.ct_feature_dim
    if config.ct_projector_type == "linear":
        return {f"{PROJECTOR}weight": (hidden, columns)}
    first = {f"{PROJECTOR}linear_1.weight": (hidden, columns), f"{PROJECTOR}linear_1.bias": (hidden,)}
    return first | {f"{PROJECTOR}linear_2.weight": (hidden, hidden), f"{PROJECTOR}linear_2.bias": (hidden,)}


def _layer(c: ModelConfig, *, dense: bool) -> Iterator[tuple[str, Shape]]:
    for norm in ("input_layernorm", "post_attention_layernorm"):
        yield f"{norm}.weight", (c.hidden_size,)
    yield from _attention(c)
    if dense:
        yield from _block(c, "mlp.", c.intermediate_size)
        return
    yield "mlp.gate.weight", (c.n_routed_experts, c.hidden_size)
    yield "mlp.gate.e_score_correction_bias", (c.n_routed_experts,)
    for expert in range(c.n_routed_experts):
        yield from _block(c, f"mlp.experts.{expert}.", c.moe_intermediate_size)
    yield from _block(c, "mlp.shared_experts.", c.moe_intermediate_size * c.n_shared_experts)


def _attention(c: ModelConfig) -> Iterator[tuple[str, Shape]]:
    heads = c.num_attention_heads
    yield "self_attn.q_a_proj.weight", (c.q_lora_rank, c.hidden_size)
    yield "self_attn.q_a_layernorm.weight", (c.q_lora_rank,)
    yield "self_attn.q_b_proj.weight", (heads * c.head_dim, c.q_lora_rank)
    yield "self_attn.kv_a_proj_with_mqa.weight", (c.latent_dim, c.hidden_size)
    yield "self_attn.kv_a_layernorm.weight", (c.kv_lora_rank,)
    yield "self_attn.kv_b_proj.weight", (heads * (c.qk_nope_head_dim + c.v_head_dim), c.kv_lora_rank)
    yield "self_attn.o_proj.weight", (c.hidden_size, heads * c.v_head_dim)


def _block(c: ModelConfig, start: str, width: int) -> Iterator[tuple[str, Shape]]:
    yield f"{start}gate_proj.weight", (width, c.hidden_size)
    yield f"{start}up_proj.weight", (width, c.hidden_size)
    yield f"{start}down_proj.weight", (c.hidden_size, width)
