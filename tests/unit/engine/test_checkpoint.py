"""A checkpoint comes back as it was saved, under the published names. What a damaged one is refused with stands in test_check.py."""

from __future__ import annotations

import json
from pathlib import Path

from safetensors.torch import load_file

from pipeline.engine import checkpoint as checkpoints
from pipeline.engine.seeded import write_seeded_checkpoint


def test_saving_what_was_loaded_gives_the_same_digest(checkpoint: Path, tmp_path: Path) -> None:
    found = checkpoints.load(checkpoint)
    assert checkpoints.save(tmp_path / "copy", found.model, found.tokenizer, found.card, "again") == found.digest


def test_the_same_seed_gives_the_same_digest(tmp_path: Path) -> None:
    first, second = (write_seeded_checkpoint(tmp_path / name, feature_dim=3, seed=7) for name in "ab")
    assert first == second != write_seeded_checkpoint(tmp_path / "c", feature_dim=3, seed=8)


def test_weights_have_the_published_names(checkpoint: Path) -> None:
    names = set(load_file(checkpoint / "model.safetensors"))
    mtp = {"enorm.weight", "hnorm.weight", "eh_proj.weight", "shared_head.norm.weight", "shared_head.head.weight", "embed_tokens.weight"}
    assert {f"model.layers.2.{name}" for name in mtp} <= names
    assert {"model.layers.1.mlp.experts.3.gate_proj.weight", "model.layers.1.mlp.gate.e_score_correction_bias"} <= names


def test_two_layers_are_saved_and_loaded_under_their_own_names(tmp_path: Path) -> None:
    written = write_seeded_checkpoint(tmp_path / "mlp", feature_dim=12, projector="mlp")
    names = {name for name in load_file(tmp_path / "mlp" / "model.safetensors") if name.startswith("ct_projector.")}
    assert names == {f"ct_projector.linear_{layer}.{part}" for layer in (1, 2) for part in ("weight", "bias")}
    found = checkpoints.load(tmp_path / "mlp")
    assert found.model.config.ct_projector_type == "mlp"
    assert checkpoints.save(tmp_path / "again", found.model, found.tokenizer, found.card, "again") == written


def test_a_linear_projector_leaves_no_trace_in_the_config(checkpoint: Path) -> None:
    assert "ct_projector_type" not in json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
