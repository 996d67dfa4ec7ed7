"""The language model's data set: what the trained encoder sees of phantoms, as shards that a second run continues."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from pipeline.encoder.compact import CompactEncoder
from pipeline.imaging.canonical import Canonical
from pipeline.imaging.volume import Acquisition
from pipeline.model import Features
from pipeline.training.phantom import Truth
from pipeline.training.shards import Views, write_shard
from pipeline.training.vision import coarse

FIRST_SEED = 50_000_000
SHARD = 256
MIDLINE_MM = 3.0
THICKNESS_MM = 5.0


def seen(encoder: CompactEncoder, seed: int) -> tuple[Features, Truth]:
    """Features and truth of one phantom, rendered on the canonical grid with the centring error of real segmentation."""
    phantom, hu, center = coarse(seed)
    truth = phantom.truth
    chest = Canonical(hu, center, float(np.random.default_rng([seed, 2]).normal(0, MIDLINE_MM)))
    return encoder.encode_canonical(chest, Acquisition(truth.kvp, float(round(truth.mas)), truth.kernel, THICKNESS_MM), lambda _: None), truth


def write_dataset(folder: Path, encoder: CompactEncoder, *, budget_s: float, seed: int) -> int:
    """Write shards until `budget_s` seconds are spent; returns how many phantoms the folder holds. Shards that are there are kept."""
    torch.set_num_threads(1)
    began = time.monotonic()
    with Progress(TextColumn("features"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()) as bar:
        task = bar.add_task("features", total=None)
        for number in _missing(folder):
            first = FIRST_SEED + seed * 1_000_000 + number * SHARD
            pairs = []
            for one in range(first, first + SHARD):
                pairs.append(seen(encoder, one))
                bar.advance(task)
            write_shard(folder / f"shard-{number:04d}", _views(pairs))
            if time.monotonic() - began >= budget_s:
                break
    return SHARD * len(list(folder.glob("shard-*.npz")))


def _missing(folder: Path) -> Iterator[int]:
    """Numbers of the shards that are not there yet, without end."""
    number = 0
    while True:
        if not (folder / f"shard-{number:04d}.json").exists():
            yield number
        number += 1


def _views(pairs: list[tuple[Features, Truth]]) -> Views:
    return Views(
        features=np.stack([features.array for features, _ in pairs]),
        truths=tuple(truth for _, truth in pairs),
        candidates=tuple(features.candidates for features, _ in pairs),
    )
