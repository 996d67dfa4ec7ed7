"""How sure the encoder must be of a lesion before it tells it: chosen after training, kept beside the weights."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILE = "threshold.json"
USUAL = 0.9  # of weights that come without the file
LOWEST, HIGHEST = 0.5, 0.99
INVENTED_SHARE = 0.035  # of volumes with an invented lesion that are put up with


def chosen(invented: NDArray[np.float64]) -> float:
    """The lowest threshold at which at most INVENTED_SHARE of volumes have an invented lesion, from the surest invented one of each (n,), 0 where a
    volume has none."""
    edge = float(np.quantile(invented, 1 - INVENTED_SHARE, method="higher"))
    return min(HIGHEST, max(LOWEST, (math.floor(edge * 1000) + 1) / 1000))


def save(folder: Path, told_at: float, volumes: int) -> None:
    """Write it beside the encoder's weights."""
    (folder / FILE).write_text(json.dumps({"told_at": told_at, "volumes": volumes, "invented_share": INVENTED_SHARE}) + "\n", encoding="utf-8")


def load(folder: Path) -> float:
    """That of a folder, 0…1."""
    path = folder / FILE
    return float(json.loads(path.read_text(encoding="utf-8"))["told_at"]) if path.is_file() else USUAL
