"""The network that the settings name; only the chosen one is imported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.errors import ModelMissing

if TYPE_CHECKING:
    from pipeline.encoder.device import Placement
    from pipeline.encoder.pictured import Look, PicturedEncoder
    from pipeline.encoder.published import Published
    from pipeline.encoder.series import Network
    from pipeline.settings import EncoderSettings


def network(room: EncoderSettings) -> Network:
    """The network in memory. Raises ModelMissing: which weights or device are missing, and what to set."""
    if room.name == "compact":
        return _compact(room.weights)
    encoder = _class_of(room.name)
    return encoder(_published(room, encoder), _placement(room), room.batch_mb, _look(room))


def _compact(weights: str | None) -> Network:
    from pipeline.encoder.compact import WEIGHTS, CompactEncoder

    return CompactEncoder.load(Path(weights) if weights else WEIGHTS)


def _class_of(name: str) -> type[PicturedEncoder]:
    if name == "resnet50":
        from pipeline.encoder.resnet50 import ResNet50Encoder

        return ResNet50Encoder
    if name == "vit":
        from pipeline.encoder.vit import VitEncoder

        return VitEncoder
    from pipeline.encoder.medsam import MedSamEncoder

    return MedSamEncoder


def _published(room: EncoderSettings, encoder: type[PicturedEncoder]) -> Published:
    from pipeline.encoder.published import HUB, load

    if not room.weights:
        raise ModelMissing(
            f"CTREPORT_ENCODER_NAME is {room.name} and no weights for it come with this package; set CTREPORT_ENCODER_WEIGHTS to a folder with "
            f"config.json and model.safetensors, or to {HUB}owner/name"
        )
    return load(room.weights, encoder.kind, encoder.default)


def _placement(room: EncoderSettings) -> Placement:
    from pipeline.encoder.device import placement

    return placement(room.device, room.dtype)


def _look(room: EncoderSettings) -> Look:
    from pipeline.encoder.pictured import Look

    return Look(room.views, room.channels, room.rois)
