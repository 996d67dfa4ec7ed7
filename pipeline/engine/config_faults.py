"""What keeps a `config.json` from being run, one sentence per fault."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from pipeline.engine.config import FIXED, PROJECTOR_KEY, PROJECTORS, ModelConfig

ENGINE_ONLY = frozenset({"n_group", "topk_group"})  # servers run other values
UNREAD = frozenset({"torch_dtype", "rope_interleave", "num_nextn_predict_layers"})  # absent or different without harm, or looked at with the rope
STATED = ("architectures", "model_type", "num_nextn_predict_layers", "moe_layer_freq")  # readers need these spelled out
SCALING = "rope_scaling"  # servers need it spelled out; absent, the embedded engine takes plain RoPE
EXPORT = "export the checkpoint again"


def faults(raw: Mapping[str, Any], *, served: bool = False) -> Iterator[str]:
    """Every reason not to run this config; `served`: as SGLang and vLLM would, without the limits that only the embedded engine has."""
    if missing := list(_missing(raw, served)):
        yield f"config.json lacks {', '.join(missing)}; {EXPORT}"
    for key, value in FIXED.items():
        if key not in UNREAD and not (served and key in ENGINE_ONLY) and raw.get(key, value) != value:
            yield f"config.json has {key} = {raw[key]!r}; this engine runs only {value!r}: choose another model"
    if (projector := raw.get(PROJECTOR_KEY, PROJECTORS[0])) not in PROJECTORS:
        yield f"config.json has {PROJECTOR_KEY} = {projector!r}; this engine knows {' and '.join(PROJECTORS)}: choose another model"
    yield from _senseless(raw)
    yield from _depth_faults(raw.get("num_nextn_predict_layers", 1), served)
    yield from rope_faults(raw)


def _missing(raw: Mapping[str, Any], served: bool) -> Iterator[str]:
    needed = [field.name for field in fields(ModelConfig) if field.name not in (PROJECTOR_KEY, SCALING, *STATED)]
    scaling = [SCALING] if served or "rope_parameters" in raw else []
    for key in (*needed, *STATED, *scaling):
        if key not in raw or (raw[key] is None and key not in needed):
            moved = key in ("rope_theta", SCALING) and "rope_parameters" in raw
            yield f"{key} (it has rope_parameters instead, the form of transformers 5)" if moved else key


def _senseless(raw: Mapping[str, Any]) -> Iterator[str]:
    """Sizes that are no whole numbers, or more experts chosen than there are."""
    kinds = get_type_hints(ModelConfig)
    for field in fields(ModelConfig):
        value = raw.get(field.name, 1 if field.default is MISSING else field.default)
        if kinds[field.name] is int and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            yield f"config.json has {field.name} = {value!r}, which is no whole number from 0 on; {EXPORT}"
        if field.name in ("rms_norm_eps", "routed_scaling_factor") and (not _number(value) or value <= 0):
            yield f"config.json has {field.name} = {value!r}, which is no number above 0; {EXPORT}"
    experts, chosen = raw.get("n_routed_experts"), raw.get("num_experts_per_tok")
    if isinstance(experts, int) and isinstance(chosen, int) and not 0 < chosen <= experts:
        yield f"config.json chooses {chosen} of {experts} experts (num_experts_per_tok, n_routed_experts); {EXPORT}"


def _depth_faults(depths: object, served: bool) -> Iterator[str]:
    if served and depths != 1:
        yield f"config.json has num_nextn_predict_layers = {depths!r}; SGLang runs exactly 1: choose another model"
    elif not isinstance(depths, int) or depths < 1:
        yield f"config.json has num_nextn_predict_layers = {depths!r}; drafting takes an MTP layer: use a checkpoint with its MTP weights"


def rope_faults(raw: Mapping[str, Any]) -> Iterator[str]:
    """Reasons why positions would be told wrongly."""
    theta, width = raw.get("rope_theta", 1e4), raw.get("qk_rope_head_dim", 2)
    if not _number(theta) or theta <= 1:
        yield f"config.json has rope_theta = {theta!r}; it must be a number above 1, 10000 in DeepSeek-V3: {EXPORT}"
    if isinstance(width, int) and (width < 2 or width % 2):
        yield f"config.json has qk_rope_head_dim = {width}; rotation takes pairs, so it must be even: {EXPORT}"
    if raw.get("rope_interleave", True) is not True:
        yield f"config.json has rope_interleave = {raw['rope_interleave']!r}; DeepSeek-V3 rotates neighbouring pairs (true): choose another model"
    if (scaling := raw.get("rope_scaling")) is not None:
        yield from _scaling_faults(scaling)


def _scaling_faults(scaling: Any) -> Iterator[str]:
    kind = scaling.get("type", scaling.get("rope_type")) if isinstance(scaling, Mapping) else None
    if kind != "yarn":
        yield f"config.json has rope_scaling = {scaling!r}; DeepSeek-V3 has a block of type yarn, whose factor 1 is plain RoPE: {EXPORT}"
        return
    factor = scaling.get("factor")
    if not _number(factor) or factor < 1:
        yield f"config.json has rope_scaling factor = {factor!r}; it must be a number from 1 on: {EXPORT}"
    length = scaling.get("original_max_position_embeddings")
    if not isinstance(length, int) or length < 1:
        yield f"config.json has a rope_scaling without original_max_position_embeddings, which yarn counts from; {EXPORT}"
    for key in ("beta_fast", "beta_slow", "mscale", "mscale_all_dim"):
        if not _number(value := scaling.get(key, 1)) or value < 0 or (value == 0 and key.startswith("beta")):
            yield f"config.json has rope_scaling {key} = {value!r}; it must be a positive number: {EXPORT}"
    for key in ("attention_factor", "truncate"):
        if key in scaling:
            yield f"config.json has rope_scaling {key} = {scaling[key]!r}, which DeepSeek-V3's yarn does not have: choose another model"


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
