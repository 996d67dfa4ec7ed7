"""The CT scanners that phantoms are scanned on: one table to train with, and another, different in every column, to judge with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LOW_DOSE_SHARE = 0.35
HEIGHT_MM = 300.0
MAX_VOXELS = 3.05e6
BASE_NOISE_HU = 12.0  # at 120 kVp, 150 mAs, 5 mm and a sharpness of 1
MAX_NOISE_HU = 52.0


@dataclass(frozen=True, slots=True)
class Kernel:
    """A reconstruction kernel: noise beside a medium one, 1.0 (the sharper, the more and the finer)."""

    name: str
    sharpness: float


@dataclass(frozen=True, slots=True)
class Scanners:
    """What a site's scanners may do; each column is drawn on its own."""

    kvp: tuple[float, ...]
    low_mas: tuple[float, float]  # from, to
    full_mas: tuple[float, float]
    kernels: tuple[Kernel, ...]
    spacing_mm: tuple[tuple[float, float], ...]  # between slices, in plane
    field_mm: tuple[float, float]  # width of the field of view; its depth is three quarters
    positions: tuple[tuple[str, float], ...]  # PatientPosition and its share
    contrast_share: float


@dataclass(frozen=True, slots=True)
class Scan:
    """The grid of one scan and how the patient lies on the table (PatientPosition, PS3.3 C.7.3.1.1.2)."""

    spacing_mm: tuple[float, float, float] = (5.0, 1.5, 1.5)  # z, y, x
    shape: tuple[int, int, int] = (60, 192, 256)
    position: str = "HFS"


@dataclass(frozen=True, slots=True)
class Exposure:
    """The rest of an acquisition."""

    kvp: float
    mas: float
    kernel: Kernel
    low_dose: bool
    contrast: bool
    noise_hu: float
    correlation_vox: float  # sigma of the noise's grain


TRAINED = Scanners(
    kvp=(100.0, 120.0, 140.0),
    low_mas=(15.0, 40.0),
    full_mas=(90.0, 250.0),
    kernels=(Kernel("B30f", 0.8), Kernel("B40f", 0.92), Kernel("B45f", 1.0), Kernel("B60f", 1.4)),
    spacing_mm=((5.0, 1.5), (5.0, 1.6), (5.0, 1.7), (4.0, 1.6), (6.0, 1.4), (6.0, 1.3), (3.5, 1.7)),
    field_mm=(350.0, 390.0),
    positions=(("HFS", 0.8), ("FFS", 0.12), ("HFP", 0.08)),
    contrast_share=0.25,
)
HELD_OUT = Scanners(
    kvp=(110.0, 130.0),
    low_mas=(12.0, 45.0),
    full_mas=(80.0, 220.0),
    kernels=(Kernel("Br36f", 0.86), Kernel("Br49f", 1.15), Kernel("Bl57f", 1.28), Kernel("B70f", 1.5)),
    spacing_mm=((4.5, 1.55), (5.5, 1.45), (3.0, 1.65), (5.8, 1.25), (4.8, 1.35)),
    field_mm=(345.0, 375.0),
    positions=(("HFS", 0.7), ("FFS", 0.15), ("HFP", 0.1), ("FFP", 0.05)),
    contrast_share=0.3,
)


def scan_of(rng: np.random.Generator, scanners: Scanners) -> Scan:
    """A grid of at most MAX_VOXELS voxels, all of the lungs in it."""
    z_mm, plane_mm = scanners.spacing_mm[int(rng.integers(len(scanners.spacing_mm)))]
    slices = round(HEIGHT_MM / z_mm)
    columns = min(rng.uniform(*scanners.field_mm) / plane_mm, np.sqrt(MAX_VOXELS / (0.75 * slices)))
    columns = 4 * int(columns / 4)
    names, shares = zip(*scanners.positions, strict=True)
    return Scan((z_mm, plane_mm, plane_mm), (slices, columns * 3 // 4, columns), str(rng.choice(names, p=shares)))


def exposure_of(rng: np.random.Generator, scanners: Scanners, thickness_mm: float) -> Exposure:
    """Tube, kernel and contrast medium, with the noise that they make."""
    low_dose = bool(rng.random() < LOW_DOSE_SHARE)
    kvp = float(rng.choice(scanners.kvp))
    mas = float(np.round(rng.uniform(*(scanners.low_mas if low_dose else scanners.full_mas)), 1))
    kernel = scanners.kernels[int(rng.integers(len(scanners.kernels)))]
    noise_hu = BASE_NOISE_HU * kernel.sharpness * np.sqrt(150.0 / mas * 5.0 / thickness_mm) * (120.0 / kvp)
    correlation_vox = float(np.clip(1.05 - 0.5 * kernel.sharpness + rng.uniform(-0.1, 0.1), 0.3, 0.7))
    contrast = bool(rng.random() < scanners.contrast_share)
    return Exposure(kvp, mas, kernel, low_dose, contrast, min(float(noise_hu), MAX_NOISE_HU), correlation_vox)
