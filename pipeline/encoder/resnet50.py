"""ResNet-50: one token of 2048 columns per key slice or region crop."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pipeline.encoder.pictured import PicturedEncoder
from pipeline.encoder.published import Normalisation

# ImageNet's means and deviations, as preprocessor_config.json of microsoft/resnet-50 gives them
IMAGENET = Normalisation((0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 224, source="microsoft/resnet-50")


class ResNet50Encoder(PicturedEncoder):
    """transformers' ResNetModel: the average over the last feature map."""

    name = "resnet50"
    kind = "ResNetModel"
    default = IMAGENET
    picture_mb = 40.0

    def _outputs(self, network: Any, pixels: Tensor) -> Tensor:
        pooled: Tensor = network(pixels).pooler_output  # (P, 2048, 1, 1)
        return pooled.flatten(1)

    def _width(self, config: Any) -> int:
        return int(config.hidden_sizes[-1])
