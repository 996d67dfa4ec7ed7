"""Training of the compact encoder: centres, offsets, effusion, and a close look at each proposal; all from rendered phantoms."""

from __future__ import annotations

import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from scipy import ndimage
from torch import Tensor
from torch.nn import functional as F

from pipeline.encoder.net import CompactNet, crops_at, peaks, places, voxels_to_cells
from pipeline.imaging.canonical import SHAPE, SPACING_MM
from pipeline.imaging.windows import ENCODER_WINDOWS
from pipeline.model import Side
from pipeline.training.phantom import DENSITIES, Lesion, Phantom, draw
from pipeline.training.ranks import average_gradients, run_ranks
from pipeline.training.render import Grid, render

PROPOSALS = 6
LUNGS_Z_MM = 26.0  # the middle of the air in the lungs, where canonical grids are centred, lies this far above a phantom's origin
JITTER_MM = (8.0, 8.0, 16.0)  # x, y, z
MATCH_MM = 10.0
LOBE_INDEX = {"上叶": 0, "中叶": 1, "下叶": 2}
KIND_INDEX = {"结节": 0, "实变": 1}
PEAK_RATE = 2e-3
WEIGHTS = {"heat": 0.5, "offset": 0.5}
FIRST_SEED = 10_000_000  # training seeds start here; evaluation uses others


@dataclass(frozen=True)
class Example:
    """One phantom ready for the network, and its truth in canonical voxels."""

    windows: Tensor  # (3, 48, 72, 96) float16
    lesions: tuple[Lesion, ...]
    centers: Tensor  # (L, 3) voxels z, y, x
    effusion: Tensor  # (2,) right, left
    shift_mm: tuple[float, float, float]  # the grid's middle in phantom coordinates, x, y, z


def to_windows(hu: NDArray[np.float32]) -> Tensor:
    """HU (Z, Y, X) → the encoder's windows (3, Z, Y, X)."""
    return torch.from_numpy(np.stack([w.apply(hu) for w in ENCODER_WINDOWS]))


def coarse(seed: int) -> tuple[Phantom, NDArray[np.float32], tuple[float, float, float]]:
    """The phantom of a seed in HU on the canonical grid, and where the grid's middle lies (x, y, z). The grid is shifted at random as centring on
    real lungs would, less noisy and softer than a scan, as resampling makes it."""
    rng = np.random.default_rng([seed, 1])
    shift = rng.uniform(-1.0, 1.0, 3) * np.array(JITTER_MM) + np.array([0.0, 0.0, LUNGS_Z_MM])
    base = Grid.centered(SHAPE, SPACING_MM)
    grid = Grid(*((axis + np.float32(s)) for axis, s in zip((base.x_mm, base.y_mm, base.z_mm), shift, strict=True)))
    phantom = draw(seed)
    phantom = replace(phantom, noise_hu=phantom.noise_hu * float(rng.uniform(0.35, 1.0)))
    hu = ndimage.gaussian_filter(render(phantom, grid), float(rng.uniform(0.0, 0.5)))
    return phantom, hu, (float(shift[0]), float(shift[1]), float(shift[2]))


def example(seed: int) -> Example:
    """The example of a seed."""
    phantom, hu, shift = coarse(seed)
    centers = [lesion_voxel(lesion, np.array(shift)) for lesion in phantom.truth.lesions]
    return Example(
        windows=to_windows(hu).half(),
        lesions=phantom.truth.lesions,
        centers=torch.tensor(np.array(centers, dtype=np.float32).reshape(-1, 3)),
        effusion=torch.tensor([float(side in phantom.truth.effusion) for side in (Side.RIGHT, Side.LEFT)]),
        shift_mm=shift,
    )


def lesion_voxel(lesion: Lesion, shift_mm: NDArray[np.float64]) -> NDArray[np.float64]:
    """Centre in canonical voxels z, y, x of a grid whose middle lies at `shift_mm` (x, y, z)."""
    relative = (np.array(lesion.center_mm) - shift_mm)[::-1]
    return np.asarray(relative / np.array(SPACING_MM) + (np.array(SHAPE) - 1) / 2, dtype=np.float64)


def heat_target(centers: Tensor, sizes_mm: list[float], shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor]:
    """Gaussian heat (D, H, W), offsets (3, D, H, W) and the mask of centre cells (D, H, W)."""
    heat, offset, mask = torch.zeros(shape), torch.zeros(3, *shape), torch.zeros(shape)
    axes = torch.meshgrid(*(torch.arange(n, dtype=torch.float32) for n in shape), indexing="ij")
    for center, size in zip(voxels_to_cells(centers), sizes_mm, strict=True):
        sigma = torch.tensor([max(0.7, size / 6 / (2 * s)) for s in SPACING_MM])
        squared = sum(((axis - c) / s) ** 2 for axis, c, s in zip(axes, center, sigma, strict=True))
        heat = torch.maximum(heat, torch.exp(-torch.as_tensor(squared) / 2))
        cell = tuple(int(min(max(round(float(c)), 0), n - 1)) for c, n in zip(center, shape, strict=True))
        near = [slice(max(0, c - 1), c + 2) for c in cell]
        for axis, (grid, c) in enumerate(zip(axes, center, strict=True)):
            offset[axis][tuple(near)] = c - grid[tuple(near)]
        mask[tuple(near)] = 1
        heat[cell] = 1
    return heat, offset, mask


def losses(net: CompactNet, batch: list[Example]) -> dict[str, Tensor]:
    """Named losses of one batch."""
    windows = torch.stack([e.windows for e in batch]).float()  # (B, 3, 48, 72, 96)
    heat, offset, effusion, _ = net.proposer(windows)
    found: dict[str, list[Tensor]] = {"heat": [], "offset": []}
    for number, one in enumerate(batch):
        goal, shift, mask = heat_target(one.centers, [lesion.size_mm for lesion in one.lesions], tuple(heat.shape[1:]))
        found["heat"].append(_focal(heat[number], goal) / max(1, len(one.lesions)))
        found["offset"].append(((offset[number] - shift).abs() * mask).sum() / max(1.0, float(mask.sum()) * 3))
    total = {name: torch.stack(values).mean() for name, values in found.items()}
    total["effusion"] = F.binary_cross_entropy_with_logits(effusion, torch.stack([e.effusion for e in batch]))
    with torch.no_grad():
        proposed, _ = peaks(heat, offset, PROPOSALS)
    return total | _roi_losses(net, batch, windows, proposed)


def _focal(logits: Tensor, goal: Tensor) -> Tensor:
    """Penalty-reduced focal loss (CornerNet, Law and Deng 2018)."""
    p = logits.sigmoid().clamp(1e-5, 1 - 1e-5)
    positive = goal.eq(1).float()
    hit = positive * (1 - p) ** 2 * p.log()
    miss = (1 - positive) * (1 - goal) ** 4 * p**2 * (1 - p).log()
    return -(hit + miss).sum()


def _roi_losses(net: CompactNet, batch: list[Example], windows: Tensor, proposed: Tensor) -> dict[str, Tensor]:
    crops, place, labels, of = [], [], [], []
    for number, one in enumerate(batch):
        jittered = one.centers + torch.randn_like(one.centers) * torch.tensor([0.4, 0.7, 0.7])
        centers = torch.cat([proposed[number], jittered])
        points = voxels_to_mm(centers, one.shift_mm)
        crops.append(crops_at(windows[number], centers))
        place.append(places(points, torch.tensor(one.shift_mm)))
        for index, match in enumerate(_matched(points, one.lesions)):
            labels.append(float(match is not None))
            if match is not None:
                of.append((sum(len(c) for c in crops[:-1]) + index, match))
    _, heads = net.roi(torch.cat(crops), torch.cat(place))
    total = {"lesion": F.binary_cross_entropy_with_logits(heads["lesion"][:, 0], torch.tensor(labels))}
    if of:
        rows = torch.tensor([row for row, _ in of])
        total |= {
            "kind": F.cross_entropy(heads["kind"][rows], torch.tensor([KIND_INDEX[lesion.kind] for _, lesion in of])),
            "density": F.cross_entropy(heads["density"][rows], torch.tensor([DENSITIES.index(lesion.density) for _, lesion in of])),
            "lobe": F.cross_entropy(heads["lobe"][rows], torch.tensor([LOBE_INDEX[lesion.lobe] for _, lesion in of])),
            "size": F.smooth_l1_loss(heads["size"][rows, 0], torch.tensor([lesion.size_mm / 10 for _, lesion in of]), beta=0.2),
        }
    return total


def voxels_to_mm(voxels: Tensor, shift_mm: tuple[float, float, float]) -> Tensor:
    """Canonical voxels (…, 3) z, y, x → phantom coordinates (…, 3) x, y, z in mm."""
    offset = (voxels - (torch.tensor(SHAPE) - 1) / 2) * torch.tensor(SPACING_MM)
    return offset.flip(-1) + torch.tensor(shift_mm)


def _matched(points: Tensor, lesions: tuple[Lesion, ...]) -> list[Lesion | None]:
    found: list[Lesion | None] = []
    for point in points.tolist():
        near = [(float(np.linalg.norm(np.array(point) - np.array(lesion.center_mm))), n) for n, lesion in enumerate(lesions)]
        close = [(d, n) for d, n in near if d <= max(MATCH_MM, lesions[n].size_mm / 2)]
        found.append(lesions[min(close)[1]] if close else None)
    return found


def train_vision(out: Path, *, budget_s: float, seed: int, world: int = 1, batch: int = 6) -> tuple[CompactNet, int]:
    """Train for `budget_s` seconds in all, in `world` processes, resuming from `out/vision.pt`; returns the net and the steps it took.

    Each process logs to `out/vision-RANK.jsonl`.
    """
    out.mkdir(parents=True, exist_ok=True)
    run_ranks(_train_rank, world, out, budget_s, seed, batch)
    net = CompactNet()
    _, steps = _resume(out, net, None)
    return net.eval(), steps


def _train_rank(rank: int, out: Path, budget_s: float, seed: int, batch: int) -> None:
    torch.manual_seed(seed)
    net = CompactNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=PEAK_RATE, weight_decay=1e-4)
    spent, step = _resume(out, net, optimizer)
    first = FIRST_SEED + (seed * 8 + rank) * 1_000_000
    began = time.monotonic() - spent
    bar = Progress(TextColumn("encoder {task.fields[loss]}"), BarColumn(), TimeRemainingColumn(), disable=rank > 0)
    with bar, (out / f"vision-{rank}.jsonl").open("a", encoding="utf-8") as log_file:
        task, stop = bar.add_task("encoder", total=budget_s, completed=int(spent), loss=""), spent >= budget_s
        while not stop:
            seeds = range(first + step * batch, first + (step + 1) * batch)
            parts, stop = _step(net, optimizer, _rate(step, spent / budget_s), [example(s) for s in seeds], spent >= budget_s)
            spent, step = time.monotonic() - began, step + 1
            if step % 20 == 0:
                log_file.write(json.dumps({"step": step, "s": round(spent, 1), **parts}) + "\n")
                log_file.flush()
                bar.update(task, completed=spent, loss=f"step {step}, loss {sum(parts.values()):.3f}")
            if rank == 0 and step % 200 == 0:
                _save(out, net, optimizer, spent, step)
    if rank == 0:
        _save(out, net, optimizer, max(spent, budget_s), step)


def _rate(step: int, share: float) -> float:
    """Learning rate: a short warm-up, then a cosine over the time budget."""
    return PEAK_RATE * min(1.0, (step + 1) / 50) * max(0.02, 0.5 * (1 + math.cos(math.pi * min(1.0, share))))


def _step(net: CompactNet, optimizer: torch.optim.Optimizer, rate: float, batch: list[Example], stop: bool) -> tuple[dict[str, float], bool]:
    for group in optimizer.param_groups:
        group["lr"] = rate
    parts = losses(net, batch)
    optimizer.zero_grad(set_to_none=True)
    torch.stack([WEIGHTS.get(name, 1.0) * value for name, value in parts.items()]).sum().backward()  # type: ignore[no-untyped-call]  # torch
    ended = average_gradients(net, stop)
    torch.nn.utils.clip_grad_norm_(net.parameters(), 5.0)
    optimizer.step()
    return {name: round(float(value.detach()), 4) for name, value in parts.items()}, ended


def _save(out: Path, net: CompactNet, optimizer: torch.optim.Optimizer, spent: float, step: int) -> None:
    temporary = out / "vision.pt.new"
    torch.save({"net": net.state_dict(), "optimizer": optimizer.state_dict(), "spent": spent, "step": step}, temporary)
    temporary.replace(out / "vision.pt")


def _resume(out: Path, net: CompactNet, optimizer: torch.optim.Optimizer | None) -> tuple[float, int]:
    path = out / "vision.pt"
    if not path.exists():
        return 0.0, 0
    saved = torch.load(path, weights_only=True)
    net.load_state_dict(saved["net"])
    if optimizer is not None:
        optimizer.load_state_dict(saved["optimizer"])
    return float(saved["spent"]), int(saved["step"])
