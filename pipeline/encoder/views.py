"""What a published encoder is shown: pictures of whole slices or of regions, and where a region lies in its picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pipeline.imaging.keyslices import in_slice
from pipeline.imaging.volume import Volume
from pipeline.imaging.windows import BONE, LUNG, MEDIASTINUM
from pipeline.model import Side

if TYPE_CHECKING:
    from pipeline.encoder.prepare import Prepared

Channels = Literal["windows", "neighbours"]
WINDOWS = (LUNG, MEDIASTINUM, BONE)
ROI_CONTEXT = 2.0  # a region's box is this many times as wide as the region …
ROI_MIN_MM = 40.0  # … and at least this wide
LUNG_MARGIN_MM = 10.0  # around the lungs of a slice


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle in a slice, as edges in voxels: voxel i covers i − 0.5 … i + 0.5."""

    top: float
    left: float
    bottom: float
    right: float


@dataclass(frozen=True, slots=True)
class View:
    """One slice of the upright volume and the part of it that matters; `side` is None for both lungs."""

    z: int
    box: Box
    side: Side | None


def whole_slices(study: Prepared) -> tuple[View, ...]:
    """The key slices, each as a whole."""
    _, height, width = study.volume.hu.shape
    return tuple(View(z, Box(-0.5, -0.5, height - 0.5, width - 0.5), None) for z in study.key_slices)


def region_views(study: Prepared, count: int) -> tuple[View, ...]:
    """Always `count` views: a square around each candidate region, best first, then the lungs of evenly chosen key slices where there are fewer."""
    found = [_around(study, region.center_mm, max(region.size_mm[:2])) for region in study.regions[:count]]
    return (*found, *(_lungs_of_slice(study, z) for z in _evenly(study.key_slices, count - len(found))))


def view_pictures(volume: Volume, views: Sequence[View], channels: Channels, size: int, *, cropped: bool) -> Tensor:
    """Views as pixels of 0 … 1: (n, 3, size, size) of their boxes, or (n, 3, h, w) of their slices with the longer side of `size` pixels."""
    _, height, width = volume.hu.shape
    shape = fitted(height, width, (volume.spacing_mm[1], volume.spacing_mm[2]), size)
    made = []
    for view in views:  # one slice at a time: a whole volume of full-size pictures would fill the memory
        pixels = pictures(volume, [view.z], channels)  # (1, 3, Y, X)
        made.append(crops(pixels, [view.box], size) if cropped else resized(pixels, shape))
    return torch.cat(made)


def pictures(volume: Volume, slices: Sequence[int], channels: Channels) -> Tensor:
    """Slices z (n,) of a volume as pixels (n, 3, Y, X) of 0 … 1: 肺窗, 纵隔窗 and 骨窗 of one slice, or 肺窗 of a slice and its neighbours."""
    if channels == "windows":
        stacked = [np.stack([window.apply(volume.hu[z].astype(np.float32)) for window in WINDOWS]) for z in slices]
    else:
        last = len(volume.hu) - 1
        stacked = [np.stack([LUNG.apply(volume.hu[min(max(z + step, 0), last)].astype(np.float32)) for step in (-1, 0, 1)]) for z in slices]
    return torch.from_numpy(np.stack(stacked))


def fitted(height: int, width: int, spacing_mm: tuple[float, float], size: int) -> tuple[int, int]:
    """Rows and columns that a slice takes in a square of `size` pixels: the longer side in mm fills it, the shape stays true."""
    tall, wide = height * spacing_mm[0], width * spacing_mm[1]
    longest = max(tall, wide)
    return max(1, round(size * tall / longest)), max(1, round(size * wide / longest))


def resized(pixels: Tensor, shape: tuple[int, int]) -> Tensor:
    """(n, 3, Y, X) → (n, 3, rows, columns); bilinear, and smoothed where it gets smaller, as PIL does it."""
    return F.interpolate(pixels, shape, mode="bilinear", align_corners=False, antialias=True)


def crops(pixels: Tensor, boxes: list[Box], size: int) -> Tensor:
    """The boxes of pictures (n, 3, Y, X), one each, as (n, 3, size, size) by linear interpolation; black beyond the slice."""
    return sampled(pixels, boxes, (size, size), beyond="zeros")


def sampled(maps: Tensor, boxes: list[Box], shape: tuple[int, int], beyond: Literal["zeros", "border"] = "border") -> Tensor:
    """Maps (n, C, Y, X) at the centres of `shape` equal cells in one box each → (n, C, *shape); linear between cells."""
    _, _, height, width = maps.shape
    axes = [(_axis(box.top, box.bottom, shape[0], height), _axis(box.left, box.right, shape[1], width)) for box in boxes]
    grid = torch.stack([torch.stack(torch.meshgrid(*both, indexing="ij")) for both in axes]).flip(1).movedim(1, -1)  # (n, rows, columns, 2): x, y
    return F.grid_sample(maps, grid.to(maps), mode="bilinear", padding_mode=beyond, align_corners=False)


def scaled(box: Box, shape: tuple[float, float], to: tuple[float, float]) -> Box:
    """A box of a grid of `shape` cells on a grid of `to` cells over the same area."""
    down, across = to[0] / shape[0], to[1] / shape[1]
    return Box((box.top + 0.5) * down - 0.5, (box.left + 0.5) * across - 0.5, (box.bottom + 0.5) * down - 0.5, (box.right + 0.5) * across - 0.5)


def _axis(low: float, high: float, cells: int, length: int) -> Tensor:
    """Centres of `cells` equal cells between two edges (in voxels), in grid_sample's −1 … 1 with align_corners False."""
    centres = low + (torch.arange(cells, dtype=torch.float64) + 0.5) * (high - low) / cells
    return (2 * centres + 1) / length - 1


def _around(study: Prepared, center_mm: tuple[float, float, float], size_mm: float) -> View:
    """A square in mm around a point (LPS), on the slice nearest to it."""
    volume = study.volume
    index = volume.to_index(np.asarray(center_mm, dtype=np.float64))
    z = int(np.clip(round(float(index[0])), 0, len(volume.hu) - 1))
    half_mm = max(ROI_CONTEXT * size_mm, ROI_MIN_MM) / 2
    down, across = half_mm / volume.spacing_mm[1], half_mm / volume.spacing_mm[2]
    y, x = float(index[1]), float(index[2])
    return View(z, Box(y - down, x - across, y + down, x + across), study.lungs.side_of(center_mm))


def _lungs_of_slice(study: Prepared, z: int) -> View:
    """The box around both lungs on one slice; around all of the lungs where the slice shows none."""
    lungs, volume = study.lungs, study.volume
    (x0, y0, _), (x1, y1, _) = lungs.box_mm
    level_mm = float(in_slice(volume, z, np.array([(y0 + y1) / 2]), np.array([(x0 + x1) / 2]))[0, 0, 2])  # a slice may lean
    layer = round((level_mm - lungs.low_mm[2]) / lungs.step_mm[0])
    inside = 0 <= layer < len(lungs.mask) and bool(lungs.mask[layer].any())
    seen = np.asarray(lungs.mask[layer] if inside else lungs.mask.any(axis=0), dtype=bool)  # (Y, X)
    rows, columns = np.flatnonzero(seen.any(axis=1)), np.flatnonzero(seen.any(axis=0))
    y = lungs.low_mm[1] + np.array([rows[0] - 0.5, rows[-1] + 0.5]) * lungs.step_mm[1] + np.array([-LUNG_MARGIN_MM, LUNG_MARGIN_MM])
    x = lungs.low_mm[0] + np.array([columns[0] - 0.5, columns[-1] + 0.5]) * lungs.step_mm[2] + np.array([-LUNG_MARGIN_MM, LUNG_MARGIN_MM])
    corners = volume.to_index(in_slice(volume, z, y, x)).reshape(4, 3)
    low, high = corners.min(axis=0), corners.max(axis=0)
    return View(z, Box(float(low[1]), float(low[2]), float(high[1]), float(high[2])), None)


def _evenly(slices: tuple[int, ...], count: int) -> list[int]:
    """`count` of the slices, spread evenly, the middle one first when it is a single one; some more than once where there are fewer."""
    if count <= 0:
        return []
    return [slices[int((place + 0.5) * len(slices) / count)] for place in range(count)]
