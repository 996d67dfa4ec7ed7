from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.encoder.compact import CompactEncoder
from pipeline.engine.generate import Engine
from pipeline.training.dataset import read_dataset
from pipeline.training.run import train

LEGS = 8


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_whole_training_runs_in_legs_and_a_further_run_changes_nothing(tmp_path: Path) -> None:
    work, engine, encoder = tmp_path / "work", tmp_path / "engine", tmp_path / "encoder"

    def leg(minutes: float) -> bool:
        return train(work, engine, encoder, seed=1, budget_minutes=0.3, leg_minutes=minutes, known=8)

    assert not leg(0.05)
    assert not engine.exists()
    assert any(leg(0.4) for _ in range(LEGS))
    assert CompactEncoder.load(encoder).card["training"]["steps"] >= 1
    assert Engine.load(engine).card
    weights, views = (encoder / "compact.safetensors").read_bytes(), len(read_dataset(work / "data"))
    assert leg(0.4)
    assert (encoder / "compact.safetensors").read_bytes() == weights
    assert len(read_dataset(work / "data")) >= views
