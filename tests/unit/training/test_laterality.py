from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pipeline.imaging.laterality import PIXELS, SideCheck
from pipeline.training import laterality
from pipeline.training.chest_slices import chest_slice


@pytest.fixture(scope="module")
def slices() -> laterality.Pool:
    made = [chest_slice(np.random.default_rng(seed)) for seed in range(20)] + laterality.phantom_slices(5)
    hu = np.stack([np.rint(one.hu).astype(np.int16) for one in made])
    return hu, np.stack([one.right * np.uint8(laterality.RIGHT) + one.left * np.uint8(laterality.LEFT) for one in made])


def test_a_phantom_gives_slices_with_a_lung_on_either_side() -> None:
    made = laterality.phantom_slices(5)
    assert len(made) == laterality.PER_PHANTOM
    for one in made:
        assert np.flatnonzero(one.right.any(axis=0)).max() < PIXELS / 2 < np.flatnonzero(one.left.any(axis=0)).max()


def test_a_step_sees_the_same_batch_every_time(slices: laterality.Pool) -> None:
    (one, labels), (other, again) = (laterality.batch(slices, 11) for _ in range(2))
    np.testing.assert_array_equal(one.numpy(), other.numpy())
    np.testing.assert_array_equal(labels.numpy(), again.numpy())


def test_pictures_are_windowed_and_masks_are_masks(slices: laterality.Pool) -> None:
    pixels, labels = laterality.batch(slices, 3)
    assert pixels.shape == (laterality.BATCH, 2, PIXELS, PIXELS)
    assert float(pixels.min()) >= 0
    assert float(pixels.max()) <= 1
    assert set(np.unique(pixels[:, 1].numpy())) <= {0.0, 1.0}
    assert set(labels.tolist()) == {0, 1}


def test_where_a_lung_lies_in_the_picture_tells_nothing(slices: laterality.Pool) -> None:
    """Of either lung, about half lies in the left half of the picture."""
    halves: dict[int, list[bool]] = {0: [], 1: []}
    for seed in range(12):
        pixels, labels = laterality.batch(slices, seed)
        columns = pixels[:, 1].sum(dim=1)  # (B, X)
        for label, row in zip(labels.tolist(), columns, strict=True):
            halves[label].append(bool(row[: PIXELS // 2].sum() > row[PIXELS // 2 :].sum()))
    assert all(0.4 < np.mean(found) < 0.6 for found in halves.values())


def test_training_makes_weights_with_a_card_and_a_second_run_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(laterality, "PATIENTS", 6)
    monkeypatch.setattr(laterality, "PHANTOMS", 1)
    monkeypatch.setattr(laterality, "BATCH", 4)
    work, out = tmp_path / "work", tmp_path / "out"
    laterality.train_laterality(work, out, seed=2, budget_minutes=0.01)
    weights = (out / "side.safetensors").read_bytes()
    card = json.loads((out / "card.json").read_text(encoding="utf-8"))["side"]
    assert card["training"]["steps"] >= 1
    assert SideCheck.load(out).card == card
    laterality.train_laterality(work, out, seed=2, budget_minutes=0.01)
    assert (out / "side.safetensors").read_bytes() == weights  # the budget was spent already
