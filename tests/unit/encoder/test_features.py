from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from pipeline.encoder.features import load_features, save_features
from pipeline.errors import BadInput
from pipeline.model import Candidate, Features, Frame, Side

FEATURES = Features(
    array=np.random.default_rng(0).normal(size=(24, 128)).astype(np.float32),
    encoder="compact",
    version="v",
    preprocessing="p",
    candidates=(Candidate(1, "结节", (-80.0, 1.5, 60.25), Side.RIGHT, "上叶", "磨玻璃", 12.3, 0.91, "2.25.1", 4, "毛刺", False, True),),
    effusion=(Side.LEFT,),
    flags=("第 3 层后间距 10.0 mm，疑缺 1 层",),
    source="d",
    covers=("肺", "肝"),
    contrast=True,
    noise_hu=31.5,
    denoised=True,
    key_slices=(("2.25.1", 1), ("2.25.7", 3)),
    frame=Frame((-140.5, -90.0, -250.0, 150.0, 95.25, 10.0), 3.5, 1.0, 1.25),
    emphysema=(Side.LEFT, Side.RIGHT),
    fibrosis=(),
    ood=3.25,
)


def test_features_survive_the_disk(tmp_path: Path) -> None:
    save_features(tmp_path / "f.safetensors", FEATURES)
    found = load_features(tmp_path / "f.safetensors")
    np.testing.assert_array_equal(found.array, FEATURES.array)
    assert replace(found, array=FEATURES.array) == FEATURES


@pytest.mark.parametrize("place", [-1, -5000, -12_288])
def test_one_wrong_bit_is_noticed(tmp_path: Path, place: int) -> None:
    path = tmp_path / "f.safetensors"
    save_features(path, FEATURES)
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(BadInput, match="SHA-256"):
        load_features(path)


def test_what_nobody_looked_at_stays_unknown(tmp_path: Path) -> None:
    unseen = replace(FEATURES.candidates[0], lobe=None, density=None, margin=None, calcified=None, retraction=None)
    unknown = replace(FEATURES, effusion=None, contrast=None, noise_hu=None, candidates=(unseen,), emphysema=None, fibrosis=None, ood=None)
    save_features(tmp_path / "f.safetensors", unknown)
    assert replace(load_features(tmp_path / "f.safetensors"), array=FEATURES.array) == unknown


def test_a_file_of_the_older_format_is_still_read(tmp_path: Path) -> None:
    old = {"encoder": "compact", "version": "v", "preprocessing": "p", "candidates": [], "effusion": ["左"], "flags": [], "phantom_only": True}
    header = {"ctreport": json.dumps({"format": "ctreport-features-1", **old})}
    save_file({"features": FEATURES.array}, tmp_path / "f.safetensors", metadata=header)
    found = load_features(tmp_path / "f.safetensors")
    assert (found.effusion, found.covers, found.contrast, found.denoised, found.frame) == ((Side.LEFT,), (), None, False, None)


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


@pytest.mark.parametrize(
    "rot", [('"encoder"', '"encodes"'), ('"center_mm": [', '"center_mm": 1, "x": ['), ('"side": "', '"side": "_'), ("{", "[1, {")]
)
def test_a_header_that_rotted_is_bad_input(tmp_path: Path, rot: tuple[str, str]) -> None:
    path = tmp_path / "f.safetensors"
    save_features(path, FEATURES)
    with safe_open(path, framework="numpy") as file:
        header = file.metadata()["ctreport"]
    assert rot[0] in header
    rotten = header.replace(*rot) + ("]" if rot[0] == "{" else "")
    save_file({"features": FEATURES.array}, path, metadata={"ctreport": rotten})
    with pytest.raises(BadInput):
        load_features(path)
