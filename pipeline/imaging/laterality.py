"""Left and right, checked a second time: geometry says which lung is which, a small classifier looks whether heart, aorta and liver agree.

Geometry stays the truth. A disagreement (mirrored pixels, a header that lies, situs inversus) is a flag for the reader; a doubt is nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from pipeline.imaging.packaged import PACKAGED, fill
from pipeline.imaging.volume import Volume
from pipeline.imaging.windows import LUNG

if TYPE_CHECKING:
    from torch import nn

    from pipeline.imaging.lungs import Lungs

NAME = "side"
WIDTH = 16  # of the first stage; ResNet-18 has 64. So 0.7 million parameters, 1.4 MB in half precision
PIXELS, STEP_MM = 96, 3.75
SLICES = 12
BETWEEN = (0.08, 0.85)  # share of the lungs' height, from below, that is looked at: apices look alike
SMALLEST_MM2 = 1200.0  # of each lung in a slice that is asked
WEIGHT = 2.0  # a volume's logit for one logit of its mean slice: slices hang together, so far less than their number
AGREES_ABOVE, DISAGREES_BELOW = 0.85, 0.1
FLAG = (
    "影像解剖（心脏、主动脉、肝脏）与坐标所示左右不一致（一致概率 {share:.0%}），请核对图像是否镜像、体位登记是否有误或内脏反位；左右侧别须人工确认"
)

Array = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SideAnswer:
    """Whether anatomy agrees with geometry; None where it cannot be told. `probability` of agreement; `reason` is for the reader, "" where all is
    well."""

    agrees: bool | None
    probability: float
    reason: str


class SideCheck:
    """One set of weights in memory; the same volume gives the same answer."""

    def __init__(self, net: nn.Module, card: dict[str, Any]) -> None:
        self._net = net
        self.card = card
        self.version = str(card["sha256"])[:16]

    @classmethod
    def load(cls, folder: Path = PACKAGED) -> Self:
        """Raises ModelMissing where the weights are absent or foreign."""
        import torch

        torch.set_num_threads(1)  # process-wide: sums in one order
        net = side_net()
        return cls(net, fill(net, folder, NAME))

    def check(self, volume: Volume, lungs: Lungs) -> SideAnswer:
        """Ask slices that show both lungs; the mean of their logits decides."""
        images, right, left = slices(volume, lungs)
        if len(images) == 0:
            return SideAnswer(None, 0.5, "无同时显示双肺的层面，未能核对左右")
        return decided(self.margins(images, right, left))

    def margins(self, images: Array, right: Mask, left: Mask) -> NDArray[np.float64]:
        """Per slice the logit that the lung called right is the right one, 0 where the slice does not tell; (N, PIXELS, PIXELS) each → (N,).

        Both lungs are shown in turn, and mirrored too: where the lung lies in the picture must not matter.
        """
        import torch

        shown = LUNG.apply(images)  # (N, Y, X)
        asked = [np.stack([picture, mask], axis=1) for picture, mask in ((shown, right), (shown, left))]  # (N, 2, Y, X) each
        turned = [pair[..., ::-1] for pair in asked]
        pixels = torch.from_numpy(np.ascontiguousarray(np.concatenate([*asked, *turned]), dtype=np.float32))  # (4N, 2, Y, X)
        with torch.inference_mode():
            logits = self._net(pixel_values=pixels).logits.double().numpy()  # (4N, 2): right, left
        margin = (logits[:, 0] - logits[:, 1]).reshape(4, -1) * np.array([1, -1, 1, -1])[:, None]
        return np.asarray(margin.mean(axis=0), dtype=np.float64)


def side_net() -> nn.Module:
    """ResNet-18 (He et al. 2016: basic blocks, two in each of four stages) at a quarter of its width, without weights: (B, 2, Y, X) picture and mask
    → two logits (transformers' default count), right and left."""
    from transformers import ResNetConfig, ResNetForImageClassification

    widths = [WIDTH * 2**stage for stage in range(4)]
    config = ResNetConfig(num_channels=2, embedding_size=WIDTH, hidden_sizes=widths, depths=[2, 2, 2, 2], layer_type="basic")
    net: nn.Module = ResNetForImageClassification(config)
    return net


def decided(margins: NDArray[np.float64]) -> SideAnswer:
    """The answer of a volume whose slices agree with these logits."""
    share = float(1.0 / (1.0 + np.exp(-WEIGHT * margins.mean())))
    if share >= AGREES_ABOVE:
        return SideAnswer(True, round(share, 4), "")
    if share <= DISAGREES_BELOW:
        return SideAnswer(False, round(share, 4), FLAG.format(share=share))
    return SideAnswer(None, round(share, 4), "影像解剖不足以核对左右")


def slices(volume: Volume, lungs: Lungs) -> tuple[Array, Mask, Mask]:
    """Up to SLICES axial pictures in HU around the middle of the lungs, and the masks of right and left lung; (N, PIXELS, PIXELS) each, seen
    upright: the lung called right on the left."""
    z_mm, y_mm, x_mm = _places(volume, lungs)
    fine = STEP_MM / 4 * np.array([-1.0, 1.0])  # four samples for each pixel, so that fine noise does not fold back
    pictures = np.stack([_sampled(volume, z_mm, y_mm + dy, x_mm + dx) for dy in fine for dx in fine]).mean(axis=0)
    right, left = (_mask(side, lungs, z_mm, y_mm, x_mm) for side in (lungs.right, lungs.left))
    large = np.minimum(right.sum(axis=(1, 2)), left.sum(axis=(1, 2))) * STEP_MM**2 >= SMALLEST_MM2
    return pictures[large], right[large], left[large]


def _places(volume: Volume, lungs: Lungs) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """LPS z of existing slices, each once, y and x of the pixels, in mm."""
    where = np.argwhere(lungs.mask)
    low, high = where.min(axis=0) * np.array(lungs.step_mm), where.max(axis=0) * np.array(lungs.step_mm)  # z, y, x
    start = np.array(lungs.low_mm)[::-1]
    around = (np.arange(PIXELS) - (PIXELS - 1) / 2) * STEP_MM
    middle = start + (low + high) / 2
    heights = start[0] + low[0] + (high[0] - low[0]) * np.linspace(*BETWEEN, SLICES)
    points = np.array([[middle[2], middle[1], z] for z in heights])
    nearest = np.unique(np.rint(np.clip(volume.to_index(points)[:, 0], 0, len(volume.hu) - 1)))  # one slice may be the nearest to several
    index = volume.to_index(points)[[0] * len(nearest)]
    index[:, 0] = nearest
    return volume.to_patient(index)[:, 2], middle[1] + around, middle[2] + around


def _sampled(volume: Volume, z_mm: NDArray[np.float64], y_mm: NDArray[np.float64], x_mm: NDArray[np.float64]) -> Array:
    """The nearest slice, linear in plane; beyond the border it repeats. (len z, len y, len x)."""
    points = np.stack(np.broadcast_arrays(x_mm[None, None, :], y_mm[None, :, None], z_mm[:, None, None]), axis=-1)
    index = np.moveaxis(volume.to_index(points), -1, 0)  # (3, Z, Y, X)
    index[0] = np.rint(np.clip(index[0], 0, len(volume.hu) - 1))
    return np.asarray(ndimage.map_coordinates(volume.hu, index, output=np.float32, order=1, mode="nearest"), dtype=np.float32)


def _mask(side: Mask, lungs: Lungs, z_mm: NDArray[np.float64], y_mm: NDArray[np.float64], x_mm: NDArray[np.float64]) -> Mask:
    """One lung at the places of the pixels: linear between its voxels, then cut at a half. (len z, len y, len x)."""
    step = lungs.step_mm
    z, y, x = (z_mm - lungs.low_mm[2]) / step[0], (y_mm - lungs.low_mm[1]) / step[1], (x_mm - lungs.low_mm[0]) / step[2]
    index = np.stack(np.broadcast_arrays(np.rint(z)[:, None, None], y[None, :, None], x[None, None, :]))
    return np.asarray(ndimage.map_coordinates(side.astype(np.float32), index, order=1, mode="constant", cval=0.0) > 0.5)
