"""The model's weights folded for inference: fewer, larger products, the same function as `layers.py` to float32 rounding.

Norm weights are multiplied into the projections behind them, the key and value halves of kv_b_proj into the query and output projections
(the "absorbed" form of MLA, arXiv 2405.04434, section 2.1.2), the softmax scale into the query; the rotary halves are projected twice,
once swapped, so that a rotation is one product and one sum. All matrices are stored (inputs, outputs), as `torch.mm` reads them fastest.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from pipeline.engine.config import ModelConfig
from pipeline.engine.layers import Attention, DecoderLayer, Gate, Mlp, Moe, MtpLayer, RMSNorm


def normed(x: Tensor, eps: Tensor) -> Tensor:
    """Root-mean-square norm of rows (N, width) without its weight; `eps` is a scalar tensor."""
    length = torch.linalg.vector_norm(x, dim=-1, keepdim=True)  # (N, 1)
    return x * torch.addcmul(eps, length, length, value=1.0 / x.shape[-1]).rsqrt_()


def _columns(weight: Tensor, norm: RMSNorm) -> Tensor:
    """A projection (outputs, inputs) behind a norm as (inputs, outputs) behind the bare norm."""
    return (weight * norm.weight).t()


def _twice(rows: Tensor) -> Tensor:
    """Rotary rows (…, rope, inputs) in interleaved pairs → [even, odd, −odd, even] (…, 2 · rope, inputs)."""
    even, odd = rows[..., 0::2, :], rows[..., 1::2, :]
    return torch.cat([even, odd, -odd, even], dim=-2)


@dataclass(frozen=True)
class Routing:
    """What the router of one layer saw: biased scores (N, top_k + 1), best first, and their experts; the last one was not chosen."""

    scores: Tensor
    experts: Tensor


@dataclass(frozen=True)
class FoldedAttention:
    """`down` gives [query latent | key/value latent | rotary key | rotary key swapped], `query` per head [latent | rotary | swapped]."""

    down: Tensor  # (hidden, q_lora + kv + 2 · rope)
    query: Tensor  # (q_lora, H · (kv + 2 · rope))
    out: Tensor  # (H · kv, hidden)

    @classmethod
    def of(cls, attention: Attention, norm: RMSNorm) -> FoldedAttention:
        """Fold an attention and the norm before it."""
        c = attention.config
        heads, nope, rope, kv = c.num_attention_heads, c.qk_nope_head_dim, c.qk_rope_head_dim, c.kv_lora_rank
        latent, rotary = attention.kv_a_proj_with_mqa.weight[:kv], attention.kv_a_proj_with_mqa.weight[kv:]
        down = torch.cat([attention.q_a_proj.weight, latent, _twice(rotary)])  # (…, hidden)
        up = attention.kv_b_proj.weight.view(heads, -1, kv) * attention.kv_a_layernorm.weight  # (H, nope + v, kv)
        query = (attention.q_b_proj.weight * attention.q_a_layernorm.weight).view(heads, nope + rope, -1) * c.softmax_scale
        absorbed = torch.matmul(up[:, :nope].transpose(1, 2), query[:, :nope])  # (H, kv, q_lora)
        query = torch.cat([absorbed, _twice(query[:, nope:])], dim=1)  # (H, kv + 2 · rope, q_lora)
        values = attention.o_proj.weight.view(-1, heads, c.v_head_dim).permute(1, 2, 0)  # (H, v, hidden)
        out = torch.matmul(up[:, nope:].transpose(1, 2), values)  # (H, kv, hidden)
        return cls(_columns(down, norm).contiguous(), query.flatten(0, 1).t().contiguous(), out.flatten(0, 1).contiguous())


@dataclass(frozen=True)
class FoldedMlp:
    """The dense feed-forward: gate and up in one product."""

    up: Tensor  # (hidden, 2 · intermediate)
    down: Tensor  # (intermediate, hidden)

    @classmethod
    def of(cls, mlp: Mlp, norm: RMSNorm) -> FoldedMlp:
        """Fold a dense feed-forward and the norm before it."""
        up = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])  # (2 · intermediate, hidden)
        return cls(_columns(up, norm).contiguous(), mlp.down_proj.weight.t().contiguous())

    def __call__(self, x: Tensor) -> Tensor:
        """Bare-normed rows (N, hidden) → (N, hidden)."""
        gate, up = torch.mm(x, self.up).chunk(2, dim=-1)  # each (N, intermediate)
        return torch.mm(F.silu(gate).mul_(up), self.down)


@dataclass(frozen=True)
class FoldedMoe:
    """Every expert, the shared one and the router in two dense products: constant cost, and a row's result does not depend on its neighbours."""

    up: Tensor  # (hidden, 2 · slots · width + E)
    down: Tensor  # (slots · width, hidden)
    bias: Tensor  # (E,) of the router
    shared: Tensor  # (1, slots): 1 for shared experts, 0 for routed ones
    top_k: int
    scale: float

    @classmethod
    def of(cls, moe: Moe, norm: RMSNorm) -> FoldedMoe:
        """Fold a mixture of experts and the norm before it."""
        gate: Gate = moe.gate
        up = torch.cat([moe.gate_up, gate.weight])  # (2 · slots · width + E, hidden)
        shared = F.pad(torch.zeros(1, moe.slots - moe.shared), (0, moe.shared), value=1.0)
        down = moe.down.t().contiguous()
        return cls(_columns(up, norm).contiguous(), down, gate.e_score_correction_bias.clone(), shared, gate.top_k, gate.scale)

    def __call__(self, x: Tensor, pinned: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Routing]:
        """Bare-normed rows (N, hidden) → (N, hidden); `pinned` rows (n,) take the experts (n, top_k) that were decided before."""
        wide, count = self.down.shape[0], self.bias.shape[0]
        seen = torch.mm(x, self.up)  # (N, 2 · slots · width + E)
        scores = seen[:, 2 * wide :].sigmoid()  # (N, E)
        best = (scores + self.bias).topk(min(self.top_k + 1, count), dim=-1)
        chosen = best.indices[:, : self.top_k]  # (N, top_k)
        if pinned is not None:
            chosen = chosen.index_copy(0, *pinned)
        kept = scores.gather(-1, chosen)  # (N, top_k)
        kept.div_(kept.sum(dim=-1, keepdim=True).add_(1e-20))
        if self.scale != 1.0:
            kept.mul_(self.scale)
        weights = self.shared.expand(len(x), -1).clone().scatter_(-1, chosen, kept)  # (N, slots)
        inner = F.silu(seen[:, :wide]).mul_(seen[:, wide : 2 * wide])  # (N, slots · width)
        inner.view(*weights.shape, -1).mul_(weights.unsqueeze(-1))
        return torch.mm(inner, self.down), Routing(best.values, best.indices)


@dataclass(frozen=True)
class FoldedLayer:
    """One decoder layer."""

    attention: FoldedAttention
    feed: FoldedMlp | FoldedMoe

    @classmethod
    def of(cls, layer: DecoderLayer) -> FoldedLayer:
        """Fold a decoder layer."""
        attention = FoldedAttention.of(layer.self_attn, layer.input_layernorm)
        norm, mlp = layer.post_attention_layernorm, layer.mlp
        if isinstance(mlp, Moe):
            return cls(attention, FoldedMoe.of(mlp, norm))
        assert isinstance(mlp, Mlp)
        return cls(attention, FoldedMlp.of(mlp, norm))


@dataclass(frozen=True)
class FoldedMtp:
    """One MTP layer: `embedded` holds what each token of the vocabulary brings to eh_proj."""

    layer: FoldedLayer
    embedded: Tensor  # (vocab, hidden)
    hidden: Tensor  # (hidden, hidden): eh_proj's half for the previous state, hnorm folded in
    norm: Tensor  # (hidden,) weight of the norm before the shared head

    @classmethod
    def of(cls, mtp: MtpLayer, embedding: Tensor, config: ModelConfig) -> FoldedMtp:
        """Fold an MTP layer over the shared embedding (vocab, hidden)."""
        first, second = mtp.eh_proj.weight[:, : config.hidden_size], mtp.eh_proj.weight[:, config.hidden_size :]
        embedded = F.linear(mtp.enorm(embedding), first)  # (vocab, hidden)
        return cls(FoldedLayer.of(mtp), embedded, _columns(second, mtp.hnorm).contiguous(), mtp.shared_head.norm.weight)
