"""Layers of DeepSeek-V3: multi-head latent attention, mixture of experts, decoder layer (arXiv 2412.19437, section 2.1)."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipeline.engine.cache import Rows
from pipeline.engine.config import ModelConfig
from pipeline.engine.rope import Angles, rotate

TRAINING_BLOCKS = 3  # measured: 20 ms of 28 for 8 texts of 220 tokens, forward and back; more blocks gain no more


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last axis."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """(..., width) → (..., width)."""
        return F.rms_norm(x.float(), self.weight.shape, self.weight, self.eps)


def linear(inputs: int, outputs: int) -> nn.Linear:
    """A projection without bias, as everywhere in DeepSeek-V3."""
    return nn.Linear(inputs, outputs, bias=False)


class Attention(nn.Module):
    """Multi-head latent attention in its absorbed form: every head reads the same short cached row."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        heads, eps = config.num_attention_heads, config.rms_norm_eps
        self.q_a_proj = linear(config.hidden_size, config.q_lora_rank)
        self.q_a_layernorm = RMSNorm(config.q_lora_rank, eps)
        self.q_b_proj = linear(config.q_lora_rank, heads * config.head_dim)
        self.kv_a_proj_with_mqa = linear(config.hidden_size, config.latent_dim)
        self.kv_a_layernorm = RMSNorm(config.kv_lora_rank, eps)
        self.kv_b_proj = linear(config.kv_lora_rank, heads * (config.qk_nope_head_dim + config.v_head_dim))
        self.o_proj = linear(heads * config.v_head_dim, config.hidden_size)

    def forward(self, x: Tensor, turn: Angles, bias: Tensor | None, cache: Rows | None) -> Tensor:
        """x (B, R, hidden); bias (R, T) is added to the scores; with a cache T = cached + R, else T = R."""
        c = self.config
        batch, rows, _ = x.shape
        up = self.kv_b_proj.weight.view(c.num_attention_heads, -1, c.kv_lora_rank)  # (H, nope + v, kv)
        up_key, up_value = up[:, : c.qk_nope_head_dim], up[:, c.qk_nope_head_dim :]
        query = self.q_b_proj(self.q_a_layernorm(self.q_a_proj(x))).view(batch, rows, c.num_attention_heads, c.head_dim)
        query = query.transpose(1, 2)  # (B, H, R, nope + rope)
        query_latent = torch.matmul(query[..., : c.qk_nope_head_dim], up_key)  # (B, H, R, kv)
        query = torch.cat([query_latent, rotate(query[..., c.qk_nope_head_dim :], turn)], dim=-1)  # (B, H, R, latent)
        down = self.kv_a_proj_with_mqa(x)  # (B, R, latent)
        latent = torch.cat([self.kv_a_layernorm(down[..., : c.kv_lora_rank]), rotate(down[..., c.kv_lora_rank :], turn)], dim=-1)
        keys = latent if cache is None else cache.extend(latent)  # (B, T, latent)
        mixed = self._causal(query, keys, bias) if self.training and bias is not None and rows == keys.shape[1] else self._attend(query, keys, bias)
        values = torch.matmul(mixed, up_value.transpose(1, 2))  # (B, H, R, v)
        out: Tensor = self.o_proj(values.transpose(1, 2).flatten(2))  # (B, R, hidden)
        return out

    def _attend(self, query: Tensor, keys: Tensor, bias: Tensor | None) -> Tensor:
        """query (B, H, R, latent), keys (B, T, latent), bias (R, T) → what every head reads, (B, H, R, kv)."""
        batch, heads, rows, _ = query.shape
        scores = torch.matmul((query * self.config.softmax_scale).flatten(1, 2), keys.transpose(1, 2)).view(batch, heads, rows, -1)  # (B, H, R, T)
        weights = (scores if bias is None else scores + bias).softmax(dim=-1)  # (B, H, R, T)
        mixed = torch.matmul(weights.flatten(1, 2), keys[..., : self.config.kv_lora_rank])  # (B, H · R, kv)
        return mixed.view(batch, heads, rows, -1)

    def _causal(self, query: Tensor, keys: Tensor, bias: Tensor) -> Tensor:
        """The same for R = T and a causal bias, in blocks of rows that leave out the keys behind them: a third less work in training."""
        rows = query.shape[2]
        edges = [rows * part // TRAINING_BLOCKS for part in range(TRAINING_BLOCKS + 1)]
        parts = [self._attend(query[:, :, a:b], keys[:, :b], bias[a:b, :b]) for a, b in pairwise(edges) if b > a]
        return torch.cat(parts, dim=2)


class Mlp(nn.Module):
    """The dense gated feed-forward of the first layers."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_proj = linear(config.hidden_size, config.intermediate_size)
        self.up_proj = linear(config.hidden_size, config.intermediate_size)
        self.down_proj = linear(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """(B, R, hidden) → (B, R, hidden)."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Gate(nn.Module):
    """Sigmoid router with the bias that balances load without a loss term."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(config.n_routed_experts, config.hidden_size).normal_(std=0.02))
        self.e_score_correction_bias: Tensor
        self.register_buffer("e_score_correction_bias", torch.zeros(config.n_routed_experts))
        self.top_k = config.num_experts_per_tok
        self.scale = config.routed_scaling_factor
        self.load: Tensor | None = None  # tokens per expert of the last training batch

    def forward(self, x: Tensor) -> Tensor:
        """(B, R, hidden) → weight of each routed expert (B, R, E), zero where it is not chosen."""
        scores = F.linear(x.float(), self.weight.float()).sigmoid()  # (B, R, E)
        chosen = (scores.detach() + self.e_score_correction_bias).topk(self.top_k, dim=-1).indices  # (B, R, top_k)
        mask = torch.zeros_like(scores).scatter_(-1, chosen, 1.0)  # (B, R, E)
        if self.training:
            self.load = mask.sum(dim=(0, 1))
        kept = scores * mask
        return kept / (kept.sum(dim=-1, keepdim=True) + 1e-20) * self.scale


class Moe(nn.Module):
    """All routed experts and the shared one as two dense products with a gate mask: constant cost on a CPU."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate = Gate(config)
        self.slots = config.n_routed_experts + config.n_shared_experts
        self.shared = config.n_shared_experts
        width = self.slots * config.moe_intermediate_size
        self.gate_up = nn.Parameter(torch.empty(2 * width, config.hidden_size).normal_(std=config.hidden_size**-0.5 * 0.6))
        self.down = nn.Parameter(torch.empty(config.hidden_size, width).normal_(std=0.02))

    def forward(self, x: Tensor) -> Tensor:
        """(B, R, hidden) → (B, R, hidden)."""
        weights = F.pad(self.gate(x), (0, self.shared), value=1.0)  # (B, R, slots)
        gate, up = F.linear(x, self.gate_up).chunk(2, dim=-1)  # each (B, R, slots · width)
        inner = (F.silu(gate) * up).view(*weights.shape, -1) * weights.unsqueeze(-1).to(gate.dtype)  # (B, R, slots, width)
        return F.linear(inner.flatten(-2), self.down)


class DecoderLayer(nn.Module):
    """Attention and feed-forward, each behind a norm and a residual."""

    def __init__(self, config: ModelConfig, index: int) -> None:
        super().__init__()
        self.self_attn = Attention(config)
        self.mlp: nn.Module = Mlp(config) if index < config.first_k_dense_replace else Moe(config)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, x: Tensor, turn: Angles, bias: Tensor | None, cache: Rows | None) -> Tensor:
        """(B, R, hidden) → (B, R, hidden)."""
        x = x + self.self_attn(self.input_layernorm(x), turn, bias, cache)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class SharedHead(nn.Module):
    """The norm before the shared output head."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class MtpLayer(DecoderLayer):
    """Multi-Token Prediction: one more decoder layer that guesses the token after the next one (section 2.2); `depth` of several counts from 0."""

    def __init__(self, config: ModelConfig, depth: int = 0) -> None:
        super().__init__(config, config.num_hidden_layers + depth)
        self.enorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.hnorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.eh_proj = linear(2 * config.hidden_size, config.hidden_size)
        self.shared_head = SharedHead(config)

    def step(self, embedded: Tensor, hidden: Tensor, turn: Angles, bias: Tensor | None, cache: Rows | None) -> Tensor:
        """Embedding of token t+1 and post-norm hidden state at t, both (B, R, hidden) → post-norm hidden state (B, R, hidden)."""
        x = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], dim=-1))  # (B, R, hidden)
        out: Tensor = self.shared_head.norm(self.forward(x, turn, bias, cache))
        return out
