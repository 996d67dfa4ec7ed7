"""Training of the two denoising nets on pairs of the same phantom slices: with the noise of a scanner, and without."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from pipeline.imaging.denoise_nets import NETS
from pipeline.training.lowdose import LUNGS_Z_MM, Array, place, shaped_noise, slab
from pipeline.training.phantom import draw
from pipeline.training.progress import Bar
from pipeline.training.small import fit, put

SHARES = {"denoiser": 0.85, "denoiser_article": 0.15}  # of the time
FIRST_SEED = 20_000_000
SLABS, SHAPE = 1200, (3, 144, 144)  # z, y, x
CROP, BATCH = 96, 8
TEXTURES = 300  # slabs of noise, each of a kernel of its own; shifted and mirrored at random they do not run out
STEP_Z_MM, STEP_MM = (1.0, 8.0), (0.6, 1.5)
NOISE_HU = (3.0, 90.0)  # drawn evenly in the logarithm
TOLD = (0.85, 1.15)  # the noise that a net is told is as wrong as an estimate
PEAK_RATE = 2e-3
THICKENED_SHARE = 0.4
UNIT_HU = 1000.0
WHAT = {
    "denoiser": "low-dose CT denoiser, residual, six convolutions on a slice and its two neighbours",
    "denoiser_article": "the source article's autoencoder, Conv 1→16, ReLU, Conv 16→1, for comparison",
}
ALONE_SHARE = 0.1  # pictures without neighbours: the ends of a volume
SMALLEST_NODULE_MM = 4.0
LUNG_BELOW_HU = -300.0  # lung and what lies in it as a haze; air outside too
LUNG_WEIGHT = 3.0  # lung is what is read; its share of the pixels is small


def train_denoiser(work: Path, out: Path, *, seed: int, budget_minutes: float) -> None:
    """Train both nets for `budget_minutes` of processor time in all and put them into `out`; `work` holds slabs and state, a second run resumes
    there."""
    slabs, noise = clean_slabs(work / f"denoise-slabs-{seed}.npy", seed, SLABS), textures(seed, TEXTURES)
    for name, share in SHARES.items():
        torch.manual_seed(seed)
        net = NETS[name]()

        def loss_of(step: int, net: torch.nn.Module = net) -> Tensor:
            return _loss(net, *batch(slabs, noise, np.random.default_rng([seed, step])))

        steps, loss = fit(name, net, loss_of, work / f"{name}.pt", budget_s=share * budget_minutes * 60, peak_rate=PEAK_RATE)
        put(net, out, name, _entry(name, seed, steps, loss))


def clean_slabs(path: Path, seed: int, count: int) -> NDArray[np.float16]:
    """`count` clean slabs (count, Z, Y, X) in HU, made anew where the file is missing."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        made = np.empty((count, *SHAPE), dtype=np.float16)
        with Bar("slabs") as bar:
            for number in range(count):
                made[number] = one_slab(FIRST_SEED + seed * 100_000 + number)
                bar.update((number + 1) / count, f"{number + 1}/{count}")
        np.save(path, made)
    return np.asarray(np.load(path))


def one_slab(seed: int) -> Array:
    """A slab around a lesion or a random place in the lungs; (Z, Y, X) in HU, clean."""
    rng = np.random.default_rng([seed, 2])
    phantom = draw(seed)
    lesions = phantom.truth.lesions
    spot = (rng.choice([-1, 1]) * rng.uniform(20, 110), rng.uniform(-60, 70), rng.uniform(*LUNGS_Z_MM))
    center = (float(spot[0]), float(spot[1]), float(spot[2]))
    if lesions and rng.random() < 0.5:
        nodule = replace(lesions[0], size_mm=float(rng.uniform(SMALLEST_NODULE_MM, lesions[0].size_mm)))
        phantom, center = replace(phantom, truth=replace(phantom.truth, lesions=(nodule,))), nodule.center_mm
    step_mm = float(rng.uniform(*STEP_MM))
    grid = place(rng, center, SHAPE, (float(rng.uniform(*STEP_Z_MM)), step_mm, step_mm))
    return slab(phantom, grid, rng, thickened=float(rng.uniform(0.1, 0.6)) if rng.random() < THICKENED_SHARE else 0.0)


def batch(slabs: NDArray[np.float16], bank: Array, rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Noisy crops with neighbours (B, 3, Y, X) and clean middles (B, 1, Y, X) in 1000 HU, the noise (B,) in HU that is told, and the scale
    (B, 1, Y, X) of each pixel's error in HU."""
    clean = np.stack([_crop(slabs, rng) for _ in range(BATCH)])  # (B, 3, Y, X)
    sigma = np.exp(rng.uniform(math.log(NOISE_HU[0]), math.log(NOISE_HU[1]), BATCH)).astype(np.float32)
    noise = np.stack([_texture(bank, rng) for _ in range(BATCH)]) * (_uneven(rng, BATCH) * sigma[:, None, None])[:, None]
    noisy = clean + noise
    alone = rng.random(BATCH) < ALONE_SHARE
    noisy[alone] = noisy[alone, 1:2]
    middle = clean[:, 1]
    scale = (10.0 + sigma[:, None, None]) / np.where(middle < LUNG_BELOW_HU, LUNG_WEIGHT, 1.0)
    told = sigma * rng.uniform(*TOLD, BATCH)
    parts = noisy / UNIT_HU, middle[:, None] / UNIT_HU, told, scale[:, None]
    seen, goal, level, scales = (torch.from_numpy(np.asarray(part, dtype=np.float32)) for part in parts)
    return seen, goal, level, scales


def _crop(slabs: NDArray[np.float16], rng: np.random.Generator) -> Array:
    """A crop (3, Y, X) of a random slab, turned and mirrored at random."""
    slab = slabs[rng.integers(len(slabs))]
    y, x = rng.integers(SHAPE[1] - CROP + 1), rng.integers(SHAPE[2] - CROP + 1)
    turned = np.rot90(slab[:, y : y + CROP, x : x + CROP], int(rng.integers(4)), axes=(1, 2))
    return np.asarray(turned[:: rng.choice([-1, 1]), :, :: rng.choice([-1, 1])], dtype=np.float32)


def textures(seed: int, count: int) -> Array:
    """Unit noise of `count` reconstruction kernels, (count, Z, Y, X); slices are independent of each other."""
    rng = np.random.default_rng([seed, 6])
    return np.stack([shaped_noise(rng, (SHAPE[0], CROP, CROP), float(rng.uniform(0.0, 1.1)), float(rng.uniform(0.22, 1.3))) for _ in range(count)])


def _texture(bank: Array, rng: np.random.Generator) -> Array:
    """One of the bank (3, Y, X), shifted round, turned over and negated at random."""
    shifted = np.roll(bank[rng.integers(len(bank))], tuple(rng.integers(CROP, size=2)), axis=(1, 2))
    one, other, sign = rng.choice([-1, 1], 3)
    return np.asarray(shifted[:, ::one, ::other] * np.float32(sign), dtype=np.float32)


def _uneven(rng: np.random.Generator, count: int) -> Array:
    """(B, Y, X): noise is stronger in the middle of a patient and between the shoulders, weaker outside."""
    slope = rng.uniform(-0.25, 0.25, (count, 2))
    ramp = np.linspace(-1, 1, CROP)
    return np.asarray(1.0 + slope[:, 0, None, None] * ramp[:, None] + slope[:, 1, None, None] * ramp, dtype=np.float32)


def _loss(net: torch.nn.Module, noisy: Tensor, clean: Tensor, level: Tensor, scale: Tensor) -> Tensor:
    """Huber's loss of the error in units of `scale`: about the same size for weak and strong noise."""
    error = (net(noisy, level) - clean) * UNIT_HU / scale
    return F.smooth_l1_loss(error, torch.zeros_like(error), beta=0.5)


def _entry(name: str, seed: int, steps: int, loss: float) -> dict[str, object]:
    return {
        "what": WHAT[name],
        "training": {
            "data": f"{SLABS} slabs of synthetic two-lung phantoms, noise of {NOISE_HU[0]:g} to {NOISE_HU[1]:g} HU, no patient data",
            "command": "ctreport train --part denoiser",
            "seed": seed,
            "steps": steps,
            "loss": round(loss, 4),
        },
    }
