"""Denoising of low-dose volumes, slice by slice, where the noise asks for it. The volume that arrived stays as it is."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.imaging.noise import noise_hu
from pipeline.imaging.packaged import PACKAGED, fill
from pipeline.imaging.volume import AIR_HU, Acquisition, Volume

if TYPE_CHECKING:
    from pipeline.imaging.denoise_nets import ArticleNet, ResidualNet
    from pipeline.imaging.lungs import Lungs

ABOVE_HU = 25.0
FULL_DOSE_MAS = 80.0  # from here on, strong noise comes from a sharp kernel or thin slices, which a reader chose
FULL_DOSE_ALLOWANCE = 1.6
AT_ONCE = 4  # slices per forward pass: 512² fits the cache of a small machine
MOST_SIGMAS = 4.0  # no voxel is changed by more: metal, calcium and what the net has never seen stay
MARGIN_MM = 10.0  # above and below the lungs
PADDED = 5
HIGHEST_HU = 2000.0  # brighter voxels are shown to the net as this
FLAG = "图像噪声 {before:.0f} HU，已降噪后分析（降至 {after:.0f} HU）；微小及网格状病变请对照原始图像"

Array = NDArray[np.float32]


class Denoiser:
    """One set of weights in memory; the same volume gives the same values."""

    def __init__(self, net: ArticleNet | ResidualNet, card: dict[str, Any], above_hu: float) -> None:
        self._net = net
        self.above_hu = above_hu
        self.card = card
        self.version = str(card["sha256"])[:16]

    @classmethod
    def load(cls, folder: Path = PACKAGED, name: str = "denoiser", above_hu: float = ABOVE_HU) -> Self:
        """`denoiser`, or `denoiser_article` for comparison. Raises ModelMissing where the weights are absent or foreign."""
        import torch

        from pipeline.imaging.denoise_nets import NETS

        torch.set_num_threads(1)  # process-wide: sums in one order
        net: ArticleNet | ResidualNet = NETS[name]()
        return cls(net, fill(net, folder, name), above_hu)

    def needed(self, noise: float, acquisition: Acquisition) -> bool:
        """Whether noise of so many HU asks for denoising. At full dose (by mAs) the threshold is higher: there the kernel makes the noise."""
        full_dose = acquisition.mas is not None and acquisition.mas >= FULL_DOSE_MAS
        return noise > self.above_hu * (FULL_DOSE_ALLOWANCE if full_dose else 1.0)

    def apply(self, volume: Volume, lungs: Lungs | None = None) -> Volume:
        """A new volume with the same geometry and the same kind of numbers, less noisy, and a flag that says so.

        With `lungs` only the slices that show them are denoised. Padding stays padding.
        """
        before = noise_hu(volume)
        if before <= 0:
            return volume
        low, high = _lung_slices(volume, lungs)
        hu = volume.hu.copy()
        for first in range(low, high, AT_ONCE):
            wanted = range(first, min(first + AT_ONCE, high))
            hu[wanted.start : wanted.stop] = _as_kind(self._some(volume.hu, wanted, before), volume.hu.dtype)
        after = noise_hu(replace(volume, hu=hu[low:high]))
        return replace(volume, hu=hu, flags=(*volume.flags, FLAG.format(before=before, after=after)))

    def denoised(self, slices: NDArray[np.int16] | Array, noise: float) -> Array:
        """Slices (Z, Y, X) in HU whose noise is known → the same, less noisy, float32."""
        starts = range(0, len(slices), AT_ONCE)
        return np.concatenate([self._some(slices, range(first, min(first + AT_ONCE, len(slices))), noise) for first in starts])

    def _some(self, slices: NDArray[np.int16] | Array, wanted: range, noise: float) -> Array:
        """The wanted slices, denoised; (N, Y, X). At the ends a slice is its own neighbour."""
        import torch
        from torch.nn import functional as F

        around = np.clip(np.array(wanted)[:, None] + [-1, 0, 1], 0, len(slices) - 1)  # (N, 3)
        values = slices[around].astype(np.float32)  # (N, 3, Y, X)
        rows, columns = values.shape[2:]
        seen = torch.from_numpy(np.minimum(values, HIGHEST_HU) / 1000.0)
        padded = F.pad(seen, (0, columns % 2, 0, rows % 2), mode="replicate")
        with torch.inference_mode():
            made = self._net(padded, torch.full((len(wanted),), noise))[:, 0, :rows, :columns]  # (N, Y, X)
        change: Array = np.clip((made - seen[:, 1]).numpy() * 1000.0, -MOST_SIGMAS * noise, MOST_SIGMAS * noise)
        own = values[:, 1]
        return np.asarray(np.where(_padding(own), own, np.maximum(own + change, AIR_HU)), dtype=np.float32)


def _padding(slices: Array) -> NDArray[np.bool_]:
    """Where a square of PADDED voxels holds nothing but the lowest value: outside the field of view, not a speck of noise in emphysema."""
    lowest = slices <= AIR_HU
    if not lowest.any():
        return lowest
    return np.asarray(ndimage.binary_opening(lowest, np.ones((1, PADDED, PADDED), dtype=bool)))


def _as_kind(values: Array, kind: np.dtype[Any]) -> NDArray[Any]:
    return np.rint(values).astype(kind) if np.issubdtype(kind, np.integer) else values.astype(kind)


def _lung_slices(volume: Volume, lungs: Lungs | None) -> tuple[int, int]:
    """First and one past the last slice that shows lung; all of them where no lungs are given."""
    if lungs is None:
        return 0, len(volume.hu)
    corners = np.array(list(product(*zip(*lungs.box_mm, strict=True))))  # (8, 3): slices may lean
    along = (corners - np.asarray(volume.origin_mm)) @ volume.axes[0]  # mm from the first slice
    low = np.searchsorted(volume.along_mm, along.min() - MARGIN_MM)
    high = np.searchsorted(volume.along_mm, along.max() + MARGIN_MM, side="right")
    return int(low), int(max(high, low + 1))
