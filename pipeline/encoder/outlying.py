"""How far a volume lies from those of training: the Mahalanobis distance of its pooled feature map (Lee et al. 2018, arXiv 1807.03888).

The limit is calibrated so that held-out phantoms pass. It says only that a volume is unlike them, never that a draft of one within is right.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file

FILE = "outlying.safetensors"
SHRINKAGE = 0.1  # towards a diagonal covariance: a few hundred volumes for 64 columns
HEADROOM = 1.5  # times the farthest of the volumes that calibrate

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Outlying:
    """Middle and inverse covariance of the pooled features (D,) of training, and the distance beyond which a volume is said to be unlike them."""

    mean: Array  # (D,)
    precision: Array  # (D, D)
    limit: float

    @classmethod
    def fit(cls, rows: Array) -> Self:
        """From pooled features (n, D) of volumes that count as known; half of them place the middle, the other half the limit."""
        known, others = rows[::2], rows[1::2]
        mean = np.asarray(known.mean(axis=0), dtype=np.float64)
        covariance = np.cov(known, rowvar=False)
        shrunk = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(np.diag(covariance)) + 1e-9 * np.eye(len(mean))
        made = cls(mean, np.asarray(np.linalg.inv(shrunk), dtype=np.float64), 0.0)
        return cls(mean, made.precision, HEADROOM * max(made.distance(row) for row in others))

    def distance(self, row: Array) -> float:
        """Distance of one pooled feature row (D,)."""
        away = row - self.mean
        return float(np.sqrt(max(0.0, float(away @ self.precision @ away))))

    def save(self, folder: Path) -> None:
        """Write it beside the encoder's weights."""
        path = folder / FILE
        save_file({"mean": self.mean, "precision": self.precision, "limit": np.array([self.limit])}, path)
        path.chmod(0o644)  # safetensors writes 0600; the package is for every user

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """That of a folder; None where it has none."""
        path = folder / FILE
        if not path.is_file():
            return None
        arrays = load_file(path)
        return cls(arrays["mean"], arrays["precision"], float(arrays["limit"][0]))
