"""Training of the classifier that checks sides: (windowed axial slice, mask of one lung) → right or left lung, by anatomy alone.

Half of the pictures are mirrored, mask and all, so that the place in the picture tells nothing. Two kinds of slices: the project's phantoms, and
invented patients with more of what makes the sides differ (`chest_slices`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

from pipeline.imaging.laterality import NAME, PIXELS, SMALLEST_MM2, STEP_MM, WIDTH, side_net
from pipeline.training.chest_slices import AIR_BELOW_HU, ChestSlice, chest_slice
from pipeline.training.phantom import draw
from pipeline.training.progress import Bar
from pipeline.training.render import Grid, render
from pipeline.training.small import fit, put

FIRST_SEED = 30_000_000
PATIENTS, PHANTOMS, PER_PHANTOM = 6000, 300, 8
PHANTOM_SHARE = 0.3  # of a batch
BATCH = 48
PEAK_RATE = 2e-3
SMOOTHING = 0.02
RIGHT, LEFT = 1, 2  # in the pool's masks

Pool = tuple[NDArray[np.int16], NDArray[np.uint8]]  # HU and masks, (N, Y, X) each


def train_laterality(work: Path, out: Path, *, seed: int, budget_minutes: float) -> None:
    """Train for `budget_minutes` of processor time and put the weights into `out`; `work` holds slices and state, a second run resumes there."""
    hu, masks = pool(work / f"side-slices-{seed}.npz", seed)
    torch.manual_seed(seed)
    net = side_net()

    def loss_of(step: int) -> Tensor:
        pixels, labels = batch((hu, masks), seed * 1_000_003 + step)
        return F.cross_entropy(net(pixel_values=pixels).logits, labels, label_smoothing=SMOOTHING)

    steps, loss = fit("side check", net, loss_of, work / "side.pt", budget_s=budget_minutes * 60, peak_rate=PEAK_RATE)
    put(net, out, NAME, _entry(seed, steps, loss))


def pool(path: Path, seed: int) -> Pool:
    """Slices of invented patients, then of phantoms; made where the file is missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made: list[ChestSlice] = []
        with Bar("slices") as bar:
            for number in range(PATIENTS):
                made.append(chest_slice(np.random.default_rng([FIRST_SEED, seed, number])))
                bar.update(number / PATIENTS, f"{number}/{PATIENTS} patients")
            for number in range(PHANTOMS):
                made += phantom_slices(FIRST_SEED + seed * 100_000 + number)
        hu = np.stack([np.rint(one.hu).astype(np.int16) for one in made])
        np.savez(path, hu=hu, masks=np.stack([one.right * np.uint8(RIGHT) + one.left * np.uint8(LEFT) for one in made]))
    stored = np.load(path)
    return stored["hu"], stored["masks"]


def phantom_slices(seed: int) -> list[ChestSlice]:
    """Up to PER_PHANTOM slices of a phantom that show both lungs, without its noise."""
    rng = np.random.default_rng([seed, 3])
    base = Grid.centered((30, PIXELS, PIXELS), (8.0, STEP_MM, STEP_MM))
    hu = render(replace(draw(seed), noise_hu=0.0), base)
    shown = [_split(plane, base) for plane in hu]
    large = [one for one in shown if min(one.right.sum(), one.left.sum()) * STEP_MM**2 >= SMALLEST_MM2]
    return [large[index] for index in rng.permutation(len(large))[:PER_PHANTOM]]


def _split(hu: NDArray[np.float32], grid: Grid) -> ChestSlice:
    labels, _ = ndimage.label(hu < AIR_BELOW_HU)
    edge = np.unique(np.concatenate([labels[0], labels[-1], labels[:, 0], labels[:, -1]]))
    inside = ~np.isin(labels, edge) & (labels > 0)
    return ChestSlice(hu, inside & (grid.x_mm < 0), inside & (grid.x_mm >= 0))


def batch(slices: Pool, seed: int) -> tuple[Tensor, Tensor]:
    """Pictures and masks (B, 2, Y, X) as the net sees them, and labels (B,): 0 right lung, 1 left lung."""
    rng = np.random.default_rng(seed)
    hu, masks = slices
    patients = min(PATIENTS, len(hu))
    phantom = (rng.random(BATCH) < PHANTOM_SHARE) & (len(hu) > patients)
    index = np.where(phantom, rng.integers(min(patients, len(hu) - 1), len(hu), BATCH), rng.integers(0, patients, BATCH))
    labels = rng.integers(0, 2, BATCH)
    lung = torch.from_numpy((masks[index] == (labels + 1)[:, None, None]).astype(np.float32))
    raised = torch.from_numpy(hu[index].astype(np.float32) + 1000.0)  # beyond the picture lies air: 0
    pixels = _moved(torch.stack([raised, lung], dim=1), rng)
    picture, mask = _blurred(pixels[:, 0], rng) - 1000.0, _cut(pixels[:, 1], rng)
    return torch.stack([_windowed(_soiled(picture, rng), rng), mask], dim=1), torch.from_numpy(labels)


def _moved(pixels: Tensor, rng: np.random.Generator) -> Tensor:
    """Turned a little, scaled, shifted; half of them mirrored, some upside down: a patient may lie face down."""
    turn = np.clip(rng.normal(0, 0.14, BATCH), -0.4, 0.4)
    scale = rng.uniform(0.85, 1.3, (BATCH, 1)) * rng.uniform(0.93, 1.07, (BATCH, 2))  # above 1 the picture shrinks
    flip = np.stack([rng.choice([-1, 1], BATCH), np.where(rng.random(BATCH) < 0.1, -1, 1)], axis=1)
    matrix = np.stack([np.stack([np.cos(turn), -np.sin(turn)], 1), np.stack([np.sin(turn), np.cos(turn)], 1)], 1)  # (B, 2, 2)
    matrix = matrix * (scale * flip)[:, None, :]
    shift = rng.uniform(-15, 15, (BATCH, 2, 1)) / (PIXELS * STEP_MM / 2)
    theta = torch.from_numpy(np.concatenate([matrix, shift], axis=2).astype(np.float32))
    grid = F.affine_grid(theta, list(pixels.shape), align_corners=False)
    return F.grid_sample(pixels, grid, mode="bilinear", padding_mode="zeros", align_corners=False)


def _blurred(pictures: Tensor, rng: np.random.Generator) -> Tensor:
    """Softened by up to a pixel and a half; one width per batch."""
    sigma = float(rng.uniform(0, 1.5))
    if sigma < 0.3:
        return pictures
    offsets = torch.arange(-4, 5, dtype=torch.float32)
    kernel = torch.exp(-(offsets**2) / (2 * sigma**2))
    kernel = (kernel / kernel.sum()).view(1, 1, 1, 9)
    rows = F.conv2d(pictures[:, None], kernel, padding=(0, 4))
    return F.conv2d(rows, kernel.transpose(2, 3), padding=(4, 0))[:, 0]


def _cut(masks: Tensor, rng: np.random.Generator) -> Tensor:
    """Masks (B, Y, X) grown, shrunk, with a piece missing: as a segmentation fails."""
    kind = int(rng.integers(0, 4))
    if kind:
        size = 3 if kind < 3 else 5
        pool = F.max_pool2d(masks[:, None], size, 1, size // 2)[:, 0] if kind % 2 else -F.max_pool2d(-masks[:, None], size, 1, size // 2)[:, 0]
        masks = pool
    masks = (masks > 0.5).float()
    for number in np.flatnonzero(rng.random(len(masks)) < 0.3):
        masks[number][_box(rng, 40)] = 0
    return masks


def _soiled(pictures: Tensor, rng: np.random.Generator) -> Tensor:
    """Noise, offset, contrast medium, a field of view that ends, something that covers a part; HU (B, Y, X)."""
    noise = torch.from_numpy(rng.normal(0, 1, pictures.shape).astype(np.float32)) * torch.from_numpy(
        rng.uniform(0, 60, (BATCH, 1, 1)).astype(np.float32)
    )
    pictures = pictures * float(rng.uniform(0.94, 1.06)) + noise + torch.from_numpy(rng.uniform(-50, 50, (BATCH, 1, 1)).astype(np.float32))
    axis = np.arange(PIXELS) - PIXELS / 2
    for number in range(BATCH):
        if rng.random() < 0.2:
            radius, x, y = rng.uniform(36, 50), *rng.uniform(-5, 5, 2)
            pictures[number][torch.from_numpy(np.hypot(axis - x, axis[:, None] - y) > radius)] = -1000.0
        if rng.random() < 0.25:
            pictures[number][_box(rng, 24)] = float(rng.uniform(-1000, 100))
    return pictures


def _box(rng: np.random.Generator, longest: int) -> tuple[slice, slice]:
    y, x, high, wide = rng.integers(0, PIXELS), rng.integers(0, PIXELS), rng.integers(4, longest), rng.integers(4, longest)
    return slice(int(y), int(y + high)), slice(int(x), int(x + wide))


def _windowed(pictures: Tensor, rng: np.random.Generator) -> Tensor:
    """The lung window, jittered; 0…1."""
    center = torch.from_numpy(rng.uniform(-680, -520, (BATCH, 1, 1)).astype(np.float32))
    width = torch.from_numpy((1500 * np.exp(rng.normal(0, 0.12, (BATCH, 1, 1)))).astype(np.float32))
    return ((pictures - center) / width + 0.5).clamp(0, 1)


def _entry(seed: int, steps: int, loss: float) -> dict[str, object]:
    return {
        "what": f"left or right lung by anatomy: ResNet-18 (2, 2, 2, 2 basic blocks), {WIDTH} to {8 * WIDTH} wide, {PIXELS}² pixels of {STEP_MM} mm",
        "training": {
            "data": f"slices of {PATIENTS} invented patients and {PHANTOMS} phantoms, no patient data",
            "command": "ctreport train --part laterality",
            "seed": seed,
            "steps": steps,
            "loss": round(loss, 4),
            "chance_loss": round(math.log(2), 4),
        },
    }
