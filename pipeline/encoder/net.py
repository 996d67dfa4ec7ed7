"""The compact encoder's networks: a small 3D CNN that proposes lesion centres, and a second one that looks at each proposal closely."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

STRIDE = (2, 2, 2)  # heat-map cells per canonical voxel (z, y, x)
CROP = (7, 15, 15)  # ROI in canonical voxels: about 44 × 56 × 56 mm
ROI_WIDTH = 48
LEVEL_WIDTH = 32
SIZES = 60  # sizes are also said as one of 60 whole millimetres
HEADS = {"lesion": 1, "kind": 2, "density": 3, "lobe": 3, "size": 1}


def _block(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv3d(inputs, outputs, 3, stride=stride, padding=1, bias=False), nn.GroupNorm(8, outputs), nn.SiLU(inplace=True))


class Proposer(nn.Module):
    """(B, 3, 48, 72, 96) windows → heat-map and offsets on (24, 36, 48) cells, and effusion per side."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = _block(3, 16, 2)
        self.down1 = nn.Sequential(_block(16, 32, 2), _block(32, 32))
        self.down2 = nn.Sequential(_block(32, 48, 2), _block(48, 48))
        self.up1 = nn.Conv3d(48, LEVEL_WIDTH, 1)
        self.mix1 = _block(LEVEL_WIDTH, LEVEL_WIDTH)
        self.up0 = nn.Conv3d(LEVEL_WIDTH, 16, 1)
        self.mix0 = _block(16, 16)
        self.heat = nn.Conv3d(16, 1, 1)
        self.offset = nn.Conv3d(16, 3, 1)
        self.effusion = nn.Linear(2 * LEVEL_WIDTH, 1)
        nn.init.constant_(self.heat.bias, -4.0)  # type: ignore[arg-type]  # the bias exists

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """→ heat (B, 24, 36, 48) logits, offset (B, 3, 24, 36, 48) cells, effusion (B, 2) logits right/left, level (B, 32, 12, 18, 24)."""
        fine = self.stem(x)  # (B, 16, 24, 36, 48)
        middle = self.down1(fine)  # (B, 32, 12, 18, 24)
        coarse = self.down2(middle)  # (B, 48, 6, 9, 12)
        level = self.mix1(middle + F.interpolate(self.up1(coarse), scale_factor=2.0))  # (B, 32, 12, 18, 24)
        fine = self.mix0(fine + F.interpolate(self.up0(level), scale_factor=2.0))  # (B, 16, 24, 36, 48)
        return self.heat(fine)[:, 0], self.offset(fine), self._effusion(level), level

    def _effusion(self, level: Tensor) -> Tensor:
        """One head for both sides, so that a mirrored volume gives mirrored answers; (B, 2) right, left."""
        halves = level.chunk(2, dim=-1)  # x rises towards the patient's left
        pooled = [torch.cat([h.mean((2, 3, 4)), h.amax((2, 3, 4))], dim=1) for h in halves]  # (B, 64)
        return torch.cat([self.effusion(p) for p in pooled], dim=1)


class RoiNet(nn.Module):
    """Crops (R, 3, 7, 15, 15) and places (R, 4) → raw features (R, 48) and one logit block per head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(_block(3, 24), _block(24, 32), _block(32, 48, 2), _block(48, 48, 2))
        self.place = nn.Sequential(nn.Linear(4, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU())
        self.raw = nn.Linear(2 * 48 + 32, ROI_WIDTH)
        self.heads = nn.ModuleDict({name: nn.Linear(ROI_WIDTH, width) for name, width in HEADS.items()})

    def forward(self, crops: Tensor, place: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """`place` is (side ±1, z, y, |x|) of the centre from the lungs' middle, in units of 100 mm."""
        seen = self.body(crops)  # (R, 48, 2, 4, 4)
        pooled = torch.cat([seen.mean((2, 3, 4)), seen.amax((2, 3, 4)), self.place(place)], dim=1)
        raw = F.silu(self.raw(pooled))  # (R, 48)
        return raw, {name: head(raw) for name, head in self.heads.items()}


class CompactNet(nn.Module):
    """Both networks as one set of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.proposer = Proposer()
        self.roi = RoiNet()


def peaks(heat: Tensor, offset: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` strongest local maxima: centres (B, count, 3) in canonical voxels z, y, x, and scores (B, count) in 0…1."""
    score = heat.sigmoid()  # (B, 24, 36, 48)
    kept = score * (F.max_pool3d(score[:, None], 3, stride=1, padding=1)[:, 0] == score)
    top, flat = kept.flatten(1).topk(count, dim=1)  # (B, count)
    z, y, x = (part.float() for part in torch.unravel_index(flat, score.shape[1:]))
    shift = offset.flatten(2).gather(2, flat[:, None].expand(-1, 3, -1))  # (B, 3, count)
    cells = torch.stack([z, y, x], dim=-1) + shift.transpose(1, 2)
    return cells_to_voxels(cells), top


def cells_to_voxels(cells: Tensor) -> Tensor:
    """Heat-map coordinates (…, 3) → canonical voxel coordinates (…, 3): a cell covers two voxels."""
    return cells * torch.tensor(STRIDE, dtype=cells.dtype) + 0.5


def voxels_to_cells(voxels: Tensor) -> Tensor:
    """The way back."""
    return (voxels - 0.5) / torch.tensor(STRIDE, dtype=voxels.dtype)


def crops_at(windows: Tensor, centers: Tensor) -> Tensor:
    """Crops (R, 3, 7, 15, 15) of one study's windows (3, Z, Y, X) around centres (R, 3) in voxels, by linear interpolation."""
    grids = [torch.arange(n, dtype=torch.float32) - (n - 1) / 2 for n in CROP]
    offsets = torch.stack(torch.meshgrid(*grids, indexing="ij"), dim=-1)  # (7, 15, 15, 3)
    points = centers[:, None, None, None, :] + offsets  # (R, 7, 15, 15, 3) z, y, x
    size = torch.tensor(windows.shape[1:], dtype=torch.float32)
    normal = (2 * points / (size - 1) - 1).flip(-1)  # x, y, z in −1…1
    one = windows[None].expand(len(centers), -1, -1, -1, -1)
    return F.grid_sample(one, normal, mode="bilinear", padding_mode="border", align_corners=True)


def places(centers_mm: Tensor, middle_mm: Tensor) -> Tensor:
    """(R, 4) place of centres (R, 3) LPS x, y, z relative to the lungs' middle (3,): side, z, y, |x| / 100 mm."""
    relative = centers_mm - middle_mm
    side = torch.where(relative[:, 0] > 0, 1.0, -1.0)
    return torch.stack([side, relative[:, 2] / 100, relative[:, 1] / 100, relative[:, 0].abs() / 100], dim=1)
