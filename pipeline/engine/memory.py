"""The GPU memory that serving a checkpoint takes, told from its headers and its config; nothing is loaded.

Weights are split over the GPUs (tensor parallelism). MLA keeps one latent row per token and layer for all heads, which cannot be split by
heads: every GPU holds the whole cache (arXiv 2412.19437, section 2.1.1).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pipeline.engine.headers import Stored
from pipeline.engine.names import layer_of

WeightType = Literal["stored", "fp32", "bf16", "fp16", "fp8"]
CacheType = Literal["fp32", "bf16", "fp16", "fp8"]
WIDTH: Mapping[str, int] = {"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}  # bytes of a number
USABLE = 0.88  # of a GPU's memory; servers leave the rest to activations, graphs and the driver (SGLang's --mem-fraction-static is about this)
UNREAD = ("embed_tokens.weight", "shared_head.head.weight")  # copies in the MTP layer: servers share the main model's


@dataclass(frozen=True, slots=True)
class Setup:
    """What the model is to run on, and how much text at a time."""

    gpus: int = 1
    gpu_memory_bytes: int | None = None  # of one GPU; None: not asked
    context: int = 8192  # tokens of one text, prompt and answer
    batch: int = 8  # texts at the same time
    weights: WeightType = "stored"
    cache: CacheType = "bf16"


@dataclass(frozen=True, slots=True)
class Need:
    """What it takes; `fits` and what follows are None where the GPU's memory or the config's sizes are not known."""

    weights_bytes: int  # of the main model, all GPUs together
    mtp_bytes: int
    cache_bytes_per_token: int | None  # MTP layer included
    cache_bytes: int | None
    per_gpu_bytes: int | None
    usable_bytes: int | None  # of one GPU
    fits: bool | None
    gpus_needed: int | None  # of this size, for this context and batch; None too where the cache alone is too large
    batch_that_fits: int | None  # texts of this context beside the weights


def need(tensors: Mapping[str, Stored], raw: Mapping[str, Any], setup: Setup) -> Need:
    """The memory of a checkpoint with these headers and this config.json on a set-up."""
    layers = raw.get("num_hidden_layers")
    mtp = {name for name in tensors if isinstance(layers, int) and layer_of(name) >= layers}
    main_bytes = sum(_size(tensors[name], setup.weights) for name in tensors if name not in mtp)
    mtp_bytes = sum(_size(tensors[name], setup.weights) for name in mtp if not name.endswith(UNREAD))
    per_token = _cache_bytes_per_token(raw, setup.cache)
    cache_bytes = None if per_token is None else per_token * setup.context * setup.batch
    per_gpu = None if cache_bytes is None else math.ceil((main_bytes + mtp_bytes) / setup.gpus) + cache_bytes
    usable = None if setup.gpu_memory_bytes is None else int(setup.gpu_memory_bytes * USABLE)
    if per_gpu is None or usable is None or cache_bytes is None or per_token is None:
        return Need(main_bytes, mtp_bytes, per_token, cache_bytes, per_gpu, usable, None, None, None)
    room = usable - math.ceil((main_bytes + mtp_bytes) / setup.gpus)
    needed = max(1, math.ceil((main_bytes + mtp_bytes) / (usable - cache_bytes))) if cache_bytes < usable else None
    texts = max(0, room // (per_token * setup.context))
    return Need(main_bytes, mtp_bytes, per_token, cache_bytes, per_gpu, usable, per_gpu <= usable, needed, texts)


def misfits(raw: Mapping[str, Any], setup: Setup) -> Iterator[str]:
    """Why a set-up cannot run this model whatever its memory."""
    heads, longest = raw.get("num_attention_heads"), raw.get("max_position_embeddings")
    if isinstance(heads, int) and heads % setup.gpus:
        yield f"{heads} attention heads cannot be shared among {setup.gpus} GPUs; choose a number of GPUs that divides {heads}"
    if isinstance(longest, int) and setup.context > longest:
        yield f"a context of {setup.context} tokens is longer than max_position_embeddings = {longest} in config.json; choose a shorter one"


def _size(stored: Stored, kind: WeightType) -> int:
    """Bytes of a tensor once it is loaded; float8 stays as it is, because servers run it with its scales."""
    if kind == "stored" or stored.dtype.startswith("F8"):
        return stored.size_bytes
    return stored.elements * WIDTH[kind]


def _cache_bytes_per_token(raw: Mapping[str, Any], kind: CacheType) -> int | None:
    sizes = [raw.get(key) for key in ("kv_lora_rank", "qk_rope_head_dim", "num_hidden_layers")]
    depths = raw.get("num_nextn_predict_layers", 0)
    if not all(isinstance(size, int) and size > 0 for size in (*sizes, 1)) or not isinstance(depths, int):
        return None
    latent, rope, layers = (int(size) for size in sizes if size is not None)
    return (latent + rope) * (layers + depths) * WIDTH[kind]
