"""The shipped fake encoder: it reads every file of a series and sees nothing in it, in no time, for tests of everything around encoding."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.encoder.compact import DIM
from pipeline.encoder.features import load_features, save_features
from pipeline.errors import Permanent
from pipeline.model import Features

NAME = "fake"
ROWS = 4


class FakeEncoder:
    """Port `Encoder`: a few numbers that the bytes of the files decide, as wide as the packaged encoder's."""

    batch = 1

    def __init__(self, *_made_of: object) -> None:
        """Takes what `SeriesEncoder` is made of, and leaves it alone."""

    @property
    def identity(self) -> str:
        """The same for every fake encoder."""
        return f"{NAME}/1/{NAME}"

    def encode(self, paths: Sequence[Path]) -> Features:
        """The same files, in whatever order, give the same bytes. Raises OSError for a file that is not there."""
        whole = hashlib.sha256(b"".join(sorted(hashlib.sha256(path.read_bytes()).digest() for path in paths)))
        rng = np.random.default_rng(int.from_bytes(whole.digest()[:8], "big"))
        return Features(rng.standard_normal((ROWS, DIM)).astype(np.float32), NAME, "1", NAME)

    def encode_many(self, studies: Sequence[Sequence[Path]]) -> Sequence[Features | Permanent]:
        """One answer per study, in order."""
        return [self.encode(paths) for paths in studies]

    def save_features(self, features: Features, path: Path) -> None:
        """As every encoder does."""
        save_features(path, features)

    def load_features(self, path: Path) -> Features:
        """As every encoder does. Raises BadInput."""
        return load_features(path)
