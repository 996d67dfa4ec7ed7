"""Encoder features with their truths, as files: `NAME.npz` with `features` (n, N, D) beside `NAME.json` with n rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import BadInput
from pipeline.model import Candidate, Side
from pipeline.training.phantom import Truth


@dataclass(frozen=True)
class Views:
    """What the encoder saw of n phantoms: `features` (n, N, D), and of each its truth and the encoder's proposals."""

    features: NDArray[np.float32]
    truths: tuple[Truth, ...]
    candidates: tuple[tuple[Candidate, ...], ...]

    def __len__(self) -> int:
        return len(self.truths)


def write_shard(path: Path, views: Views) -> None:
    """Write `path` (a name without suffix) as .npz and .json; float16 is enough for features."""
    rows = [
        {"truth": truth.to_json(), "candidates": [asdict(candidate) for candidate in candidates]}
        for truth, candidates in zip(views.truths, views.candidates, strict=True)
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path.with_suffix(".npz"), features=views.features.astype(np.float16))
    path.with_suffix(".json").write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")


def read_shards(folder: Path) -> Views:
    """All shards of a folder in the order of their names; BadInput when there is none or a pair does not fit."""
    features, truths, candidates = [], [], []
    for path in sorted(folder.glob("*.npz")):
        with np.load(path, allow_pickle=False) as arrays:
            array = arrays["features"].astype(np.float32)  # (n, N, D)
        rows = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        if len(rows) != len(array):
            raise BadInput(f"shard '{path.stem}' has {len(array)} features and {len(rows)} truths; encode the data set again")
        features.append(array)
        truths += [Truth.from_json(row["truth"]) for row in rows]
        candidates += [tuple(_candidate(raw) for raw in row["candidates"]) for row in rows]
    if not truths:
        raise BadInput(f"no shard (*.npz) in '{folder.name}'; encode a data set first")
    return Views(np.concatenate(features), tuple(truths), tuple(candidates))


def _candidate(raw: Mapping[str, Any]) -> Candidate:
    return Candidate(**dict(raw) | {"side": Side(raw["side"]), "center_mm": tuple(raw["center_mm"])})
