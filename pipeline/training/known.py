"""What counts as known to the encoder: how phantoms look to it when they come the whole way from scanner resolution."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipeline.encoder.compact import CompactEncoder
from pipeline.encoder.outlying import FILE, Outlying
from pipeline.encoder.prepare import preparing
from pipeline.evaluation.cases import phantom_volume
from pipeline.evaluation.encoding import lean
from pipeline.imaging.canonical import canonical
from pipeline.settings import ImagingSettings
from pipeline.training.progress import Bar
from pipeline.training.ranks import run_ranks
from pipeline.training.scanners import HELD_OUT, TRAINED

FIRST_SEED = 70_000_000
VOLUMES = 192


def calibrate(work_dir: Path, encoder_dir: Path, *, seed: int, volumes: int = VOLUMES, world: int = 2) -> Outlying:
    """Fit the distance on `volumes` phantoms of both kinds of scanners and write it beside the encoder's weights."""
    (encoder_dir / FILE).unlink(missing_ok=True)
    run_ranks(_pool_rank, world, work_dir, encoder_dir, FIRST_SEED + seed * 1_000_000, volumes, world)
    rows = np.concatenate([np.load(_part(work_dir, rank)) for rank in range(world)])
    found = Outlying.fit(rows)
    found.save(encoder_dir)
    return found


def _pool_rank(rank: int, work_dir: Path, encoder_dir: Path, first: int, volumes: int, world: int) -> None:
    encoder, how = CompactEncoder.load(encoder_dir), preparing(ImagingSettings())
    rows = []
    with Bar("known volumes", shown=rank == 0) as bar:
        for number in range(rank, volumes, world):
            volume, _ = phantom_volume(first + number, HELD_OUT if number // world % 2 else TRAINED)
            study = lean(volume, how)
            rows.append(encoder.pooled(canonical(study.volume, study.lungs)))
            bar.update(number / volumes, f"{number} of {volumes}")
    np.save(_part(work_dir, rank), np.stack(rows))


def _part(work_dir: Path, rank: int) -> Path:
    return work_dir / f"known-{rank}.npy"
