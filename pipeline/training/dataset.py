"""The language model's data set: what the trained encoder sees of phantoms, as shards that a second run continues."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from pipeline.encoder.compact import CompactEncoder
from pipeline.imaging.canonical import Canonical
from pipeline.imaging.volume import Acquisition
from pipeline.model import Features
from pipeline.training.examples import example, looks
from pipeline.training.phantom import Truth
from pipeline.training.progress import Bar
from pipeline.training.ranks import run_ranks
from pipeline.training.shards import Views, read_shards, write_shard

FIRST_SEED = 50_000_000
SHARD = 128
MIDLINE_MM = 3.0
CROWDED_EVERY = 4  # phantoms: sizes and numbers of lesions that few patients have, and the model must write all the same


def seen(encoder: CompactEncoder, seed: int) -> tuple[Features, Truth]:
    """Features and truth of one phantom, rendered on the canonical grid with the centring error of real segmentation."""
    one = example(seed, crowded=seed % CROWDED_EVERY == 0)
    truth = one.phantom.truth
    chest = Canonical(one.hu.astype(np.float32), one.shift_mm, float(np.random.default_rng([seed, 2]).normal(0, MIDLINE_MM)))
    taken = Acquisition(truth.kvp, float(round(truth.mas)), truth.kernel, truth.thickness_mm, contrast=truth.contrast)
    return encoder.encode_canonical(chest, taken, lambda points: looks(one.phantom, points), lambda _: None), truth


def write_dataset(folder: Path, encoder_dir: Path, *, phantoms: int, budget_s: float, seed: int, world: int = 2) -> int:
    """Write shards in `world` processes until there are `phantoms` or `budget_s` processor seconds of each are spent; returns how many phantoms the
    folder holds.

    Shards that are there are kept. At least one is written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run_ranks(_write_rank, world, folder, encoder_dir, -(-phantoms // SHARD), budget_s, seed, world)
    return SHARD * len(list(folder.glob("shard-*.json")))


def read_dataset(folder: Path) -> Views:
    """All shards in the order of their numbers. Raises BadInput when there is none."""
    return read_shards(folder)


def _write_rank(rank: int, folder: Path, encoder_dir: Path, shards: int, budget_s: float, seed: int, world: int) -> None:
    encoder = CompactEncoder.load(encoder_dir)
    began = time.process_time()
    missing = [number for number in range(rank, shards, world) if not (folder / f"shard-{number:04d}.json").exists()]
    with Bar("features", shown=rank == 0) as bar:
        for count, number in enumerate(missing):
            spent_s = time.process_time() - began
            if count and spent_s >= budget_s:
                break
            bar.update(count / len(missing), f"{count * SHARD * world} phantoms in {spent_s:.0f} s")
            _write_one(encoder, folder, number, FIRST_SEED + seed * 1_000_000 + number * SHARD)


def _write_one(encoder: CompactEncoder, folder: Path, number: int, first: int) -> None:
    """One shard, under its name only when it is whole: the .json comes last."""
    part = folder / "part" / f"shard-{number:04d}"
    write_shard(part, _views([seen(encoder, seed) for seed in range(first, first + SHARD)]))
    for suffix in (".npz", ".json"):
        part.with_suffix(suffix).replace(folder / f"{part.name}{suffix}")


def _views(pairs: list[tuple[Features, Truth]]) -> Views:
    return Views(
        features=np.stack([features.array for features, _ in pairs]),
        truths=tuple(truth for _, truth in pairs),
        candidates=tuple(features.candidates for features, _ in pairs),
    )
