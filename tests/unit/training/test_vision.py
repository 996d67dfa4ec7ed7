from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch

from pipeline.encoder.compact import CompactEncoder, folded, shown_to_proposer
from pipeline.encoder.net import FAMILIES, FOLD, STRIDE, CompactNet, cells_to_voxels, crops_at, peaks, voxels_to_cells
from pipeline.imaging.canonical import SHAPE
from pipeline.training.examples import Example, example
from pipeline.training.run import save_encoder
from pipeline.training.vision import share_at, train_vision
from pipeline.training.vision_losses import goals, losses

CELLS = tuple(n // step for n, step in zip(SHAPE, STRIDE, strict=True))
SEEDS = [seed for seed in range(60) if example(seed).targets][:4]


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_targets_lead_back_to_what_is_there(seed: int, mirrored: bool) -> None:
    one = replace(example(seed), mirrored=mirrored)
    heat, offset, _, _ = goals(one, CELLS)
    logits = torch.logit(heat.clamp(1e-4, 1 - 1e-4))
    voxels, scores = peaks(logits[None], offset[None], len(one.targets))
    points = one.points(voxels[0])
    assert (scores > 0.99).all()
    for target in one.targets:
        assert min(math.dist(point, target.center_mm) for point in points.tolist()) < 0.5


def test_cells_and_voxels_are_inverse() -> None:
    voxels = torch.tensor([[0.0, 10.5, 191.0], [47.0, 143.0, 3.25]])
    torch.testing.assert_close(cells_to_voxels(voxels_to_cells(voxels)), voxels)


@pytest.mark.parametrize("mirrored", [False, True])
def test_points_and_voxels_are_inverse_and_the_mirror_turns_x_alone(mirrored: bool) -> None:
    one = replace(example(SEEDS[0]), mirrored=mirrored)
    voxels = torch.tensor([[5.0, 10.5, 90.0]])
    torch.testing.assert_close(one.voxels(one.points(voxels)), voxels, atol=1e-3, rtol=0)
    own = replace(one, mirrored=False).points(torch.tensor([[5.0, 10.5, SHAPE[2] - 1 - 90.0 if mirrored else 90.0]]))
    np.testing.assert_allclose(one.points(voxels), own, atol=1e-6)


def test_a_crop_is_centred_on_its_point() -> None:
    hu = np.full(SHAPE, -1024.0, dtype=np.float32)
    hu[20, 60:62, 80:82] = 3000.0  # one place: two voxels by two
    (crop,) = crops_at(shown_to_proposer(hu), torch.tensor([[20.0, 60.5, 80.5]]))
    assert crop.shape == (4, 7, 15, 15)
    for window in crop:
        assert window.argmax() == np.ravel_multi_index((3, 7, 7), (7, 15, 15))
        assert window.max() == pytest.approx(1.0, abs=1e-3)


def test_folding_loses_nothing_and_keeps_neighbours_together() -> None:
    hu = np.random.default_rng(0).normal(size=(2, 6, 8)).astype(np.float32)
    parts = folded(hu)
    assert parts.shape == (FOLD * FOLD, 2, 3, 4)
    for y, x in product(range(FOLD), range(FOLD)):
        np.testing.assert_array_equal(parts[FOLD * y + x], hu[:, y::FOLD, x::FOLD])


def test_crowded_phantoms_hold_more_and_smaller_lesions_and_those_of_a_seed_are_the_same_without() -> None:
    usual, crowded = [example(seed) for seed in range(40)], [example(seed, crowded=True) for seed in range(40)]
    sizes = [[t.size_mm for one in group for t in one.targets if t.lesion is not None and t.lesion.kind == "结节"] for group in (usual, crowded)]
    assert len(sizes[1]) > 2.5 * len(sizes[0])
    assert np.median(sizes[1]) < np.median(sizes[0])


def _dense(seeds: range) -> tuple[Example, int]:
    """A phantom with a dense nodule, and the nodule's number."""
    for seed in seeds:
        one = example(seed)
        for number, target in enumerate(one.targets):
            if target.lesion is not None and target.lesion.density == "实性" and target.size_mm >= 14:
                return one, number
    raise AssertionError("no seed has a large solid lesion")


@pytest.mark.parametrize("mirrored", [False, True])
def test_a_close_look_is_centred_on_what_it_looks_at_and_is_mirrored_with_the_volume(mirrored: bool) -> None:
    one, number = _dense(range(60))
    one = replace(one, mirrored=mirrored)
    center = np.array(one.targets[number].center_mm)
    aside = center + np.array([9.0, 0.0, 0.0])  # to the patient's left: as shown, left of the middle where mirrored
    look, beside = one.looks(np.stack([center, aside]))
    middle = look[4:7, 14:18, 14:18].mean()
    assert middle > -150.0
    columns = slice(20, 24) if mirrored else slice(8, 12)  # where the lesion stands in the picture
    towards = beside[4:7, 14:18, columns].mean()
    assert towards == pytest.approx(middle, abs=150.0)


def test_a_mirrored_volume_gives_mirrored_answers_about_its_sides() -> None:
    torch.manual_seed(0)
    net = CompactNet().eval()
    level, deep = torch.rand(1, 32, 14, 18, 12), torch.rand(1, 64, 7, 9, 6)
    other, low = torch.rand(1, 32, 14, 18, 12), torch.rand(1, 64, 7, 9, 6)
    right, left = net.proposer.sides(torch.cat([level, other], dim=-1), torch.cat([deep, low], dim=-1)).unbind(-1)
    swapped = net.proposer.sides(torch.cat([other, level], dim=-1), torch.cat([low, deep], dim=-1))
    torch.testing.assert_close(swapped, torch.stack([left, right], dim=-1))


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


def test_what_fills_a_cell_belongs_to_its_family() -> None:
    for seed in SEEDS:
        one = example(seed)
        _, _, _, filled = goals(one, CELLS)
        assert filled.shape == (FAMILIES, *CELLS)
        assert int(filled.amax((1, 2, 3)).sum()) <= len(one.targets)


def test_training_goes_on_where_a_leg_stopped(tmp_path: Path) -> None:
    _, first, done = train_vision(tmp_path, budget_s=3.0, seed=1, leg_s=1.0)
    assert not done
    assert first >= 1
    net, second, done = train_vision(tmp_path, budget_s=3.0, seed=1)
    assert done
    assert second > first
    again, third, done = train_vision(tmp_path, budget_s=3.0, seed=1)
    assert (third, done) == (second, True)
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, again.state_dict()[name], rtol=0, atol=0)


def test_the_rate_warms_up_and_falls_to_the_end() -> None:
    assert share_at(0, 0.0) < share_at(50, 0.0) < share_at(200, 0.0)
    assert share_at(200, 0.0) > share_at(200, 0.5) > share_at(200, 1.0) > 0


def test_saved_weights_are_read_by_the_encoder(tmp_path: Path) -> None:
    save_encoder(CompactNet(), tmp_path, seed=3, steps=0, minutes=1.0)
    assert CompactEncoder.load(tmp_path).card["use"] == "phantom-only"
    assert (tmp_path / "compact.safetensors").stat().st_mode & 0o044 == 0o044
    assert json.loads((tmp_path / "card.json").read_text(encoding="utf-8"))["training"]["steps"] == 0
