"""The whole model: embeddings with projected CT features, decoder layers, head and the MTP layers, of which most checkpoints have one."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pipeline.engine.cache import Cache
from pipeline.engine.config import ModelConfig
from pipeline.engine.layers import DecoderLayer, MtpLayer, RMSNorm, linear
from pipeline.engine.rope import Angles, angles


class Stack(nn.Module):
    """What the official names call `model.`: embeddings, the decoder layers, the MTP layers behind them, the final norm."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        layers: list[nn.Module] = [DecoderLayer(config, index) for index in range(config.num_hidden_layers)]
        heads = [MtpLayer(config, depth) for depth in range(config.num_nextn_predict_layers)]
        self.layers = nn.ModuleList([*layers, *heads])
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class MlpProjector(nn.Module):
    """Two layers with a GELU between them and biases, as LLaVA 1.5 has it (Liu et al. 2023, "Improved Baselines with Visual Instruction Tuning")."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.linear_1 = nn.Linear(config.ct_feature_dim, config.hidden_size)
        self.linear_2 = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, features: Tensor) -> Tensor:
        """(B, N, D) → (B, N, hidden)."""
        out: Tensor = self.linear_2(nn.functional.gelu(self.linear_1(features)))
        return out


def projector(config: ModelConfig) -> nn.Module:
    """What turns a feature row (D) into an embedding (hidden)."""
    return MlpProjector(config) if config.ct_projector_type == "mlp" else linear(config.ct_feature_dim, config.hidden_size)


class Model(nn.Module):
    """DeepSeek-V3 with its MTP layers and a projector for CT features."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Stack(config)
        self.lm_head = linear(config.hidden_size, config.vocab_size)
        self.ct_projector = projector(config)
        self.cos: Tensor
        self.sin: Tensor
        cos, sin = angles(config.qk_rope_head_dim, config.rope_theta, config.yarn, config.max_position_embeddings)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        nn.init.normal_(self.model.embed_tokens.weight, std=0.02)
        nn.init.normal_(self.lm_head.weight, std=0.02)

    @property
    def mtp(self) -> MtpLayer:
        """The first MTP layer, at index `num_hidden_layers`; most checkpoints have no other."""
        return self.mtp_layer(0)

    def mtp_layer(self, depth: int) -> MtpLayer:
        """The MTP layer of one depth, counted from 0."""
        layer = self.model.layers[self.config.num_hidden_layers + depth]
        assert isinstance(layer, MtpLayer)
        return layer

    def new_cache(self, capacity: int) -> Cache:
        """An empty cache for the main layers."""
        return Cache(self.config, self.config.num_hidden_layers, capacity)

    def new_mtp_cache(self, capacity: int) -> Cache:
        """An empty cache for the MTP layers, one per depth."""
        return Cache(self.config, self.config.num_nextn_predict_layers, capacity)

    def embed(self, ids: Tensor, features: Tensor | None) -> Tensor:
        """ids (B, R) and features (B, N, D) → (B, R, hidden); the i-th placeholder of a row takes the i-th feature row."""
        embedded: Tensor = self.model.embed_tokens(ids)
        if features is None:
            return embedded
        place = (ids == self.config.ct_placeholder_id).unsqueeze(-1)  # (B, R, 1)
        return embedded.masked_scatter(place, self.ct_projector(features).to(embedded.dtype))

    def forward(self, ids: Tensor, features: Tensor | None = None, cache: Cache | None = None) -> Tensor:
        """ids (B, R) → post-norm hidden states (B, R, hidden), continuing after what the cache holds."""
        x = self.embed(ids, features)
        start = cache.length if cache else 0
        turn, bias = self.positions(start, ids.shape[1])
        for index in range(self.config.num_hidden_layers):
            x = self.model.layers[index](x, turn, bias, cache.layers[index] if cache else None)
        out: Tensor = self.model.norm(x)
        return out

    def draft(self, ids: Tensor, hidden: Tensor, cache: Cache | None = None, depth: int = 0) -> Tensor:
        """One MTP pass of a depth: next tokens (B, R) and post-norm hidden states (B, R, hidden) → post-norm hidden states (B, R, hidden)."""
        rows = cache.layers[depth] if cache else None
        turn, bias = self.positions(rows.length if rows else 0, ids.shape[1])
        return self.mtp_layer(depth).step(self.model.embed_tokens(ids), hidden, turn, bias, rows)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., hidden) → (..., vocab)."""
        out: Tensor = self.lm_head(hidden)
        return out

    def positions(self, start: int, rows: int) -> tuple[Angles, Tensor | None]:
        """Rotary angles of the new rows and their causal bias (R, start + R); None when a single row sees everything."""
        turn = (self.cos[start : start + rows], self.sin[start : start + rows])
        if rows == 1:
            return turn, None
        bias = torch.full((rows, start + rows), float("-inf")).triu(start + 1)  # (R, T)
        return turn, bias
