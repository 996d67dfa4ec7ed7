"""Held-out phantoms as an encoder would meet them: rendered at scanner resolution, plain or mirrored."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipeline.imaging.volume import AIR_HU, Acquisition, Volume
from pipeline.model import Features, Side
from pipeline.training.phantom import Lesion, Phantom, Truth, draw
from pipeline.training.phantom_dicom import SHAPE, SPACING_MM, phantom_uid
from pipeline.training.render import Grid, render

HELD_OUT = 900_000  # evaluation starts here; training seeds start at 10,000,000
OTHER = {Side.LEFT: Side.RIGHT, Side.RIGHT: Side.LEFT}


@dataclass(frozen=True)
class Case:
    """One phantom's truth beside what the encoder saw of it."""

    truth: Truth
    features: Features


def phantom_volume(seed: int) -> tuple[Volume, Truth]:
    """The volume that reading the DICOM files of this seed would give, and its truth."""
    phantom = draw(seed)
    grid = Grid.centered(SHAPE, SPACING_MM)
    hu = np.maximum(np.rint(render(phantom, grid)), AIR_HU).astype(np.float32)  # (Z, Y, X)
    return _volume(phantom, grid, hu), phantom.truth


def mirrored(volume: Volume, truth: Truth) -> tuple[Volume, Truth]:
    """The mirror image of a patient: left and right change places in the pixels and in the truth, x changes its sign."""
    lesions = tuple(_mirrored(lesion) for lesion in truth.lesions)
    effusion = frozenset(OTHER[side] for side in truth.effusion)
    return replace(volume, hu=np.ascontiguousarray(volume.hu.astype(np.float32)[:, :, ::-1])), replace(truth, lesions=lesions, effusion=effusion)


def _mirrored(lesion: Lesion) -> Lesion:
    x, y, z = lesion.center_mm
    return replace(lesion, side=OTHER[lesion.side], center_mm=(-x, y, z))


def _volume(phantom: Phantom, grid: Grid, hu: NDArray[np.float32]) -> Volume:
    truth = phantom.truth
    return Volume(
        hu=hu,
        spacing_mm=SPACING_MM,
        along_mm=SPACING_MM[0] * np.arange(len(hu), dtype=np.float64),
        origin_mm=(float(grid.x_mm[0]), float(grid.y_mm[0]), float(grid.z_mm[0])),
        axes=np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]),
        sop_uids=tuple(phantom_uid(truth.seed, "axial", len(hu) - index) for index in range(len(hu))),
        acquisition=Acquisition(truth.kvp, float(round(truth.mas)), truth.kernel, SPACING_MM[0]),
    )
