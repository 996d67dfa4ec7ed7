"""Phantoms as the encoder's networks are shown them: rendered on the canonical grid, with close looks rendered where they are asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor

from pipeline.encoder.looks import fine_offsets
from pipeline.encoder.net import KINDS, SPREAD, voxels_to_cells
from pipeline.imaging.canonical import SHAPE, SOFTEN, SPACING_MM
from pipeline.imaging.grid import softened_rows
from pipeline.model import Side
from pipeline.training.phantom import Lesion, Phantom, Truth, draw
from pipeline.training.render import Grid, render

LUNGS_Z_MM = 30.5  # the middle of the air in the lungs, where canonical grids are centred, lies this far above a phantom's origin
JITTER_MM = (6.0, 9.0, 10.0)  # x, y, z
NOISE_LEFT = (0.5, 1.4)  # of a scan's noise, on the canonical grid and in close looks
Points = NDArray[np.float64]  # (P, 3) x, y, z in mm


@dataclass(frozen=True, slots=True)
class Target:
    """Something that has a centre: what it is (index into KINDS), where and how large; `lesion` where it lies in a lung."""

    kind: int
    center_mm: tuple[float, float, float]
    size_mm: float
    lesion: Lesion | None = None


@dataclass(frozen=True)
class Example:
    """One phantom on the canonical grid. `mirrored`: the network is shown it as in a mirror, while places stay the patient's own."""

    phantom: Phantom
    hu: NDArray[np.int16]  # (56, 144, 192), the patient's own
    shift_mm: tuple[float, float, float]  # the grid's middle in phantom coordinates, x, y, z
    mirrored: bool = False

    @property
    def targets(self) -> tuple[Target, ...]:
        """What there is to be found."""
        return targets_of(self.phantom.truth)

    def shown(self) -> NDArray[np.float32]:
        """HU (56, 72, 96) as the network sees it."""
        return (self.hu[:, :, ::-1] if self.mirrored else self.hu).astype(np.float32)

    def points(self, voxels: Tensor) -> Points:
        """Voxels (P, 3) z, y, x as shown → the patient's coordinates (P, 3) x, y, z in mm."""
        own = voxels.double().numpy().copy()
        if self.mirrored:
            own[:, 2] = SHAPE[2] - 1 - own[:, 2]
        offsets = (own - (np.array(SHAPE) - 1) / 2) * np.array(SPACING_MM)  # z, y, x
        return np.asarray(offsets[:, ::-1] + np.array(self.shift_mm), dtype=np.float64)

    def voxels(self, points: Points) -> Tensor:
        """The way back."""
        own = (points - np.array(self.shift_mm))[:, ::-1] / np.array(SPACING_MM) + (np.array(SHAPE) - 1) / 2
        if self.mirrored:
            own[:, 2] = SHAPE[2] - 1 - own[:, 2]
        return torch.from_numpy(np.ascontiguousarray(own)).float()

    def looks(self, points: Points) -> NDArray[np.float32]:
        """Close looks (P, 11, 32, 32) at points of the patient, as shown."""
        own = looks(self.phantom, points)
        return np.ascontiguousarray(own[:, :, :, ::-1]) if self.mirrored else own

    def spread(self) -> Tensor:
        """(3, 2): effusion, emphysema, fibrosis of the halves as shown, lower x first."""
        truth = self.phantom.truth
        sides = (Side.LEFT, Side.RIGHT) if self.mirrored else (Side.RIGHT, Side.LEFT)
        return torch.tensor([[float(side in getattr(truth, name)) for side in sides] for name in SPREAD])


def targets_of(truth: Truth) -> tuple[Target, ...]:
    """Lesions of lungs, nodes and liver in one list."""
    lungs = [Target(KINDS.index(one.kind), one.center_mm, one.size_mm, one) for one in truth.lesions]
    nodes = [Target(KINDS.index("淋巴结"), one.center_mm, one.size_mm) for one in truth.nodes]
    return (*lungs, *nodes, *(Target(KINDS.index(one.kind), one.center_mm, one.size_mm) for one in truth.liver))


def example(seed: int, crowded: bool = False) -> Example:
    """The phantom of a seed on the canonical grid, shifted at random as centring on real lungs would: scanned in slices of its scan's thickness,
    which are interpolated as those of files are, with about as much noise as denoising leaves."""
    rng = np.random.default_rng([seed, 1])
    shift = rng.uniform(-1.0, 1.0, 3) * np.array(JITTER_MM) + np.array([0.0, 0.0, LUNGS_Z_MM])
    base = Grid.centered(SHAPE, SPACING_MM)
    x, y, z = ((axis + np.float32(s)).astype(np.float32) for axis, s in zip((base.x_mm, base.y_mm, base.z_mm), shift, strict=True))
    drawn = draw(seed, crowded=crowded)
    phantom = replace(drawn, noise_hu=drawn.noise_hu * float(rng.uniform(*NOISE_LEFT)))
    slices = _slices_mm(z, drawn.scan.spacing_mm[0], float(rng.random()))
    scanned = render(phantom, Grid(x, y, slices))  # (S, 144, 192)
    between = softened_rows(SOFTEN)(slices.astype(np.float64), z.astype(np.float64)) @ scanned.reshape(len(slices), -1)
    soft = float(rng.uniform(0.0, 0.5))
    hu = ndimage.gaussian_filter(between.reshape(SHAPE), (0.0, soft, soft))
    return Example(phantom, np.clip(np.rint(hu), -1024, 3071).astype(np.int16), (float(shift[0]), float(shift[1]), float(shift[2])))


def _slices_mm(z_mm: NDArray[np.float32], step_mm: float, phase: float) -> NDArray[np.float32]:
    """Where slices lie, so that all of `z_mm` lies between some of them."""
    count = int(np.ceil((float(z_mm[-1]) - float(z_mm[0])) / step_mm)) + 3
    return (float(z_mm[0]) + (np.arange(count) - 1 - phase) * step_mm).astype(np.float32)


def looks(phantom: Phantom, points: Points) -> NDArray[np.float32]:
    """Close looks (P, 11, 32, 32): each rendered at the scan's resolution, then interpolated as `encoder.looks` does from files."""
    return np.stack([_look(phantom, point) for point in points])


def _look(phantom: Phantom, point: NDArray[np.float64]) -> NDArray[np.float32]:
    """Of the scan's own voxels: a point lies anywhere between slices."""
    axes, places = [], []
    for offsets, step, count, at in zip(fine_offsets(), phantom.scan.spacing_mm, phantom.scan.shape, point[::-1], strict=True):
        reach = int(np.ceil(-offsets[0] / step)) + 1
        nearest = round(float(at) / step + (count - 1) / 2)
        own = (np.arange(nearest - reach, nearest + reach + 1) - (count - 1) / 2) * step
        axes.append(own.astype(np.float32))
        places.append((at + offsets - own[0]) / step)
    hu = render(phantom, Grid(axes[2], axes[1], axes[0]))
    where = np.stack(np.meshgrid(*places, indexing="ij"))  # (3, 11, 32, 32)
    return np.asarray(ndimage.map_coordinates(hu, where, order=1, mode="nearest"), dtype=np.float32)


def cells_of(one: Example, target: Target) -> Tensor:
    """Centre of a target in heat-map cells (3,) z, y, x."""
    return voxels_to_cells(one.voxels(np.array([target.center_mm])))[0]
