"""What counts as known to the encoder, and how sure it must be: measured on phantoms that come the whole way from scanner resolution."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pipeline.encoder import threshold
from pipeline.encoder.compact import CompactEncoder
from pipeline.encoder.outlying import FILE, Outlying
from pipeline.encoder.prepare import preparing
from pipeline.evaluation.cases import phantom_volume
from pipeline.evaluation.encoding import lean
from pipeline.imaging.canonical import canonical
from pipeline.model import Candidate
from pipeline.settings import ImagingSettings
from pipeline.training.phantom import Truth
from pipeline.training.progress import Bar
from pipeline.training.ranks import run_ranks
from pipeline.training.scanners import HELD_OUT, TRAINED
from pipeline.training.scene import match, there_is

FIRST_SEED = 70_000_000
VOLUMES = 400


def calibrate(work_dir: Path, encoder_dir: Path, *, seed: int, volumes: int = VOLUMES, world: int = 2) -> Outlying:
    """Fit the distance on `volumes` phantoms of both kinds of scanners, and choose on those of training scanners how sure a lesion must be to be
    told; both are written beside the encoder's weights."""
    (encoder_dir / FILE).unlink(missing_ok=True)
    run_ranks(_pool_rank, world, work_dir, encoder_dir, FIRST_SEED + seed * 1_000_000, volumes, world)
    parts = [np.load(_part(work_dir, rank)) for rank in range(world)]
    invented = np.concatenate([part["invented"] for part in parts])
    threshold.save(encoder_dir, threshold.chosen(invented), len(invented))
    found = Outlying.fit(np.concatenate([part["pooled"] for part in parts]))
    found.save(encoder_dir)
    return found


def _pool_rank(rank: int, work_dir: Path, encoder_dir: Path, first: int, volumes: int, world: int) -> None:
    encoder, how = CompactEncoder.load(encoder_dir, threshold.LOWEST), preparing(ImagingSettings())
    rows, invented = [], []
    with Bar("known volumes", shown=rank == 0) as bar:
        for number in range(rank, volumes, world):
            trained = number // world % 2 == 0
            volume, truth = phantom_volume(first + number, TRAINED if trained else HELD_OUT)
            study = lean(volume, how)
            rows.append(encoder.pooled(canonical(study.volume, study.lungs)))
            if trained:
                invented.append(surest_invented(encoder.encode_prepared([study])[0].candidates, truth))
            bar.update(number / volumes, f"{number} of {volumes}")
    np.savez(_part(work_dir, rank), pooled=np.stack(rows), invented=np.array(invented))


def surest_invented(candidates: Sequence[Candidate], truth: Truth) -> float:
    """The highest score of a proposal in the lungs that is nothing true; 0 where there is none."""
    lungs = [one for one in candidates if one.lobe is not None]
    real = match(lungs, there_is(truth))
    return max((one.score for one in lungs if one.index not in real), default=0.0)


def _part(work_dir: Path, rank: int) -> Path:
    return work_dir / f"known-{rank}.npz"
