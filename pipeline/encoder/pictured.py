"""What the encoders of published networks share: prepared studies → pictures → one network → tokens with their provenance."""

from __future__ import annotations

import copy
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from pipeline import log
from pipeline.encoder.batching import Batcher, Way, ladder, pictures_within
from pipeline.encoder.device import Placement
from pipeline.encoder.published import Kind, Normalisation, Published, digest
from pipeline.encoder.room import CudaMemory, FreeMemory, studies_within
from pipeline.encoder.structured import Structured
from pipeline.encoder.views import ROI_CONTEXT, ROI_MIN_MM, WINDOWS, Channels, View, region_views, view_pictures, whole_slices
from pipeline.errors import Transient
from pipeline.model import Candidate, Features

if TYPE_CHECKING:
    from pipeline.encoder.prepare import Prepared

logger = log.get(__name__)
BATCH = 4  # studies that fill a GPU's passes; more would only hold more volumes in memory


@dataclass(frozen=True, slots=True)
class Look:
    """What the network is shown, by setting."""

    views: Literal["slices", "regions"] = "slices"
    channels: Channels = "windows"
    rois: int = 4


class PicturedEncoder(ABC):
    """One network in memory. Prepared studies → `(N, dim)` features; the same study gives the same bytes on one placement."""

    name: str
    kind: ClassVar[Kind]
    default: ClassVar[Normalisation]  # as published, where the folder says nothing
    picture_mb: ClassVar[float]  # GPU memory that one more picture takes, float32

    def __init__(self, published: Published, placement: Placement, batch_mb: int, look: Look, memory: FreeMemory | None = None) -> None:
        self._placement = placement
        self._look = look
        self._normalisation = published.normalisation
        self.dim = self._width(published.network.config)
        self._size = self._side(published.network.config, published.normalisation)
        self._tokens = Structured.load(published.folder, self.dim)
        self._network: torch.nn.Module = self._cut(published.network).to(placement.device, placement.torch_dtype)
        self._spare: torch.nn.Module | None = None
        self._batcher = Batcher(ladder(pictures_within(batch_mb, self.picture_mb), placement.accelerator))
        self._memory = memory or (CudaMemory() if placement.accelerator else None)
        self.phantom_only = published.phantom_only
        self.card = {**published.card, "structured": "trained" if self._tokens.trained else "untrained"}
        self.version = _short(published.digest, digest(self._tokens.state_dict()))
        shown = (self.name, self._size, look, self._normalisation, WINDOWS, ROI_CONTEXT, ROI_MIN_MM, placement.dtype)
        self.preprocessing = _short(repr(shown))
        logger.info(
            "encoder_loaded", encoder=self.name, weights=published.where, version=self.version, dim=self.dim, structured=self.card["structured"]
        )

    @property
    def batch(self) -> int:
        """Studies that may go together now; none while the GPU has no memory for a pass."""
        if self._memory is None:
            return 1
        free_mb = self._memory.free_mb()
        fits = studies_within(free_mb, self._batcher.left, self.picture_mb, BATCH)
        if not fits:
            logger.warning("encoder_waits_for_memory", free_mb=round(free_mb), next_step="free the GPU, or lower CTREPORT_ENCODER_BATCH_MB")
        return fits

    def encode_prepared(self, studies: Sequence[Prepared]) -> list[Features]:
        """Features of each study, in order; their pictures share the network's passes. Raises Transient where no memory is left."""
        shown = [self._views(study) for study in studies]
        pixels = [self._normal(self._pixels(study, views)) for study, views in zip(studies, shown, strict=True)]
        try:
            seen = self._batcher.run(pixels, self._forward)
        except torch.OutOfMemoryError as error:
            raise Transient("the encoder has no memory for one picture, even on the processor; give the machine more, or free it") from error
        return [self._features(*each) for each in zip(studies, shown, seen, strict=True)]

    @abstractmethod
    def _outputs(self, network: Any, pixels: Tensor) -> Tensor:
        """One pass: (P, 3, S, S) → (P, …)."""

    @abstractmethod
    def _width(self, config: Any) -> int:
        """Columns of a token, from the network's configuration."""

    def _views(self, study: Prepared) -> tuple[View, ...]:
        """What is looked at, in the order of its tokens."""
        return region_views(study, self._look.rois) if self._asks_regions() else whole_slices(study)

    def _pixels(self, study: Prepared, views: Sequence[View]) -> Tensor:
        """Pictures (n, 3, h, w) of 0 … 1 for the network; h and w at most its size."""
        return view_pictures(study.volume, views, self._look.channels, self._size, cropped=self._asks_regions())

    def _rows(self, study: Prepared, views: Sequence[View], seen: Tensor) -> Tensor:
        """The visual tokens (N, dim) of one study from the outputs of its pictures."""
        return seen

    def _side(self, config: Any, normalisation: Normalisation) -> int:
        """Pixels along a side of a picture."""
        return normalisation.size

    def _cut(self, network: Any) -> Any:
        """The part of the network that is used."""
        return network

    def _normal(self, pixels: Tensor) -> Tensor:
        """(n, 3, h, w) → (n, 3, S, S): normalised, then zeros below and to the right, as SAM's own processor does it."""
        normal = self._normalisation.apply(pixels)
        return torch.nn.functional.pad(normal, (0, self._size - normal.shape[-1], 0, self._size - normal.shape[-2]))

    def _forward(self, pixels: Tensor, way: Way) -> Tensor:
        """One pass on the GPU, or on the processor where that is all there is or all that is left."""
        spared = way is Way.CPU and self._placement.accelerator
        network = self._on_processor() if spared else self._network
        device, dtype = ("cpu", torch.float32) if spared else (self._placement.device, self._placement.torch_dtype)
        with torch.inference_mode():
            return self._outputs(network, pixels.to(device, dtype)).float().cpu()

    def _on_processor(self) -> torch.nn.Module:
        """A copy of the network for studies that the GPU has no memory for; made when the first one comes."""
        if self._spare is None:
            self._spare = copy.deepcopy(self._network).to("cpu", torch.float32)
        return self._spare

    def _features(self, study: Prepared, views: Sequence[View], seen: Tensor) -> Features:
        sides = [view.side for view in views] if self._asks_regions() else []
        with torch.inference_mode():
            rows = [self._rows(study, views, seen), self._tokens.acquisition(study.volume.acquisition), self._tokens.regions(sides)]
        return Features(
            array=torch.cat(rows).numpy().astype(np.float32),
            encoder=self.name,
            version=self.version,
            preprocessing=self.preprocessing,
            candidates=candidates(study),
            phantom_only=self.phantom_only,
        )

    def _asks_regions(self) -> bool:
        return self._look.views == "regions"


def candidates(study: Prepared) -> tuple[Candidate, ...]:
    """The regions that classical means found, as candidates: place, side and size are measured, lobe and density are unknown."""
    return tuple(
        Candidate(
            index=number,
            kind=region.kind,
            center_mm=region.center_mm,
            side=study.lungs.side_of(region.center_mm),
            lobe=None,
            density=None,
            size_mm=round(float(max(region.size_mm[:2])), 1),
            score=round(region.score, 4),
            slice_sop_uid=sop_uid,
            slice_frame=frame,
        )
        for number, region in enumerate(study.regions, 1)
        for sop_uid, frame in [study.volume.named(study.volume.nearest(region.center_mm))]
    )


def _short(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
