"""Rotary positions: plain RoPE, and yarn, which stretches the slow rotations to longer texts (Peng et al. 2023, arXiv 2309.00071).

The formulas are those of DeepSeek-V3's published `modeling_deepseek.py`; at factor 1, or without a block, they are plain RoPE.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor

Angles = tuple[Tensor, Tensor]  # cos and sin, each (T, rope / 2)


@dataclass(frozen=True, slots=True)
class Yarn:
    """The block `rope_scaling` of `config.json`, under its official names."""

    factor: float
    original_max_position_embeddings: int
    beta_fast: float = 32
    beta_slow: float = 1
    mscale: float = 1.0
    mscale_all_dim: float = 0.0

    @classmethod
    def of(cls, raw: Mapping[str, Any]) -> Self:
        """The block without faults (`config_faults.py`) as read from the file."""
        return cls(**{name: raw[name] for name in cls.__slots__ if name in raw})

    def to_dict(self) -> dict[str, object]:
        """What the file holds; transformers 5 reads `rope_type`, older readers `type`."""
        return {"type": "yarn", "rope_type": "yarn", **asdict(self)}

    @property
    def amplitude(self) -> float:
        """What cos and sin are multiplied by."""
        return _mscale(self.factor, self.mscale) / _mscale(self.factor, self.mscale_all_dim)

    @property
    def temperature(self) -> float:
        """What attention's 1/√d is multiplied by."""
        return _mscale(self.factor, self.mscale_all_dim) ** 2


def plain(length: int) -> Yarn:
    """The block that servers ask for where there is nothing to stretch."""
    return Yarn(1.0, length, mscale_all_dim=1.0)


def frequencies(width: int, theta: float, yarn: Yarn) -> Tensor:
    """Radians per position of each pair (width / 2): fast pairs as they are, slow ones divided by the factor, a ramp between them."""
    fast = theta ** -(torch.arange(0, width, 2, dtype=torch.float32) / width)  # (width/2,)
    if yarn.factor == 1:
        return fast
    low = max(math.floor(_pair_of(yarn.beta_fast, width, theta, yarn)), 0)
    high = min(math.ceil(_pair_of(yarn.beta_slow, width, theta, yarn)), width - 1)
    ramp = (torch.arange(width // 2, dtype=torch.float32) - low) / (high - low if high != low else 0.001)
    stretched = ramp.clamp(0, 1)  # (width/2,)
    return fast / yarn.factor * stretched + fast * (1 - stretched)


def angles(width: int, theta: float, yarn: Yarn, length: int) -> Angles:
    """Rotary angles of positions 0 … length − 1."""
    phase = torch.outer(torch.arange(length, dtype=torch.float32), frequencies(width, theta, yarn))  # (T, width/2)
    return phase.cos() * yarn.amplitude, phase.sin() * yarn.amplitude


def rotate(x: Tensor, turn: Angles) -> Tensor:
    """Rotate interleaved pairs of the last axis: x (..., T, rope), angles (T, rope/2)."""
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = turn
    return torch.cat([even * cos - odd * sin, odd * cos + even * sin], dim=-1)


def _pair_of(turns: float, width: int, theta: float, yarn: Yarn) -> float:
    """The (fractional) pair that turns this often over the original length."""
    return width * math.log(yarn.original_max_position_embeddings / (turns * 2 * math.pi)) / (2 * math.log(theta))


def _mscale(factor: float, weight: float) -> float:
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0
