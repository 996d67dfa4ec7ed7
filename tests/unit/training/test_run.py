from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.encoder.compact import CompactEncoder
from pipeline.engine.generate import Engine
from pipeline.training.dataset import read_dataset
from pipeline.training.run import train


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_whole_training_runs_and_a_second_run_resumes(tmp_path: Path) -> None:
    work, engine, encoder = tmp_path / "work", tmp_path / "engine", tmp_path / "encoder"
    train(work, engine, encoder, seed=1, budget_minutes=0.1)
    assert CompactEncoder.load(encoder).card["training"]["steps"] >= 1
    assert Engine.load(engine).card
    weights, views = (encoder / "compact.safetensors").read_bytes(), len(read_dataset(work / "data"))
    train(work, engine, encoder, seed=1, budget_minutes=0.1)
    assert (encoder / "compact.safetensors").read_bytes() == weights
    assert len(read_dataset(work / "data")) >= views
