"""What the encoder's networks are asked: where something is, what fills which cell, what a close look tells, and what each side has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from pipeline.encoder.compact import DENSITIES, LOBES, MARGINS, shown_to_proposer, windowed
from pipeline.encoder.net import FAMILIES, FAMILY, SPLIT, STRIDE, CompactNet, crops_at, peaks, places
from pipeline.imaging.canonical import SPACING_MM
from pipeline.training.examples import Example, Points, Target, cells_of
from pipeline.training.pairing import NEAR_MM

PROPOSED = 10  # peaks of the moment that are looked at closely: the hard negatives
LOOKED_AT = 2  # of what is there
JITTER_VOXELS = (0.5, 1.4, 1.4)
WEIGHTS = {"heat": 0.5, "offset": 0.5, "body": 2.0, "spread": 1.0}
CELL_MM = tuple(n * s for n, s in zip(STRIDE, SPACING_MM, strict=True))
FILLED_WEIGHT = 8.0  # of a cell that a lesion fills, against an empty one


def losses(net: CompactNet, batch: Sequence[Example]) -> dict[str, Tensor]:
    """Named losses of one batch."""
    windows = torch.stack([shown_to_proposer(one.shown()) for one in batch])  # (B, 16, 56, 72, 96)
    fine, level, deep = net.proposer.pyramid(windows)
    heat, offset = (part.float() for part in net.proposer.centers(fine))
    body = net.proposer.body(fine).float()  # (B, 4, 28, 36, 48)
    found: dict[str, list[Tensor]] = {"heat": [], "offset": [], "body": []}
    for number, one in enumerate(batch):
        goal, shift, mask, filled = goals(one, tuple(heat.shape[2:]))
        filled = F.max_pool3d(filled, (1, SPLIT, SPLIT))  # (4, 28, 36, 48)
        found["heat"].append(_focal(heat[number], goal) / max(1, len(one.targets)))
        found["offset"].append(((offset[number] - shift).abs() * mask).sum() / max(1.0, float(mask.sum()) * 3))
        found["body"].append(F.binary_cross_entropy_with_logits(body[number], filled, weight=1 + (FILLED_WEIGHT - 1) * filled))
    total = {name: torch.stack(values).mean() for name, values in found.items()}
    told = net.proposer.sides(level, deep).float()  # (B, 3, 2)
    total["spread"] = F.binary_cross_entropy_with_logits(told, torch.stack([one.spread() for one in batch])) * 3
    with torch.no_grad():
        proposed, _ = peaks(heat, offset, PROPOSED)
    return total | close_losses(net, batch, windows, proposed)


def goals(one: Example, shape: tuple[int, ...]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Heat (4, D, H, W), offsets (3, D, H, W), the mask of centre cells (D, H, W) and which cells are filled (4, D, H, W)."""
    heat, offset, mask = torch.zeros(FAMILIES, *shape), torch.zeros(3, *shape), torch.zeros(shape)
    filled = torch.zeros(FAMILIES, *shape)
    for target in one.targets:
        center = cells_of(one, target)
        cell = [int(min(max(round(float(c)), 0), n - 1)) for c, n in zip(center, shape, strict=True)]
        reach = [int(np.ceil(target.size_mm / s)) + 3 for s in CELL_MM]
        box = tuple(slice(max(0, c - r), c + r + 1) for c, r in zip(cell, reach, strict=True))
        away = [torch.arange(n, dtype=torch.float32)[part] - c for n, part, c in zip(shape, box, center, strict=True)]
        grid = torch.meshgrid(*away, indexing="ij")
        scaled = [a * s for a, s in zip(grid, CELL_MM, strict=True)]  # mm
        sigma = [max(0.7, target.size_mm / 6 / s) for s in CELL_MM]
        squared = torch.stack([(a / s) ** 2 for a, s in zip(grid, sigma, strict=True)]).sum(0)
        family = FAMILY[target.kind]
        heat[family][box] = torch.maximum(heat[family][box], torch.exp(-squared / 2))
        filled[family][box] = torch.maximum(filled[family][box], (torch.stack([a**2 for a in scaled]).sum(0).sqrt() <= target.size_mm / 2).float())
        near = tuple(slice(max(0, c - 1), c + 2) for c in cell)
        for axis, (n, c) in enumerate(zip(shape, center, strict=True)):
            view = [1, 1, 1]
            view[axis] = -1
            offset[axis][near] = (c - torch.arange(n, dtype=torch.float32)[near[axis]]).view(view).expand(offset[axis][near].shape)
        mask[near] = 1
        heat[family][tuple(cell)] = 1
    return heat, offset, mask, filled


def _focal(logits: Tensor, goal: Tensor) -> Tensor:
    """Penalty-reduced focal loss (CornerNet, Law and Deng 2018)."""
    p = logits.sigmoid().clamp(1e-5, 1 - 1e-5)
    positive = goal.eq(1).float()
    hit = positive * (1 - p) ** 2 * p.log()
    miss = (1 - positive) * (1 - goal) ** 4 * p**2 * (1 - p).log()
    return -(hit + miss).sum()


def close_losses(net: CompactNet, batch: Sequence[Example], windows: Tensor, proposed: Tensor) -> dict[str, Tensor]:
    """Losses of the close look at what is proposed (B, P, 3) and at what is there."""
    fine, around, place, matches = [], [], [], []
    for number, one in enumerate(batch):
        centers = proposed[number]
        if one.targets:
            chosen = torch.randperm(len(one.targets))[:LOOKED_AT].tolist()
            true = one.voxels(np.array([one.targets[n].center_mm for n in chosen]))
            centers = torch.cat([centers, true + torch.randn_like(true) * torch.tensor(JITTER_VOXELS)])
        points = one.points(centers)
        fine.append(windowed(one.looks(points)).transpose(0, 1))  # (R, 4, 11, 32, 32)
        around.append(crops_at(windows[number], centers))
        place.append(places(torch.from_numpy(points).float(), torch.tensor(one.shift_mm)))
        matches += matched(points, one.targets)
    _, heads = net.roi(torch.cat(fine), torch.cat(around), torch.cat(place))
    return head_losses({name: value.float() for name, value in heads.items()}, matches)


def matched(points: Points, targets: Sequence[Target]) -> list[Target | None]:
    """The target that each point is at."""
    found: list[Target | None] = []
    for point in points:
        near = [(float(np.linalg.norm(point - np.array(target.center_mm))), n) for n, target in enumerate(targets)]
        close = [(d, n) for d, n in near if d <= max(NEAR_MM, targets[n].size_mm / 2)]
        found.append(targets[min(close)[1]] if close else None)
    return found


def head_losses(heads: dict[str, Tensor], matches: Sequence[Target | None]) -> dict[str, Tensor]:
    """Losses of each head (R, width) where it has something to tell."""
    there = torch.tensor([float(match is not None) for match in matches])
    total = {"lesion": F.binary_cross_entropy_with_logits(heads["lesion"][:, 0], there)}
    hits = [(row, match) for row, match in enumerate(matches) if match is not None]
    if hits:
        rows = torch.tensor([row for row, _ in hits])
        total["kind"] = F.cross_entropy(heads["kind"][rows], torch.tensor([match.kind for _, match in hits]))
        total["size"] = F.smooth_l1_loss(heads["size"][rows, 0], torch.tensor([match.size_mm / 10 for _, match in hits]), beta=0.1)
    lungs = [(row, match.lesion) for row, match in hits if match.lesion is not None]
    if lungs:
        rows = torch.tensor([row for row, _ in lungs])
        words = {
            "density": [DENSITIES.index(lesion.density) for _, lesion in lungs],
            "lobe": [LOBES.index(lesion.lobe) for _, lesion in lungs],
            "margin": [MARGINS.index(lesion.margin) for _, lesion in lungs],
        }
        total |= {name: F.cross_entropy(heads[name][rows], torch.tensor(index)) for name, index in words.items()}
        signs = {"calcified": [lesion.calcified for _, lesion in lungs], "retraction": [lesion.retraction for _, lesion in lungs]}
        total |= {name: F.binary_cross_entropy_with_logits(heads[name][rows, 0], torch.tensor(yes).float()) for name, yes in signs.items()}
    return total
