"""Held-out phantoms as an encoder would meet them: other seeds and other scanners than those of training, rendered at scanner resolution."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from pipeline.imaging.volume import AIR_HU, Acquisition, Volume
from pipeline.model import Side
from pipeline.training import scanners
from pipeline.training.phantom import Phantom, Truth, draw
from pipeline.training.phantom_dicom import TURNS, phantom_uid
from pipeline.training.render import Grid, grid_of, render
from pipeline.training.scanners import Scanners
from pipeline.training.truth import Point

HELD_OUT = 900_000  # evaluation starts here; training seeds start at 10,000,000
OTHER = {Side.LEFT: Side.RIGHT, Side.RIGHT: Side.LEFT}


def drawn(seed: int) -> Phantom:
    """The phantom of a seed on a scanner that training never saw."""
    return draw(seed, scanners.HELD_OUT)


def phantom_volume(seed: int, of: Scanners = scanners.HELD_OUT) -> tuple[Volume, Truth]:
    """The volume that reading the DICOM files of this seed's scan would give, and its truth."""
    phantom = draw(seed, of)
    return volume_of(phantom), phantom.truth


def volume_of(phantom: Phantom) -> Volume:
    """A phantom's scan as it is read from files: whole HU."""
    grid = grid_of(phantom.scan)
    return _volume(phantom, grid, stored_hu(render(phantom, grid)))


def stored_hu(hu: NDArray[np.float32]) -> NDArray[np.float32]:
    """What DICOM keeps of HU: whole values from that of air on."""
    return np.maximum(np.rint(hu), AIR_HU).astype(np.float32)


def mirrored(volume: Volume, truth: Truth) -> tuple[Volume, Truth]:
    """The mirror image of a patient: left and right change places in the pixels and in the truth, x changes its sign."""
    flipped = replace(
        truth,
        lesions=tuple(replace(one, side=OTHER[one.side], center_mm=_flipped(one.center_mm)) for one in truth.lesions),
        nodes=tuple(replace(one, center_mm=_flipped(one.center_mm)) for one in truth.nodes),
        liver=tuple(replace(one, center_mm=_flipped(one.center_mm)) for one in truth.liver),
        effusion=frozenset(OTHER[side] for side in truth.effusion),
        emphysema=frozenset(OTHER[side] for side in truth.emphysema),
        fibrosis=frozenset(OTHER[side] for side in truth.fibrosis),
    )
    return replace(volume, hu=np.ascontiguousarray(volume.hu.astype(np.float32)[:, :, ::-1])), flipped


def _flipped(center: Point) -> Point:
    x, y, z = center
    return -x, y, z


def _volume(phantom: Phantom, grid: Grid, hu: NDArray[np.float32]) -> Volume:
    """The volume on its own axes, as the patient lies on the table."""
    truth, spacing_mm = phantom.truth, phantom.scan.spacing_mm
    x, y = TURNS[phantom.scan.position]
    z = x * y  # a slice's normal: row × column
    uids = [phantom_uid(truth.seed, "axial", len(hu) - index) for index in range(len(hu))]
    return Volume(
        hu=np.ascontiguousarray(hu[::z, ::y, ::x]),
        spacing_mm=spacing_mm,
        along_mm=spacing_mm[0] * np.arange(len(hu), dtype=np.float64),
        origin_mm=(float(grid.x_mm[::x][0]), float(grid.y_mm[::y][0]), float(grid.z_mm[::z][0])),
        axes=np.array([[0.0, 0.0, z], [0.0, y, 0.0], [x, 0.0, 0.0]]),
        sop_uids=tuple(uids[::z]),
        acquisition=Acquisition(truth.kvp, float(round(truth.mas)), truth.kernel, spacing_mm[0], sex="O", contrast=truth.contrast or None),
    )
