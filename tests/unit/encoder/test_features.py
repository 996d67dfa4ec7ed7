from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.encoder.features import load_features, save_features
from pipeline.errors import BadInput
from pipeline.model import Candidate, Features, Side

FEATURES = Features(
    array=np.random.default_rng(0).normal(size=(24, 128)).astype(np.float32),
    encoder="compact",
    version="v",
    preprocessing="p",
    candidates=(Candidate(1, "结节", (-80.0, 1.5, 60.25), Side.RIGHT, "上叶", "磨玻璃", 12.3, 0.91, "2.25.1"),),
    effusion=(Side.LEFT,),
    flags=("第 3 层后间距 10.0 mm，疑缺 1 层",),
)


def test_features_survive_the_disk(tmp_path: Path) -> None:
    save_features(tmp_path / "f.safetensors", FEATURES)
    found = load_features(tmp_path / "f.safetensors")
    np.testing.assert_array_equal(found.array, FEATURES.array)
    assert replace(found, array=FEATURES.array) == FEATURES


def test_the_same_features_give_the_same_bytes(tmp_path: Path) -> None:
    for number in range(5):
        save_features(tmp_path / f"{number}.safetensors", FEATURES)
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_saving_leaves_no_temporary_file(tmp_path: Path) -> None:
    save_features(tmp_path / "f.safetensors", FEATURES)
    assert [path.name for path in tmp_path.iterdir()] == ["f.safetensors"]


@pytest.mark.parametrize("content", [b"", b"not a tensor file", b"\xff" * 64])
def test_a_damaged_file_is_bad_input(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "f.safetensors").write_bytes(content)
    with pytest.raises(BadInput, match="cannot be read"):
        load_features(tmp_path / "f.safetensors")


def test_a_missing_file_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        load_features(tmp_path / "none.safetensors")


def test_a_file_cut_short_is_bad_input(tmp_path: Path) -> None:
    path = tmp_path / "f.safetensors"
    save_features(path, FEATURES)
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadInput):
        load_features(path)
