"""The compact encoder's networks: a small 3D CNN that proposes lesion centres, and a second one that looks at each proposal closely."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

FOLD = 2  # canonical voxels side by side in a slice, along y and x, that the networks see as channels of one place
SPLIT = 2  # heat-map cells along y and x per place of the finest feature map
STRIDE = (2, 2 * FOLD // SPLIT, 2 * FOLD // SPLIT)  # canonical voxels per heat-map cell (z, y, x)
CHANNELS = 4  # windows of one volume
KINDS = ("结节", "实变", "淋巴结", "囊肿", "血管瘤", "低密度灶")
FAMILY = (0, 1, 2, 3, 3, 3)  # heat-map of each kind: lung nodule, consolidation, node, lesion of the liver
FAMILIES = 4
CROP = (7, 15, 15)  # surroundings in places, FOLD voxels wide in a slice: about 38 × 56 × 56 mm
FINE = (11, 32, 32)  # the close look, in steps of FINE_MM
FINE_MM = (3.0, 1.5, 1.5)
ROI_WIDTH = 48
SLICE_WIDTH, STEM_WIDTH, FINE_WIDTH = 16, 32, 24
LEVEL_WIDTH = 32
DEEP_WIDTH = 64
SIZES = 60  # sizes are also said as one of 60 whole millimetres
HEADS = {"lesion": 1, "kind": len(KINDS), "density": 3, "lobe": 3, "margin": 4, "calcified": 1, "retraction": 1, "size": 1}
SPREAD = ("effusion", "emphysema", "fibrosis")  # what is told per side


def _block(inputs: int, outputs: int, stride: int = 1, size: tuple[int, int, int] = (3, 3, 3)) -> nn.Sequential:
    padding = (size[0] // 2, size[1] // 2, size[2] // 2)
    conv = nn.Conv3d(inputs, outputs, size, stride=stride, padding=padding, bias=False)
    return nn.Sequential(conv, nn.GroupNorm(8, outputs), nn.SiLU(inplace=True))


class Proposer(nn.Module):
    """(B, 16, 56, 72, 96) folded windows → a heat-map per family and offsets on (28, 72, 96) cells, and what is told per side."""

    def __init__(self) -> None:
        super().__init__()
        self.slices = _block(CHANNELS * FOLD * FOLD, SLICE_WIDTH, size=(1, 3, 3))  # tells a ball from a vessel while both are still apart
        self.stem = _block(SLICE_WIDTH, STEM_WIDTH, 2)
        self.down1 = nn.Sequential(_block(STEM_WIDTH, LEVEL_WIDTH, 2), _block(LEVEL_WIDTH, LEVEL_WIDTH))
        self.down2 = nn.Sequential(_block(LEVEL_WIDTH, DEEP_WIDTH, 2), _block(DEEP_WIDTH, DEEP_WIDTH))
        self.up1 = nn.Conv3d(DEEP_WIDTH, LEVEL_WIDTH, 1)
        self.mix1 = _block(LEVEL_WIDTH, LEVEL_WIDTH)
        self.up0 = nn.Conv3d(LEVEL_WIDTH, STEM_WIDTH, 1)
        self.mix0 = _block(STEM_WIDTH, FINE_WIDTH)
        self.heat = nn.Conv3d(FINE_WIDTH, FAMILIES * SPLIT * SPLIT, 1)
        self.offset = nn.Conv3d(FINE_WIDTH, 3 * SPLIT * SPLIT, 1)
        self.body = nn.Conv3d(FINE_WIDTH, FAMILIES, 1)  # which places a lesion fills: asked in training only
        self.spread = nn.Linear(2 * (LEVEL_WIDTH + DEEP_WIDTH), len(SPREAD))
        for head in (self.heat, self.body):
            nn.init.constant_(head.bias, -4.0)  # type: ignore[arg-type]  # the bias exists

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """→ heat (B, 4, 28, 72, 96) logits, offset (B, 3, 28, 72, 96) cells, spread (B, 3, 2) logits of right and left, level (B, 32, 14, 18, 24)."""
        fine, level, deep = self.pyramid(x)
        return *self.centers(fine), self.sides(level, deep), level

    def pyramid(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Feature maps: fine (B, 24, 28, 36, 48), level (B, 32, 14, 18, 24), deep (B, 64, 7, 9, 12)."""
        stem = self.stem(self.slices(x))  # (B, 32, 28, 36, 48)
        middle = self.down1(stem)  # (B, 32, 14, 18, 24)
        deep = self.down2(middle)  # (B, 64, 7, 9, 12)
        level = self.mix1(middle + F.interpolate(self.up1(deep), scale_factor=2.0))  # (B, 32, 14, 18, 24)
        fine = self.mix0(stem + F.interpolate(self.up0(level), scale_factor=2.0))  # (B, 24, 28, 36, 48)
        return fine, level, deep

    def centers(self, fine: Tensor) -> tuple[Tensor, Tensor]:
        """Heat (B, 4, 28, 72, 96) logits and offsets (B, 3, 28, 72, 96) in cells."""
        return spread_out(self.heat(fine)), spread_out(self.offset(fine))

    def sides(self, level: Tensor, deep: Tensor) -> Tensor:
        """One head for both sides, so that a mirrored volume gives mirrored answers; (B, 3, 2) right, left."""
        told = []
        for half, low in zip(level.chunk(2, dim=-1), deep.chunk(2, dim=-1), strict=True):  # x rises towards the patient's left
            pooled = [part for block in (half, low) for part in (block.mean((2, 3, 4)), block.amax((2, 3, 4)))]
            told.append(self.spread(torch.cat(pooled, dim=1)))  # (B, 3)
        return torch.stack(told, dim=-1)


def spread_out(packed: Tensor) -> Tensor:
    """(B, 4·C, Z, Y, X) → (B, C, Z, 2·Y, 2·X): channels that stood for neighbours within a slice, side by side."""
    return F.pixel_shuffle(packed.transpose(1, 2), SPLIT).transpose(1, 2)


class RoiNet(nn.Module):
    """A close look (R, 4, 11, 32, 32), the surroundings (R, 4, 7, 15, 15) and the place (R, 4) → raw features (R, 48) and a logit block per head."""

    def __init__(self) -> None:
        super().__init__()
        self.close = nn.Sequential(_block(CHANNELS, 16), _block(16, 32, 2), _block(32, 32), _block(32, 64, 2), _block(64, 64))
        self.around = nn.Sequential(_block(CHANNELS, 16), _block(16, 32, 2), _block(32, 32))
        self.place = nn.Sequential(nn.Linear(4, 32), nn.SiLU(), nn.Linear(32, 32), nn.SiLU())
        self.mix = nn.Sequential(nn.Linear(2 * 64 + 2 * 32 + 32, 96), nn.SiLU())
        self.raw = nn.Linear(96, ROI_WIDTH)
        self.heads = nn.ModuleDict({name: nn.Linear(ROI_WIDTH, width) for name, width in HEADS.items()})

    def forward(self, fine: Tensor, crops: Tensor, place: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """`place` is (side ±1, z, y, |x|) of the centre from the lungs' middle, in units of 100 mm."""
        close, around = self.close(fine), self.around(crops)  # (R, 64, 3, 8, 8), (R, 32, 4, 8, 8)
        pooled = [part for block in (close, around) for part in (block.mean((2, 3, 4)), block.amax((2, 3, 4)))]
        raw = F.silu(self.raw(self.mix(torch.cat([*pooled, self.place(place)], dim=1))))  # (R, 48)
        return raw, {name: head(raw) for name, head in self.heads.items()}


class CompactNet(nn.Module):
    """Both networks as one set of weights."""

    def __init__(self) -> None:
        super().__init__()
        self.proposer = Proposer()
        self.roi = RoiNet()


def peaks(heat: Tensor, offset: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` strongest local maxima over all families: centres (B, count, 3) in canonical voxels z, y, x, and scores (B, count) in 0…1."""
    score = heat.sigmoid().amax(dim=1)  # (B, 28, 72, 96)
    kept = score * (F.max_pool3d(score[:, None], 3, stride=1, padding=1)[:, 0] == score)
    top, flat = kept.flatten(1).topk(count, dim=1)  # (B, count)
    z, y, x = (part.float() for part in torch.unravel_index(flat, score.shape[1:]))
    shift = offset.flatten(2).gather(2, flat[:, None].expand(-1, 3, -1))  # (B, 3, count)
    cells = torch.stack([z, y, x], dim=-1) + shift.transpose(1, 2)
    return cells_to_voxels(cells), top


def cells_to_voxels(cells: Tensor) -> Tensor:
    """Heat-map coordinates (…, 3) → canonical voxel coordinates (…, 3): a cell covers STRIDE voxels."""
    stride = torch.tensor(STRIDE, dtype=cells.dtype)
    return cells * stride + (stride - 1) / 2


def voxels_to_cells(voxels: Tensor) -> Tensor:
    """The way back."""
    stride = torch.tensor(STRIDE, dtype=voxels.dtype)
    return (voxels - (stride - 1) / 2) / stride


def crops_at(windows: Tensor, centers: Tensor) -> Tensor:
    """Crops (R, 4, 7, 15, 15) of one study's folded windows (16, 56, 72, 96) around centres (R, 3) in voxels, by linear interpolation."""
    coarse = windows.reshape(CHANNELS, FOLD * FOLD, *windows.shape[1:]).mean(dim=1)  # (4, 56, 72, 96)
    centers = (centers - torch.tensor([0.0, (FOLD - 1) / 2, (FOLD - 1) / 2])) / torch.tensor([1.0, FOLD, FOLD])
    grids = [torch.arange(n, dtype=torch.float32) - (n - 1) / 2 for n in CROP]
    offsets = torch.stack(torch.meshgrid(*grids, indexing="ij"), dim=-1)  # (7, 15, 15, 3)
    points = centers[:, None, None, None, :] + offsets  # (R, 7, 15, 15, 3) z, y, x
    size = torch.tensor(coarse.shape[1:], dtype=torch.float32)
    normal = (2 * points / (size - 1) - 1).flip(-1)  # x, y, z in −1…1
    one = coarse[None].expand(len(centers), -1, -1, -1, -1)
    return F.grid_sample(one, normal, mode="bilinear", padding_mode="border", align_corners=True)


def places(centers_mm: Tensor, middle_mm: Tensor) -> Tensor:
    """(R, 4) place of centres (R, 3) LPS x, y, z relative to the lungs' middle (3,): side, z, y, |x| / 100 mm."""
    relative = centers_mm - middle_mm
    side = torch.where(relative[:, 0] > 0, 1.0, -1.0)
    return torch.stack([side, relative[:, 2] / 100, relative[:, 1] / 100, relative[:, 0].abs() / 100], dim=1)
