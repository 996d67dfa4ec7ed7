"""What denoising is trained and judged on: slabs of two-lung phantoms at a scanner's resolution, clean, and the noise of a CT scanner.

The phantoms are those of `phantom.draw`; small vessels, thickened septa and faint structures in soft tissue are added here, so that a net learns
that fine lines are not noise.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from scipy.spatial import cKDTree

from pipeline.training.phantom import Phantom
from pipeline.training.render import Grid, render

Array = NDArray[np.float32]

SMALL_VESSELS = 90  # per lung, of 0.4 to 1.4 mm radius
PARENCHYMA_HU = (-960.0, -700.0)
LOBULE_MM = (10.0, 22.0)  # secondary lobules measure 10 to 25 mm (Webb, Radiology 2006;239:322)
SEPTUM_MM = (0.9, 1.8)  # thickness of a thickened interlobular septum as CT shows it
SEPTUM_HU = (-520.0, -250.0)
RIM_MM = 25.0  # thickening lies near the pleura
LUNGS_Z_MM = (-60.0, 80.0)  # where a phantom's lungs are wide


def slab(phantom: Phantom, grid: Grid, rng: np.random.Generator, *, thickened: float = 0.0) -> Array:
    """A phantom without noise on a grid (Z, Y, X), with small vessels and faint structures; `thickened`: share of the septa that are thickened."""
    vessels = np.vstack([phantom.vessels, *(_small_vessels(phantom, side, rng) for side in range(2))]).astype(np.float32)
    hu = render(replace(phantom, noise_hu=0.0, vessels=vessels), grid)
    _faint(hu, grid, rng)
    if thickened > 0:
        thicken(hu, grid, rng, thickened)
    return hu


def place(
    rng: np.random.Generator, center_mm: tuple[float, float, float], shape: tuple[int, int, int], spacing_mm: tuple[float, float, float]
) -> Grid:
    """A grid (Z, Y, X) around a point (x, y, z), off by up to half a voxel."""
    base = Grid.centered(shape, spacing_mm)
    shift = np.array(center_mm) + rng.uniform(-0.5, 0.5, 3) * np.array(spacing_mm[::-1])
    x, y, z = ((axis + np.float32(s)).astype(np.float32) for axis, s in zip((base.x_mm, base.y_mm, base.z_mm), shift, strict=True))
    return Grid(x, y, z)


def parenchyma(hu: Array) -> NDArray[np.bool_]:
    """Where a clean or noisy slab (Z, Y, X) shows lung tissue: smoothed per slice, so that noise does not fray it, and off its edges."""
    smooth = ndimage.uniform_filter(hu, (1, 5, 5))
    inside = (smooth > PARENCHYMA_HU[0]) & (smooth < PARENCHYMA_HU[1])
    return np.asarray(ndimage.binary_erosion(inside, np.ones((1, 3, 3), dtype=bool), iterations=2))


def thicken(hu: Array, grid: Grid, rng: np.random.Generator, share: float, septum_hu: tuple[float, float] = SEPTUM_HU) -> None:
    """Draw thickened interlobular septa into the outer lung of a slab: walls between the cells of a random tessellation, `share` of them."""
    lung = (hu > PARENCHYMA_HU[0]) & (hu < PARENCHYMA_HU[1])  # (Z, Y, X)
    step = grid.step_mm
    rim = lung & (ndimage.distance_transform_edt(lung, (1e3, step[1], step[2])) < RIM_MM)
    where = np.argwhere(rim)
    if len(where) == 0:
        return
    points = np.stack([grid.z_mm[where[:, 0]], grid.y_mm[where[:, 1]], grid.x_mm[where[:, 2]]], axis=1)  # (N, 3)
    low, high = points.min(axis=0) - 30, points.max(axis=0) + 30
    count = int(np.prod(high - low) / rng.uniform(*LOBULE_MM) ** 3) + 8
    cells = rng.uniform(low, high, (count, 3))
    near, index = cKDTree(cells).query(points, k=2)  # (N, 2)
    wall = near[:, 1] - near[:, 0]  # about twice the distance from the wall, mm
    half = rng.uniform(*SEPTUM_MM) / 2
    soft = np.clip(0.5 + (half - wall / 2) / step[1], 0, 1)
    chosen = rng.random(count)
    soft *= (chosen[index[:, 0]] + chosen[index[:, 1]]) % 1.0 < share  # one draw per wall
    target = rng.uniform(*septum_hu)
    values = hu[rim]
    hu[rim] = values + (soft * np.maximum(target - values, 0)).astype(np.float32)


def ct_noise(rng: np.random.Generator, shape: tuple[int, ...], sigma_hu: float, kernel: str) -> Array:
    """Noise (Z, Y, X) whose power grows with frequency and then falls, as reconstruction kernels make it: soft ones early, sharp ones late."""
    rise, cut = {"B30f": (0.6, 0.28), "B45f": (0.7, 0.40), "B60f": (0.9, 0.62)}[kernel]
    return shaped_noise(rng, shape, rise, cut) * np.float32(sigma_hu)


def shaped_noise(rng: np.random.Generator, shape: tuple[int, ...], rise: float, cut: float) -> Array:
    """Unit noise per slice with the amplitude spectrum (f + 0.05)^rise · exp(−(f/cut)²), f in cycles per voxel × 2 (1 = Nyquist)."""
    white = np.fft.rfft2(rng.standard_normal(shape, dtype=np.float32))
    fy, fx = np.fft.fftfreq(shape[-2])[:, None] * 2, np.fft.rfftfreq(shape[-1])[None] * 2
    radius = np.hypot(fy, fx)
    noise = np.fft.irfft2(white * ((radius + 0.05) ** rise * np.exp(-((radius / cut) ** 2))), shape[-2:]).astype(np.float32)
    return np.asarray(noise / noise.std(axis=(-2, -1), keepdims=True), dtype=np.float32)


def _small_vessels(phantom: Phantom, side: int, rng: np.random.Generator) -> Array:
    lung = phantom.lungs[side]
    start = np.array(lung.center_mm) + np.array(lung.axes_mm) * rng.uniform(-0.8, 0.8, (SMALL_VESSELS, 3))
    end = start + rng.normal(0, 14, (SMALL_VESSELS, 3))
    return np.hstack([start, end, rng.uniform(0.4, 1.4, (SMALL_VESSELS, 1))]).astype(np.float32)


def _faint(hu: Array, grid: Grid, rng: np.random.Generator) -> None:
    """Discs of ±15 to 60 HU in soft tissue: nodes, chambers, vessels without contrast."""
    soft = hu > -40
    for _ in range(12):
        x, y = rng.choice(grid.x_mm), rng.choice(grid.y_mm)
        distance = np.hypot(grid.x_mm[None] - x, (grid.y_mm[:, None] - y) * rng.uniform(0.6, 1.6))  # (Y, X)
        disc = np.clip(0.5 - (distance - rng.uniform(3, 18)) / grid.step_mm[1], 0, 1)
        hu += np.where(soft, disc[None] * np.float32(rng.uniform(15, 60) * rng.choice([-1, 1])), np.float32(0))
