"""Yarn stretches slow rotations only, is plain RoPE at factor 1, and equals transformers' reading of the same block."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.checkpoint import load, save
from pipeline.engine.config import ModelConfig
from pipeline.engine.rope import Yarn, angles, frequencies, plain, rotate
from pipeline.engine.seeded import seeded_model, tiny_config
from tests.unit.engine.shapes import TOKENIZER

BLOCKS = {
    "DeepSeek-V3": Yarn(40.0, 64, 32, 1, 1.0, 1.0),
    "without mscale_all_dim": Yarn(4.0, 64),
    "two mscales": Yarn(8.0, 32, 16, 2, 0.7, 1.3),
    "a ramp of no width": Yarn(2.0, 64, 1, 1, 1.0, 1.0),
}


def write(folder: Path, yarn: Yarn | None) -> ModelConfig:
    config = replace(tiny_config(TOKENIZER, 12), rope_scaling=yarn)
    save(folder, seeded_model(config, TOKENIZER), TOKENIZER, {"use": "test-only"}, "")
    return config


@pytest.mark.parametrize("name", BLOCKS)
def test_logits_under_yarn_equal_those_of_transformers(tmp_path: Path, name: str) -> None:
    transformers = pytest.importorskip("transformers")
    logging.getLogger("transformers").setLevel(logging.ERROR)  # it reports the MTP layer that it does not load
    assert load_config(tmp_path, BLOCKS[name]).rope_scaling == BLOCKS[name]
    ours = load(tmp_path).model
    other = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32)
    ids = torch.randint(4, ours.config.vocab_size, (2, 150), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        assert torch.allclose(ours.logits(ours(ids)), other(ids).logits, atol=1e-4)


def load_config(folder: Path, yarn: Yarn | None) -> ModelConfig:
    write(folder, yarn)
    return load(folder).model.config


def test_a_config_without_a_block_is_plain_rope_and_is_written_with_factor_one(tmp_path: Path) -> None:
    config = load_config(tmp_path, None)
    assert config.rope_scaling == plain(config.max_position_embeddings)
    assert config.softmax_scale == pytest.approx(config.head_dim**-0.5)
    assert replace(config, rope_scaling=None).to_json() == config.to_json()


def test_at_factor_one_every_frequency_is_that_of_plain_rope() -> None:
    expected = torch.tensor([10000.0 ** (-2 * pair / 16) for pair in range(8)])
    assert torch.allclose(frequencies(16, 10000.0, plain(2048)), expected)
    cos, sin = angles(16, 10000.0, plain(2048), 5)
    assert torch.allclose(cos[4], (4 * expected).cos(), atol=1e-6)
    assert torch.allclose(sin[4], (4 * expected).sin(), atol=1e-6)


@given(factor=st.floats(1, 100), length=st.integers(16, 100_000), theta=st.floats(100, 1e6), pairs=st.integers(1, 40))
@settings(deadline=None)
def test_frequencies_lie_between_the_stretched_and_the_plain(factor: float, length: int, theta: float, pairs: int) -> None:
    fast = frequencies(2 * pairs, theta, plain(length))
    found = frequencies(2 * pairs, theta, Yarn(factor, length))
    assert bool((found <= fast * (1 + 1e-5)).all())
    assert bool((found >= fast / factor * (1 - 1e-5)).all())
    assert bool((found[1:] <= found[:-1] * (1 + 1e-5)).all())


def test_mscale_follows_the_logarithm_of_the_factor() -> None:
    yarn = Yarn(40.0, 4096, mscale=1.0, mscale_all_dim=1.0)
    assert yarn.amplitude == 1.0
    assert yarn.temperature == pytest.approx((0.1 * math.log(40) + 1) ** 2)
    assert Yarn(40.0, 4096).amplitude == pytest.approx(0.1 * math.log(40) + 1)
    assert Yarn(40.0, 4096).temperature == 1.0


def test_rotated_rows_depend_on_distance_only() -> None:
    turn = angles(8, 10000.0, plain(64), 64)
    one, other = torch.randn(2, 8, generator=torch.Generator().manual_seed(0))
    turned = [rotate(row.expand(64, 8), turn) for row in (one, other)]  # each (64, 8)
    assert torch.allclose(turned[0][10] @ turned[1][7], turned[0][50] @ turned[1][47], atol=1e-4)
