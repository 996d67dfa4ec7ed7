from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from pipeline.encoder import published
from pipeline.encoder.medsam import PLAIN, MedSamEncoder
from pipeline.encoder.published import Normalisation, load, normalisation
from pipeline.encoder.resnet50 import IMAGENET, ResNet50Encoder
from pipeline.encoder.vit import STANDARD, VitEncoder
from pipeline.errors import ModelMissing
from tests.unit.encoder.architectures import NARROW, publish

ENCODERS: dict[str, type[ResNet50Encoder | VitEncoder | MedSamEncoder]] = {"resnet50": ResNet50Encoder, "vit": VitEncoder, "medsam": MedSamEncoder}


@pytest.fixture
def vit(tmp_path: Path) -> Path:
    publish(tmp_path / "vit", "vit", NARROW["vit"])
    return tmp_path / "vit"


@pytest.mark.parametrize("name", ENCODERS)
def test_weights_load_under_their_published_names(tmp_path: Path, name: str) -> None:
    publish(tmp_path, name, NARROW[name])
    names = set(load_file(tmp_path / "model.safetensors"))
    published_name = {
        "resnet50": "resnet.encoder.stages.0.layers.0.layer.0.convolution.weight",
        "vit": "vit.encoder.layer.0.attention.attention.query.weight",
        "medsam": "vision_encoder.layers.0.attn.qkv.weight",
    }
    assert published_name[name] in names
    found = load(str(tmp_path), ENCODERS[name].kind, ENCODERS[name].default)
    assert found.normalisation == ENCODERS[name].default
    assert not found.phantom_only or found.card["use"] == "candidate"
    assert (found.where, found.folder) == (tmp_path.name, tmp_path)
    assert not found.network.training
    assert len(found.digest) == 16


def test_the_digest_changes_with_one_value(vit: Path, tmp_path: Path) -> None:
    before = load(str(vit), "ViTModel", STANDARD).digest
    assert load(str(vit), "ViTModel", STANDARD).digest == before
    tensors = load_file(vit / "model.safetensors")
    tensors["vit.layernorm.bias"][3] += 1
    save_file(tensors, vit / "model.safetensors", metadata={"format": "pt"})
    assert load(str(vit), "ViTModel", STANDARD).digest != before


@pytest.mark.parametrize(("use", "phantom_only"), [("live", False), ("candidate", True), (None, True)])
def test_only_a_card_that_says_live_allows_patients(tmp_path: Path, use: str | None, phantom_only: bool) -> None:
    publish(tmp_path, "vit", NARROW["vit"], use=use)
    assert load(str(tmp_path), "ViTModel", STANDARD).phantom_only is phantom_only


def test_a_pickle_is_refused_and_never_opened(vit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (vit / "model.safetensors").rename(vit / "pytorch_model.bin")
    monkeypatch.setattr(torch, "load", lambda *_: pytest.fail("a pickle was opened"))
    with pytest.raises(ModelMissing, match=r"'pytorch_model\.bin' and no safetensors; .* save_pretrained"):
        load(str(vit), "ViTModel", STANDARD)


@pytest.mark.parametrize(
    ("gone", "sentence"), [("model.safetensors", r"no model\.safetensors"), ("config.json", r"no config\.json"), (".", "does not exist")]
)
def test_what_a_folder_lacks_is_named(vit: Path, gone: str, sentence: str) -> None:
    if gone == ".":
        vit = vit / "none"
    else:
        (vit / gone).unlink()
    with pytest.raises(ModelMissing, match=sentence):
        load(str(vit), "ViTModel", STANDARD)


def test_a_tensor_that_is_missing_is_never_made_up(vit: Path) -> None:
    tensors = load_file(vit / "model.safetensors")
    del tensors["vit.encoder.layer.1.attention.attention.key.weight"]
    save_file(tensors, vit / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelMissing, match="lacks 1 tensors of ViTModel, first '"):
        load(str(vit), "ViTModel", STANDARD)


def test_weights_of_another_architecture_are_refused(vit: Path) -> None:
    with pytest.raises(ModelMissing, match="ResNetModel"):
        load(str(vit), "ResNetModel", IMAGENET)


def test_weights_of_another_size_are_refused(vit: Path) -> None:
    config = json.loads((vit / "config.json").read_text())
    (vit / "config.json").write_text(json.dumps(config | {"hidden_size": 48}))
    with pytest.raises(ModelMissing, match="cannot be loaded as ViTModel"):
        load(str(vit), "ViTModel", STANDARD)


def test_damaged_weights_are_refused(vit: Path) -> None:
    (vit / "model.safetensors").write_bytes((vit / "model.safetensors").read_bytes()[:500])
    with pytest.raises(ModelMissing, match="copy the weights again"):
        load(str(vit), "ViTModel", STANDARD)


def test_weights_that_hold_nan_are_refused(vit: Path) -> None:
    tensors = load_file(vit / "model.safetensors")
    tensors["vit.layernorm.bias"][0] = float("nan")
    save_file(tensors, vit / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelMissing, match="NaN"):
        load(str(vit), "ViTModel", STANDARD)


@pytest.mark.parametrize("name", ["card.json", "preprocessor_config.json"])
@pytest.mark.parametrize("content", ["{", "[]", "\x00"])
def test_a_damaged_file_beside_the_weights_is_named(vit: Path, name: str, content: str) -> None:
    (vit / name).write_text(content)
    with pytest.raises(ModelMissing, match=name.replace(".", r"\.")):
        load(str(vit), "ViTModel", STANDARD)


def test_nothing_in_a_folder_is_executed_or_fetched(vit: Path) -> None:
    config = json.loads((vit / "config.json").read_text())
    named = {"auto_map": {"AutoModel": "modeling_evil.Evil"}, "_attn_implementation": "owner/kernel", "attn_implementation": "owner/kernel"}
    (vit / "config.json").write_text(json.dumps(config | named))
    (vit / "modeling_evil.py").write_text("raise SystemExit('code beside the weights was run')")
    assert load(str(vit), "ViTModel", STANDARD).network.config._attn_implementation == "sdpa"


def test_an_adapter_does_not_choose_the_weights(vit: Path) -> None:
    (vit / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "owner/other"}))
    with pytest.raises(ModelMissing, match="adapter"):
        load(str(vit), "ViTModel", STANDARD)


def test_a_hub_id_is_handed_over_unchanged_and_only_then_may_the_network_be_asked(vit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (vit / "card.json").write_text(json.dumps({"use": "live"}))
    (vit / "preprocessor_config.json").write_text(json.dumps({"image_mean": [0.1, 0.2, 0.3]}))
    asked: list[tuple[str, bool]] = []
    real = transformers.ViTModel.from_pretrained

    def snapshot(where: str, **how: Any) -> Any:
        asked.append((where, how["local_files_only"]))
        assert (how["use_safetensors"], how["trust_remote_code"]) == (True, False)
        assert os.environ["DISABLE_SAFETENSORS_CONVERSION"] == "1"
        return real(vit, **how)

    def file(hub_id: str, name: str) -> Path:
        asked.append((hub_id, False))
        return vit / name

    monkeypatch.setattr(transformers.ViTModel, "from_pretrained", snapshot)
    monkeypatch.setattr(published, "_hub_file", file)
    found = load("hub:owner/some-vit@v1", "ViTModel", STANDARD)
    assert asked == [("owner/some-vit@v1", False), ("owner/some-vit@v1", False)]
    assert found.normalisation.mean == (0.1, 0.2, 0.3)
    assert found.phantom_only  # whoever publishes weights does not register them here
    load(str(vit), "ViTModel", STANDARD)
    assert asked[-1] == (str(vit), True)


def test_a_folder_name_that_looks_like_a_hub_id_stays_on_this_machine() -> None:
    with pytest.raises(ModelMissing, match="'vit-base-patch16-224' does not exist"):
        load("google/vit-base-patch16-224", "ViTModel", STANDARD)


def test_a_hub_that_does_not_answer_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_: object, **__: object) -> None:
        raise OSError("no such host")

    monkeypatch.setattr(transformers.ViTModel, "from_pretrained", offline)
    with pytest.raises(ModelMissing, match="'owner/name' cannot be loaded as ViTModel"):
        load("hub:owner/name", "ViTModel", STANDARD)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, STANDARD),
        ({"size": 96}, Normalisation(STANDARD.mean, STANDARD.std, 96)),
        ({"size": {"shortest_edge": 96}}, Normalisation(STANDARD.mean, STANDARD.std, 96)),
        ({"size": {"height": 96, "width": 96}}, Normalisation(STANDARD.mean, STANDARD.std, 96)),
        ({"size": {"longest_edge": 1024}, "do_normalize": False}, Normalisation(PLAIN.mean, PLAIN.std, 1024)),
        ({"do_rescale": False}, Normalisation(STANDARD.mean, STANDARD.std, 224, 255.0)),
        ({"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 2, 3]}, Normalisation((0.1, 0.2, 0.3), (1.0, 2.0, 3.0), 224)),
    ],
)
def test_a_preprocessor_config_says_how_pixels_are_normalised(given: dict[str, Any], made: Normalisation) -> None:
    found = normalisation(given, STANDARD)
    assert (found.mean, found.std, found.size) == (made.mean, made.std, made.size)
    assert found.scale == pytest.approx(made.scale)


@pytest.mark.parametrize("given", [{"size": {"area": 4}}, {"size": 0}, {"image_mean": [0.5]}, {"image_std": [0, 1, 1]}, {"image_mean": "gray"}])
def test_a_preprocessor_config_that_makes_no_sense_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ModelMissing, match=r"preprocessor_config\.json cannot be understood"):
        normalisation(given, STANDARD)


def test_pixels_are_normalised_per_channel() -> None:
    pixels = torch.full((1, 3, 2, 2), 0.5)
    made = Normalisation((0.0, 0.5, 1.0), (1.0, 0.5, 0.25), 2).apply(pixels)
    assert made[0, :, 0, 0].tolist() == [0.5, 0.0, -2.0]
