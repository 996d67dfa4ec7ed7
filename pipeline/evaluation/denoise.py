"""What denoising does on phantoms: the overlap (Dice) of lung nodules, and how often noise is read as interstitial thickening.

The same patients at low and at full dose; without denoising, with the source article's autoencoder, with ours, and with ours where the noise asks
for it (as shipped). Phantom figures say nothing about patients.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.evaluation.averages import mean, share
from pipeline.evaluation.classical import dice, line_share, outlined, sphere_distance_mm
from pipeline.imaging.denoise import Denoiser
from pipeline.imaging.noise import noise_hu
from pipeline.imaging.volume import Acquisition, Volume
from pipeline.training.lowdose import ct_noise, parenchyma, place, slab, thicken
from pipeline.training.phantom import TRAINED, Lesion, Phantom, draw
from pipeline.training.render import Grid

Array = NDArray[np.float32]

FIRST_SEED = 50_000_000
STEP_MM = (2.0, 0.9, 0.9)  # z, y, x
NODULE_SHAPE, LUNG_SHAPE = (14, 134, 134), (5, 267, 378)
NODULE_MM = (5.0, 20.0)
THICKENED, FAINT_HU = (0.02, 0.1), (-740.0, -580.0)  # share of the septa, and what they come to: early thickening, hard to see
MAS = {"low": (15.0, 40.0), "full": (90.0, 250.0)}
SHARPNESS = {"B30f": 0.8, "B45f": 1.0, "B60f": 1.4}  # noise of a kernel beside B45f, as in training.scanners
SCANNERS = replace(TRAINED, kernels=tuple(kernel for kernel in TRAINED.kernels if kernel.name in SHARPNESS))  # those whose grain is known
CALIBRATING = 20  # normals per kernel at full dose
ONE_SIDED_95 = 1.645
CONTENDERS = ("none", "article", "ours", "ours, auto")


@dataclass(frozen=True)
class _Case:
    """What one phantom gave with one contender at one dose."""

    dice: float
    density: str
    normal_lines: float  # excess over the threshold of its kernel: above 0 is called thickened
    thickened_lines: float
    noise_hu: float
    denoised: bool


@dataclass(frozen=True)
class _Scan:
    """One patient: clean slabs of a nodule, of normal and of thickened lung, and where the lung is."""

    phantom: Phantom
    lesion: Lesion
    nodule: Array
    nodule_grid: Grid
    normal: Array
    thickened: Array
    lung: NDArray[np.bool_]


def evaluate_denoise(n: int, seed: int = 0, told: Callable[[float, str], None] = lambda done, line: None) -> dict[str, Any]:
    """Rows of figures with 95 % intervals over `n` phantoms, one row per contender and dose; and the processor time of 275 slices of 512²."""
    denoisers = {"article": Denoiser.load(name="denoiser_article"), "ours": Denoiser.load()}
    thresholds = _thresholds(seed)
    found: dict[tuple[str, str], list[_Case]] = {(what, dose): [] for dose in MAS for what in CONTENDERS}
    for number in range(n):
        scan = _scan(FIRST_SEED + seed * 100_000 + number * 20)
        for dose in MAS:
            for what, case in _cases(scan, dose, denoisers, thresholds).items():
                found[what, dose].append(case)
        told((number + 1) / n, f"{number + 1}/{n} phantoms")
    rows = [{"what": what, "dose": dose, "n": n, **_figures(cases, found["none", dose])} for (what, dose), cases in found.items()]
    return {"n": n, "rows": rows, "seconds": [{"what": name, "cpu_s_per_275_slices": _seconds(denoiser)} for name, denoiser in denoisers.items()]}


def _scan(seed: int) -> _Scan:
    """The first phantom from a seed on that has a nodule, solid or ground glass, at most 20 mm."""
    for phantom in (draw(number, SCANNERS) for number in range(seed, seed + 20)):
        nodules = [lesion for lesion in phantom.truth.lesions if lesion.kind == "结节"]
        if nodules:
            break
    rng = np.random.default_rng([phantom.truth.seed, 4])
    lesion = replace(
        nodules[0],
        size_mm=round(min(nodules[0].size_mm, float(rng.uniform(*NODULE_MM))), 1),
        density="实性" if nodules[0].density == "实性" else "磨玻璃",
    )
    grid = place(rng, lesion.center_mm, NODULE_SHAPE, STEP_MM)
    with_it = slab(
        replace(phantom, truth=replace(phantom.truth, lesions=(lesion,), emphysema=frozenset(), fibrosis=frozenset()), effusion_mm={}), grid, rng
    )
    normal, lung_grid = _normal(phantom, rng)
    thickened = normal.copy()
    thicken(thickened, lung_grid, rng, float(rng.uniform(*THICKENED)), FAINT_HU)
    return _Scan(phantom, lesion, with_it, grid, normal, thickened, parenchyma(normal))


def _normal(phantom: Phantom, rng: np.random.Generator) -> tuple[Array, Grid]:
    grid = place(rng, (0.0, 0.0, float(rng.uniform(-40, 60))), LUNG_SHAPE, STEP_MM)
    return slab(
        replace(phantom, truth=replace(phantom.truth, lesions=(), emphysema=frozenset(), fibrosis=frozenset()), effusion_mm={}), grid, rng
    ), grid


def _sigma(kernel: str, mas: float, kvp: float) -> float:
    """Noise of an acquisition in HU, as `training.scanners` has it for slices of 5 mm; thinner ones catch fewer quanta."""
    return float(12.0 * SHARPNESS[kernel] * np.sqrt(150.0 / mas) * (120.0 / kvp) * np.sqrt(5.0 / STEP_MM[0]))


def _thresholds(seed: int) -> dict[str, float]:
    """Per kernel the share of lines that 95 % of other full-dose normals stay below (mean + 1.645 standard deviations)."""
    found = {}
    for index, kernel in enumerate(SHARPNESS):
        scores = []
        for number in range(CALIBRATING):
            rng = np.random.default_rng([FIRST_SEED, seed, index, number])
            phantom = draw(FIRST_SEED - 1 - seed * 100_000 - index * 1000 - number)
            clean, _ = _normal(phantom, rng)
            noise = ct_noise(rng, clean.shape, _sigma(kernel, float(rng.uniform(*MAS["full"])), phantom.truth.kvp), kernel)
            scores.append(line_share(clean + noise, parenchyma(clean), STEP_MM[1]))
        found[kernel] = float(np.mean(scores) + ONE_SIDED_95 * np.std(scores, ddof=1))
    return found


def _cases(scan: _Scan, dose: str, denoisers: Mapping[str, Denoiser], thresholds: Mapping[str, float]) -> dict[str, _Case]:
    truth = scan.phantom.truth
    rng = np.random.default_rng([truth.seed, 5, list(MAS).index(dose)])
    mas = float(rng.uniform(*MAS[dose]))
    sigma = _sigma(truth.kernel, mas, truth.kvp)
    noisy = [clean + ct_noise(rng, clean.shape, sigma, truth.kernel) for clean in (scan.nodule, scan.normal, scan.thickened)]
    noise = noise_hu(_volume(noisy[1]))
    made = {"none": noisy, **{name: [denoiser.denoised(hu, noise) for hu in noisy] for name, denoiser in denoisers.items()}}
    asked = denoisers["ours"].needed(noise, Acquisition(truth.kvp, mas, truth.kernel, STEP_MM[0]))
    made["ours, auto"] = made["ours" if asked else "none"]
    used = {"none": False, "article": True, "ours": True, "ours, auto": asked}
    return {what: _case(scan, made[what], thresholds[truth.kernel], used[what]) for what in CONTENDERS}


def _case(scan: _Scan, slabs: Sequence[Array], threshold: float, denoised: bool) -> _Case:
    grid, center = scan.nodule_grid, scan.lesion.center_mm
    at = [(c - float(axis[0])) / step for c, axis, step in zip(center[::-1], (grid.z_mm, grid.y_mm, grid.x_mm), STEP_MM, strict=True)]
    distance = sphere_distance_mm(grid.shape, (at[0], at[1], at[2]), STEP_MM)
    overlap = dice(outlined(slabs[0], distance, scan.lesion.size_mm), distance <= scan.lesion.size_mm / 2)
    normal, thickened = (line_share(hu, scan.lung, STEP_MM[1]) - threshold for hu in slabs[1:])
    return _Case(overlap, scan.lesion.density, normal, thickened, noise_hu(_volume(slabs[1])), denoised)


def _volume(hu: Array) -> Volume:
    """A slab as a volume; its place in the patient does not matter here."""
    along = np.arange(len(hu), dtype=np.float64) * STEP_MM[0]
    return Volume(
        hu=hu,
        spacing_mm=STEP_MM,
        along_mm=along,
        origin_mm=(0.0, 0.0, 0.0),
        axes=np.eye(3)[::-1].copy(),
        sop_uids=("",) * len(hu),
        acquisition=Acquisition(None, None, "", None),
    )


def _figures(cases: Sequence[_Case], without: Sequence[_Case]) -> dict[str, Any]:
    """Means with intervals; `dice_gain` is taken patient by patient against no denoising."""
    means = {
        "dice": [case.dice for case in cases],
        "dice_gain": [case.dice - other.dice for case, other in zip(cases, without, strict=True)],
        "dice_solid": [case.dice for case in cases if case.density == "实性"],
        "dice_ground_glass": [case.dice for case in cases if case.density != "实性"],
        "noise_hu": [case.noise_hu for case in cases],
    }
    shares = {
        "false_thickening": [case.normal_lines > 0 for case in cases],
        "found_thickening": [case.thickened_lines > 0 for case in cases],
        "denoised": [case.denoised for case in cases],
    }
    return {name: mean(values) for name, values in means.items()} | {name: share(values) for name, values in shares.items()}


def _seconds(denoiser: Denoiser) -> float:
    """Processor time of one thread for 275 slices of 512² pixels, from four at once; the fastest of three."""
    hu = np.random.default_rng(0).normal(-500, 300, (4, 512, 512)).astype(np.float32)
    spent = []
    for _ in range(3):
        began = time.process_time()
        denoiser.denoised(hu, 30.0)
        spent.append(time.process_time() - began)
    return round(min(spent) / 4 * 275, 1)
