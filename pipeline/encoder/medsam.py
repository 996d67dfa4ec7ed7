"""SAM's image encoder with MedSAM's weights: 14 × 14 tokens of 768 columns for each region box."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pipeline.encoder.pictured import PicturedEncoder
from pipeline.encoder.published import Normalisation
from pipeline.encoder.views import View, fitted, pictures, region_views, resized, sampled, scaled

if TYPE_CHECKING:
    from pipeline.encoder.prepare import Prepared

GRID = (14, 14)  # tokens per box, rows and columns: the source article's 196
# MedSAM was trained on pixels of 0 … 1 without means (bowang-lab/MedSAM, Ma et al. 2024, "Segment anything in medical images")
PLAIN = Normalisation((0.0, 0.0, 0.0), (1.0, 1.0, 1.0), 1024, source="bowang-lab/MedSAM")


class MedSamEncoder(PicturedEncoder):
    """transformers' SamVisionModel up to the last layer, before the neck: 64 × 64 cells of 768 columns for a picture of 1024 × 1024 pixels.

    Each slice passes once, however many boxes lie on it. A box is sampled at the centres of 14 × 14 equal parts of it, linearly between cells.
    """

    name = "medsam"
    kind = "SamVisionModel"
    default = PLAIN
    picture_mb = 3000.0  # four global layers hold 12 heads × 4096² attention biases

    def _views(self, study: Prepared) -> tuple[View, ...]:
        return region_views(study, self._look.rois)

    def _pixels(self, study: Prepared, views: Sequence[View]) -> Tensor:
        shape = self._shape(study)
        return torch.cat([resized(pictures(study.volume, [z], self._look.channels), shape) for z in _slices(views)])

    def _outputs(self, network: Any, pixels: Tensor) -> Tensor:
        cells: Tensor = network(pixels).last_hidden_state  # (P, 64, 64, 768): the neck is cut off
        return cells.movedim(-1, 1)  # (P, 768, 64, 64)

    def _rows(self, study: Prepared, views: Sequence[View], seen: Tensor) -> Tensor:
        """(R · 196, 768), row by row of each box."""
        places = _slices(views)
        shape, patch = self._shape(study), self._size / seen.shape[-1]
        plane = (study.volume.hu.shape[1], study.volume.hu.shape[2])
        boxes = [scaled(view.box, plane, (shape[0] / patch, shape[1] / patch)) for view in views]
        cells = sampled(seen[[places.index(view.z) for view in views]], boxes, GRID)  # (R, 768, 14, 14)
        return cells.flatten(2).transpose(1, 2).flatten(0, 1)

    def _width(self, config: Any) -> int:
        return int(config.hidden_size)

    def _side(self, config: Any, normalisation: Normalisation) -> int:
        return int(config.image_size)

    def _cut(self, network: Any) -> Any:
        network.vision_encoder.neck = nn.Identity()
        return network

    def _asks_regions(self) -> bool:
        return True

    def _shape(self, study: Prepared) -> tuple[int, int]:
        """Rows and columns of a slice inside the square picture."""
        volume = study.volume
        return fitted(volume.hu.shape[1], volume.hu.shape[2], (volume.spacing_mm[1], volume.spacing_mm[2]), self._size)


def _slices(views: Sequence[View]) -> list[int]:
    """z of the pictures, each once, in the order of the views."""
    return list(dict.fromkeys(view.z for view in views))
