"""Latent key/value cache of one text: MLA stores one short row per position and layer."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from pipeline.engine.config import ModelConfig


class Rows(Protocol):
    """Where a layer keeps the latent rows that later positions read."""

    def extend(self, rows: Tensor) -> Tensor:
        """Add rows (B, R, latent) and return all that there are (B, T, latent)."""


class LayerCache:
    """Rows `(1, capacity, kv_lora_rank + rope)` of one layer, of which the first `length` are valid."""

    def __init__(self, config: ModelConfig, capacity: int) -> None:
        self.rows = torch.zeros(1, capacity, config.latent_dim)
        self.length = 0

    def extend(self, rows: Tensor) -> Tensor:
        """Append `(1, R, latent)` and return every valid row `(1, length + R, latent)`."""
        end = self.length + rows.shape[1]
        self.rows[:, self.length : end] = rows
        self.length = end
        return self.rows[:, :end]


class Cache:
    """The caches of a stack of layers, which grow and shrink together."""

    def __init__(self, config: ModelConfig, layers: int, capacity: int) -> None:
        self.layers = [LayerCache(config, capacity) for _ in range(layers)]

    @property
    def length(self) -> int:
        """Positions that are cached."""
        return self.layers[0].length

    def rollback(self, length: int) -> None:
        """Forget every position from `length` on; later rows overwrite them."""
        for layer in self.layers:
            layer.length = length
