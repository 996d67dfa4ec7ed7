"""Any encoder as the encode step calls it: files in, features out, one bad study spoils no other."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from pipeline.encoder.features import load_features, save_features
from pipeline.encoder.prepare import Prepared, Preparing, prepare, prepare_volume
from pipeline.errors import ModelMissing, Permanent
from pipeline.imaging.volume import Volume
from pipeline.model import Features, Frame


class Network(Protocol):
    """What turns prepared volumes into features `(N, dim)`: compact, resnet50, vit, medsam."""

    name: str
    version: str  # changes with the weights
    preprocessing: str  # changes with everything that the network does to a prepared volume first
    dim: int
    phantom_only: bool

    @property
    def batch(self) -> int:
        """Studies that gain from going together and that the device has memory for now; 0: it must be waited for."""

    def encode_prepared(self, studies: Sequence[Prepared]) -> list[Features]:
        """One answer per study, in order. The same study gives the same bytes in any company."""


class SeriesEncoder:
    """One network in memory and the way series are prepared for it (port `Encoder`)."""

    def __init__(self, network: Network, how: Preparing) -> None:
        self._network = network
        self._how = how
        # with the card's word: features that were made while it said `live` are not used again once it says phantom-only
        self._preprocessing = hashlib.sha256(f"{network.preprocessing} {how.digest} {network.phantom_only}".encode()).hexdigest()[:16]

    @property
    def batch(self) -> int:
        """As the network has it now."""
        return self._network.batch

    @property
    def identity(self) -> str:
        """The same identity and the same files give the same features."""
        return f"{self._network.name}/{self._network.version}/{self._preprocessing}"

    def encode(self, paths: Sequence[Path]) -> Features:
        """Read one series and encode it. Raises Unsupported (no volume, no lungs), UnreadableDicom or Permanent."""
        return self._encode([prepare(paths, self._how)])[0]

    def encode_many(self, studies: Sequence[Sequence[Path]]) -> Sequence[Features | Permanent]:
        """One answer per study, in order: its features, or why it has none. Raises Transient for all of them."""
        prepared = [_try_prepare(paths, self._how) for paths in studies]
        encoded = iter(self._each([one for one in prepared if isinstance(one, Prepared)]))
        return [next(encoded) if isinstance(one, Prepared) else one for one in prepared]

    def encode_volume(self, volume: Volume) -> Features:
        """Encode a volume that has been read already. Raises Unsupported."""
        return self._encode([prepare_volume(volume, self._how)])[0]

    def save_features(self, features: Features, path: Path) -> None:
        """Write as safetensors, durable and byte-identical for the same features."""
        save_features(path, features)

    def load_features(self, path: Path) -> Features:
        """Features as `save_features` wrote them. Raises BadInput."""
        return load_features(path)

    def _each(self, prepared: Sequence[Prepared]) -> list[Features | Permanent]:
        """All in one go; where the network refuses one of them, each on its own."""
        try:
            return list(self._encode(prepared))
        except ModelMissing:
            raise
        except Permanent as error:
            return [error] if len(prepared) == 1 else [answer for one in prepared for answer in self._each([one])]

    def _encode(self, prepared: Sequence[Prepared]) -> list[Features]:
        encoded = self._network.encode_prepared(prepared) if prepared else []
        return [self._described(features, study) for features, study in zip(encoded, prepared, strict=True)]

    def _described(self, features: Features, study: Prepared) -> Features:
        return replace(
            features,
            preprocessing=self._preprocessing,
            flags=tuple(dict.fromkeys((*study.flags, *features.flags))),  # with what the network itself says of the volume
            covers=study.covers,
            contrast=study.volume.acquisition.contrast,
            noise_hu=study.noise_hu,
            denoised=study.denoised,
            key_slices=study.key_names,
            frame=_frame(study),
        )


def _frame(study: Prepared) -> Frame:
    """Slices without a thickness in their header are taken to be as thick as they are apart."""
    low, high = study.lungs.box_mm
    step_mm = float(study.volume.spacing_mm[0])
    return Frame((*low, *high), study.lungs.midline_mm, step_mm, study.volume.acquisition.thickness_mm or step_mm)


def _try_prepare(paths: Sequence[Path], how: Preparing) -> Prepared | Permanent:
    try:
        return prepare(paths, how)
    except Permanent as error:
        return error
