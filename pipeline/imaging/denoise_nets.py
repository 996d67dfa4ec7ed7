"""The two denoising nets. Both take slices with their neighbours in units of 1000 HU and the noise in HU, and give slices in units of 1000 HU."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

WIDTH = 24
MIDDLE = 4  # 3×3 convolutions between the first and the last
NOISE_UNIT_HU = 100.0
SEEN = 3  # slices: one below, the one, one above


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1)


class ArticleNet(nn.Module):
    """The source article's light autoencoder, as we read it: Conv 1→16, ReLU, Conv 16→1, both 3×3, same size. It gives the image itself and is
    not told the noise."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = _conv(1, 16)
        self.decode = _conv(16, 1)

    def forward(self, slices: Tensor, noise_hu: Tensor) -> Tensor:
        """(B, 3, Y, X), of which only the middle counts, and (B,), which is not used → (B, 1, Y, X)."""
        return cast(Tensor, self.decode(F.relu(self.encode(slices[:, 1:2]))))


class ResidualNet(nn.Module):
    """Six 3×3 convolutions at half resolution that predict the noise, told how strong it is (the design of FFDNet, Zhang et al. 2018, in small).

    A pixel and its three neighbours in plane become four channels: a quarter of the work, and twice the reach, which the grain of CT noise needs.
    The slices below and above help to tell structure from noise.
    """

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = [_conv(4 * SEEN + 1, WIDTH), nn.ReLU(inplace=True)]
        for _ in range(MIDDLE):
            layers += [_conv(WIDTH, WIDTH), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers, _conv(WIDTH, 4))
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch takes it; a third of the time here

    def forward(self, slices: Tensor, noise_hu: Tensor) -> Tensor:
        """(B, 3, Y, X) with even Y and X, and (B,) → (B, 1, Y, X)."""
        folded = F.pixel_unshuffle(slices, 2)  # (B, 12, Y/2, X/2)
        level = (noise_hu / NOISE_UNIT_HU).view(-1, 1, 1, 1).expand(-1, 1, *folded.shape[2:])
        seen = torch.cat([folded, level], dim=1).contiguous(memory_format=torch.channels_last)  # (B, 13, Y/2, X/2)
        return slices[:, 1:2] - F.pixel_shuffle(self.body(seen), 2)


NETS: dict[str, type[ResidualNet] | type[ArticleNet]] = {"denoiser": ResidualNet, "denoiser_article": ArticleNet}
