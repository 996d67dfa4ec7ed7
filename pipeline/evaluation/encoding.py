"""The compact encoder as evaluation calls it: prepared exactly as a site does, without what no figure is made of."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pipeline.encoder.compact import CompactEncoder
from pipeline.encoder.prepare import Prepared, Preparing, cleaned, preparing
from pipeline.encoder.series import SeriesEncoder
from pipeline.evaluation.cases import volume_of
from pipeline.imaging.volume import Volume
from pipeline.model import Features
from pipeline.settings import ImagingSettings
from pipeline.training.phantom import Phantom

Encode = Callable[[Volume], Features]


def compact_encoder(folder: Path) -> Encode:
    """Encoding with the compact encoder of a weights folder, prepared as a site without settings does. Raises ModelMissing."""
    return SeriesEncoder(CompactEncoder.load(folder), preparing(ImagingSettings())).encode_volume


def seeing(folder: Path) -> Callable[[Phantom], Features]:
    """A phantom's scan, read and encoded: the array, candidates, sides and distance of `compact_encoder` in less than half of its time.

    Raises ModelMissing.
    """
    encoder, how = CompactEncoder.load(folder), preparing(ImagingSettings())
    return lambda phantom: encoder.encode_prepared([lean(volume_of(phantom), how)])[0]


def lean(read: Volume, how: Preparing) -> Prepared:
    """A prepared volume without candidate regions, key slices, organs and side check: this encoder looks at none of them. Raises Unsupported."""
    volume, lungs, noise, denoised = cleaned(read, how)
    return Prepared(volume, lungs, (), (), (), noise, denoised, ())
