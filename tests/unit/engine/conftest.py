"""Seeded engines, made once."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from pipeline.engine.generate import Engine
from pipeline.engine.seeded import write_seeded_checkpoint

FEATURE_DIM = 12
SEEDS = (0, 1, 2, 3)


@pytest.fixture(scope="session")
def engines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Engine, ...]:
    """One engine per seed."""
    folder = tmp_path_factory.mktemp("seeded")
    for seed in SEEDS:
        write_seeded_checkpoint(folder / str(seed), feature_dim=FEATURE_DIM, seed=seed)
    return tuple(Engine.load(folder / str(seed)) for seed in SEEDS)


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a seeded checkpoint, which nobody may change."""
    folder = tmp_path_factory.mktemp("whole") / "model"
    write_seeded_checkpoint(folder, feature_dim=FEATURE_DIM)
    return folder


@pytest.fixture
def checkpoint(whole: Path, tmp_path: Path) -> Path:
    """A folder with a seeded checkpoint that a test may damage."""
    return shutil.copytree(whole, tmp_path / "model")


def features(seed: int, count: int = 4) -> NDArray[np.float32]:
    """Random features (count, FEATURE_DIM)."""
    return np.random.default_rng(seed).normal(size=(count, FEATURE_DIM)).astype(np.float32)
