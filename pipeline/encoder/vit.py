"""ViT-B/16: one token of 768 columns per key slice or region crop, the average over its patches."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pipeline.encoder.pictured import PicturedEncoder
from pipeline.encoder.published import Normalisation

# as preprocessor_config.json of google/vit-base-patch16-224 gives them
STANDARD = Normalisation((0.5, 0.5, 0.5), (0.5, 0.5, 0.5), 224, source="google/vit-base-patch16-224")


class VitEncoder(PicturedEncoder):
    """transformers' ViTModel without its pooler: patch tokens of the last layer, averaged; the class token is left out."""

    name = "vit"
    kind = "ViTModel"
    default = STANDARD
    picture_mb = 24.0

    def _outputs(self, network: Any, pixels: Tensor) -> Tensor:
        tokens: Tensor = network(pixels).last_hidden_state  # (P, 1 + 196, 768)
        return tokens[:, 1:].float().mean(dim=1)  # (P, 768)

    def _width(self, config: Any) -> int:
        return int(config.hidden_size)

    def _side(self, config: Any, normalisation: Normalisation) -> int:
        return int(config.image_size)  # position embeddings are of this size, whatever the preprocessor says
