from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.encoder.net import CompactNet, cells_to_voxels, crops_at, peaks, voxels_to_cells
from pipeline.imaging.canonical import SHAPE
from pipeline.training.run import save_encoder
from pipeline.training.vision import example, heat_target, losses, voxels_to_mm

SEEDS = [seed for seed in range(60) if example(seed).lesions][:5]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_targets_lead_back_to_the_lesions(seed: int) -> None:
    one = example(seed)
    heat, offset, _ = heat_target(one.centers, [lesion.size_mm for lesion in one.lesions], (24, 36, 48))
    logits = torch.logit(heat.clamp(1e-4, 1 - 1e-4))
    voxels, scores = peaks(logits[None], offset[None], len(one.lesions))
    points = voxels_to_mm(voxels[0], one.shift_mm)
    assert (scores > 0.99).all()
    for lesion in one.lesions:
        assert min(math.dist(point, lesion.center_mm) for point in points.tolist()) < 0.5


def test_cells_and_voxels_are_inverse() -> None:
    voxels = torch.tensor([[0.0, 10.5, 95.0], [47.0, 71.0, 3.25]])
    torch.testing.assert_close(cells_to_voxels(voxels_to_cells(voxels)), voxels)


def test_a_crop_is_centred_on_its_point() -> None:
    windows = torch.zeros(3, *SHAPE)
    windows[:, 20, 30, 40] = 1.0
    (crop,) = crops_at(windows, torch.tensor([[20.0, 30.0, 40.0]]))
    assert crop[0].argmax() == np.ravel_multi_index((3, 7, 7), (7, 15, 15))
    assert crop[0].max() == pytest.approx(1.0, abs=1e-4)


def test_a_mirrored_volume_gives_mirrored_effusion() -> None:
    torch.manual_seed(0)
    net = CompactNet().eval()
    halves = torch.rand(1, 32, 12, 18, 12)
    both = torch.cat([halves, halves], dim=-1)  # the same on either side
    right, left = net.proposer._effusion(both)[0].tolist()
    assert right == pytest.approx(left, abs=1e-5)


def test_a_few_steps_lower_the_loss() -> None:
    torch.manual_seed(0)
    net, batch = CompactNet(), [example(seed) for seed in SEEDS[:2]]
    optimizer = torch.optim.AdamW(net.parameters(), lr=2e-3)
    seen = []
    for _ in range(6):
        total = torch.stack(list(losses(net, batch).values())).sum()
        optimizer.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]  # torch
        optimizer.step()
        seen.append(float(total.detach()))
    assert seen[-1] < seen[0]


def test_saved_weights_are_read_by_the_encoder(tmp_path: Path) -> None:
    from pipeline.encoder.compact import CompactEncoder

    save_encoder(CompactNet(), tmp_path, seed=3, steps=0)
    assert CompactEncoder.load(tmp_path).card["use"] == "phantom-only"
    assert (tmp_path / "compact.safetensors").stat().st_mode & 0o044 == 0o044
