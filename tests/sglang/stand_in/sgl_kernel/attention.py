"""Attention over SGLang's paged cache, one sequence after the other, in the dtype of the query."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

EXTEND = """extend_attention_cpu(Tensor q, Tensor? k, Tensor? v, Tensor(a!) o, Tensor key_buffer, Tensor value_buffer, float key_scale,
float value_scale, Tensor req_to_token, Tensor rows, Tensor seq_lens, Tensor extend_lens, Tensor starts, int longest, float scaling, float cap,
bool cross, int window, Tensor? encoder_lens, Tensor? sinks, Tensor? tree_mask, bool causal) -> ()"""
DECODE = """decode_attention_cpu(Tensor q, Tensor(a!) key_buffer, Tensor(b!) value_buffer, float key_scale, float value_scale, Tensor(c!) o,
Tensor? k, Tensor? v, Tensor slots, Tensor scratch, Tensor req_to_token, Tensor rows, Tensor seq_lens, float scaling, float cap, bool cross,
int window, Tensor? encoder_lens, Tensor? sinks) -> ()"""
LIBRARY: Any = torch.library.Library("sgl_kernel", "DEF")  # type: ignore[no-untyped-call]  # torch leaves it untyped


def register() -> None:
    """Make both known as torch operators, as SGLang looks them up."""
    for schema, function in ((EXTEND, extend_attention), (DECODE, decode_attention)):
        LIBRARY.define(" ".join(schema.split()))
        LIBRARY.impl(schema.partition("(")[0], function, "CPU")


def extend_attention(  # SGLang's own order of arguments
    q: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    o: Tensor,
    key_buffer: Tensor,
    value_buffer: Tensor,
    key_scale: float,
    value_scale: float,
    req_to_token: Tensor,
    rows: Tensor,
    seq_lens: Tensor,
    extend_lens: Tensor,
    starts: Tensor,
    longest: int,
    scaling: float,
    cap: float,
    cross: bool,
    window: int,
    encoder_lens: Tensor | None,
    sinks: Tensor | None,
    tree_mask: Tensor | None,
    causal: bool,
) -> None:
    """New tokens of each sequence over the cached ones before them and over themselves: q, k, v (T, H, D), buffers (slots, H', D')."""
    _only(cap == 0, not cross, window <= 0, sinks is None, tree_mask is None, causal)
    assert k is not None
    assert v is not None
    for row, length, count, start in zip(rows.tolist(), seq_lens.tolist(), extend_lens.tolist(), starts.tolist(), strict=True):
        new = slice(start, start + count)
        cached = req_to_token[row, : length - count].long()  # (L − t)
        keys, values = _behind(key_buffer[cached], k[new]), _behind(value_buffer[cached], v[new])
        seen = torch.ones(count, length, dtype=torch.bool).tril(length - count)  # (t, L)
        o[new] = _attend(q[new], keys, values, scaling, seen)


def decode_attention(  # SGLang's own order of arguments
    q: Tensor,
    key_buffer: Tensor,
    value_buffer: Tensor,
    key_scale: float,
    value_scale: float,
    o: Tensor,
    k: Tensor | None,
    v: Tensor | None,
    slots: Tensor,
    scratch: Tensor,
    req_to_token: Tensor,
    rows: Tensor,
    seq_lens: Tensor,
    scaling: float,
    cap: float,
    cross: bool,
    window: int,
    encoder_lens: Tensor | None,
    sinks: Tensor | None,
) -> None:
    """One new token of each sequence: its key and value go into the cache first. q (B, H, D)."""
    _only(cap == 0, not cross, window <= 0, sinks is None)
    if k is not None and v is not None:
        key_buffer[slots.long()] = k.view(len(k), -1, key_buffer.shape[-1])
        value_buffer[slots.long()] = v.view(len(v), -1, value_buffer.shape[-1])
    for index, (row, length) in enumerate(zip(rows.tolist(), seq_lens.tolist(), strict=True)):
        seen = req_to_token[row, :length].long()  # (L)
        o[index] = _attend(q[index : index + 1], key_buffer[seen], value_buffer[seen], scaling, None)[0]


def _behind(cached: Tensor, new: Tensor) -> Tensor:
    """Cached rows, then new ones. Without cached ones DeepSeek's new rows come in full heads instead of the cache's compressed form."""
    return torch.cat((cached, new)) if len(cached) else new


def _attend(q: Tensor, keys: Tensor, values: Tensor, scaling: float, seen: Tensor | None) -> Tensor:
    """q (t, H, D) over keys (L, H', D) and values (L, H', V), with H' shared by H / H' heads each → (t, H, V)."""
    shared = q.shape[1] // keys.shape[1]
    keys, values = (part.repeat_interleave(shared, dim=1) for part in (keys, values))
    scores = torch.einsum("thd,lhd->htl", q, keys) * scaling  # (H, t, L)
    if seen is not None:
        scores = scores.masked_fill(~seen, float("-inf"))
    return torch.einsum("htl,lhv->thv", scores.softmax(-1), values)


def _only(*allowed: bool) -> None:
    if not all(allowed):
        raise RuntimeError("the stand-in's attention is causal, without windows, caps, sinks, trees and encoders; serve a DeepSeek with top-k 1")
