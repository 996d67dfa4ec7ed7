"""Latent key/value caches: MLA stores one short row per position and layer."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from pipeline.engine.config import ModelConfig

ROUNDED = 128  # a capacity is a multiple of this, so that texts of like length share one allocation


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
    """The caches of a stack of layers for one text, which grow and shrink together: what `Model.forward` continues."""

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


class Slots:
    """Preallocated rows of several texts: one (slots, capacity, latent) tensor per layer.

    How much of a slot is valid is known by the text that owns it; rows behind that are finite left-overs that a mask hides.
    """

    def __init__(self, config: ModelConfig, layers: int, slots: int, capacity: int) -> None:
        self.capacity = -(-capacity // ROUNDED) * ROUNDED
        self.slots = slots
        self.rows = [torch.zeros(slots, self.capacity, config.latent_dim) for _ in range(layers)]

    def fits(self, slots: int, capacity: int) -> bool:
        """True when so many texts of so many positions have room."""
        return slots <= self.slots and capacity <= self.capacity

    def move(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` rows of one slot into another."""
        for rows in self.rows:
            rows[target, :length] = rows[source, :length]


class Memory:
    """The caches of up to `slots` texts: main layers and MTP layers, and one slot apart for passes over a whole text."""

    def __init__(self, config: ModelConfig, mtp_layers: int, slots: int, capacity: int) -> None:
        self.main = Slots(config, config.num_hidden_layers, slots, capacity)
        self.mtp = Slots(config, mtp_layers, slots, capacity)
        self._config = config

    @cached_property
    def apart(self) -> Slots:
        """One slot of the main layers that belongs to no text."""
        return Slots(self._config, self._config.num_hidden_layers, 1, self.main.capacity)

    def move(self, source: int, target: int, length: int) -> None:
        """Give a text another slot."""
        self.main.move(source, target, length)
        self.mtp.move(source, target, length)
