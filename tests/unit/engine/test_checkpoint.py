"""A checkpoint comes back as it was saved, and a damaged one is refused with what, which value and what to do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from pipeline.engine import checkpoint as checkpoints
from pipeline.engine.config import PROJECTORS, Projector
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.errors import ModelMissing


def edit_weights(folder: Path, change: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def edit_json(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")


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


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelMissing, match=r"'nowhere' does not exist; set .* or run `ctreport train`"):
        checkpoints.load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "card.json"])
def test_a_missing_file_is_named(checkpoint: Path, name: str) -> None:
    (checkpoint / name).unlink()
    with pytest.raises(ModelMissing, match=name):
        checkpoints.load(checkpoint)


def test_missing_mtp_weights_are_named(checkpoint: Path) -> None:
    edit_weights(checkpoint, lambda tensors: tensors.__delitem__("model.layers.2.eh_proj.weight"))
    with pytest.raises(ModelMissing, match="no complete MTP layer"):
        checkpoints.load(checkpoint)


def test_a_missing_expert_is_named(checkpoint: Path) -> None:
    edit_weights(checkpoint, lambda tensors: tensors.__delitem__("model.layers.1.mlp.experts.2.up_proj.weight"))
    with pytest.raises(ModelMissing, match=r"lacks 1 tensors, first 'model\.layers\.1\.mlp\.gate_up'"):
        checkpoints.load(checkpoint)


def test_a_shape_that_does_not_fit_is_named(checkpoint: Path) -> None:
    edit_weights(checkpoint, lambda tensors: tensors.update({"model.norm.weight": torch.ones(65)}))
    with pytest.raises(ModelMissing, match=r"'model\.norm\.weight' has shape \(65,\), config.json asks for \(64,\)"):
        checkpoints.load(checkpoint)


@pytest.mark.parametrize("projector", PROJECTORS)
def test_a_projector_names_encoder_and_language_model_when_it_fits_neither(tmp_path: Path, projector: Projector) -> None:
    write_seeded_checkpoint(tmp_path, feature_dim=12, projector=projector)
    edit_json(tmp_path / "config.json", ct_feature_dim=99)
    with pytest.raises(ModelMissing, match=r"takes features of 12 columns and gives 64, .* 99 from the encoder .* 64 for the language model"):
        checkpoints.load(tmp_path)


@pytest.mark.parametrize("projector", PROJECTORS)
def test_a_checkpoint_without_its_projector_is_refused(tmp_path: Path, projector: Projector) -> None:
    write_seeded_checkpoint(tmp_path, feature_dim=12, projector=projector)
    edit_weights(tmp_path, lambda tensors: [tensors.pop(name) for name in sorted(tensors) if name.startswith("ct_projector.")].clear())
    with pytest.raises(ModelMissing, match=r"no ct_projector\.\*"):
        checkpoints.load(tmp_path)


def test_a_projector_of_another_type_is_named(checkpoint: Path) -> None:
    edit_json(checkpoint / "config.json", ct_projector_type="mlp")
    with pytest.raises(ModelMissing, match=r"the projector in model\.safetensors is linear, config\.json says mlp"):
        checkpoints.load(checkpoint)


def test_two_layers_are_saved_and_loaded_under_their_own_names(tmp_path: Path) -> None:
    written = write_seeded_checkpoint(tmp_path / "mlp", feature_dim=12, projector="mlp")
    names = {name for name in load_file(tmp_path / "mlp" / "model.safetensors") if name.startswith("ct_projector.")}
    assert names == {f"ct_projector.linear_{layer}.{part}" for layer in (1, 2) for part in ("weight", "bias")}
    found = checkpoints.load(tmp_path / "mlp")
    assert found.model.config.ct_projector_type == "mlp"
    assert checkpoints.save(tmp_path / "again", found.model, found.tokenizer, found.card, "again") == written


def test_a_linear_projector_leaves_no_trace_in_the_config(checkpoint: Path) -> None:
    assert "ct_projector_type" not in json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))


def test_nan_weights_are_refused(checkpoint: Path) -> None:
    edit_weights(checkpoint, lambda tensors: tensors.update({"model.norm.weight": torch.full((64,), float("nan"))}))
    with pytest.raises(ModelMissing, match=r"'model\.norm\.weight' holds NaN"):
        checkpoints.load(checkpoint)


def test_truncated_weights_are_refused(checkpoint: Path) -> None:
    path = checkpoint / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(ModelMissing, match="cannot be read"):
        checkpoints.load(checkpoint)


def test_a_tokenizer_of_another_model_is_refused(checkpoint: Path) -> None:
    edit_json(checkpoint / "config.json", vocab_size=77)
    with pytest.raises(ModelMissing, match="77; they belong to different models"):
        checkpoints.load(checkpoint)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("architectures", ["LlamaForCausalLM"]),
        ("num_nextn_predict_layers", 2),
        ("n_group", 4),
        ("rope_scaling", {"type": "yarn", "factor": 40}),
        ("ct_projector_type", "resampler"),
    ],
)
def test_a_config_that_this_engine_cannot_run_is_refused(checkpoint: Path, key: str, value: object) -> None:
    edit_json(checkpoint / "config.json", **{key: value})
    with pytest.raises(ModelMissing, match=key):
        checkpoints.load(checkpoint)


def test_a_card_without_a_known_use_is_refused(checkpoint: Path) -> None:
    edit_json(checkpoint / "card.json", use="clinical")
    with pytest.raises(ModelMissing, match="phantom-only"):
        checkpoints.load(checkpoint)
