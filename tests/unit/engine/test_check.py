"""Each thing that is wrong with a checkpoint folder is named in one sentence, all of them at once, and the engine refuses with the same words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from pipeline.engine import checkpoint as checkpoints
from pipeline.engine.check import look, stored_values, unsound
from pipeline.engine.config import PROJECTORS, Projector
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.errors import ModelMissing
from tests.unit.engine.damage import drop, edit_json, edit_weights, put, split, write_index


def says(folder: Path, *sentences: str, served: bool = False) -> None:
    """The check names exactly these problems, and the engine refuses with the first of them."""
    problems = look(folder, served=served).problems
    assert len(problems) == len(sentences), problems
    for sentence in sentences:
        assert any(re.search(sentence, problem) for problem in problems), (sentence, problems)
    assert all("\n" not in problem and "; " in problem for problem in problems), "one line, with the next step"
    if not served:
        with pytest.raises(ModelMissing, match=re.escape(problems[0])):
            checkpoints.load(folder)


@pytest.mark.parametrize("served", [False, True])
def test_a_whole_folder_has_no_problem(checkpoint: Path, served: bool) -> None:
    assert look(checkpoint, served=served).problems == ()


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    says(tmp_path / "nowhere", r"'nowhere' does not exist; set .* or run `ctreport train`")


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json", "model.safetensors", "card.json"])
def test_a_missing_file_is_named(checkpoint: Path, name: str) -> None:
    (checkpoint / name).unlink()
    says(checkpoint, f"no (readable )?{re.escape(name)} in the model folder 'model'")


@pytest.mark.parametrize("text", ["{", "[1]", '"x"'])
def test_a_config_that_is_no_object_is_named(checkpoint: Path, text: str) -> None:
    (checkpoint / "config.json").write_text(text, encoding="utf-8")
    says(checkpoint, r"config\.json (is not valid JSON|holds no JSON object)")


def test_an_empty_folder_names_every_file(tmp_path: Path) -> None:
    says(tmp_path, r"no config\.json", r"no model\.safetensors", r"no tokenizer\.json", r"card\.json")


def test_all_problems_are_told_together_and_loading_says_how_many_more(checkpoint: Path) -> None:
    edit_json(checkpoint / "config.json", architectures=["LlamaForCausalLM"], rope_theta=None)
    edit_weights(checkpoint, drop("model.layers.2.", "ct_projector."))
    (checkpoint / "card.json").unlink()
    says(checkpoint, "config.json lacks rope_theta", "architectures", r"no ct_projector", "no complete MTP layer", "card.json")
    with pytest.raises(ModelMissing, match=r"\(and 4 more: `ctreport model check` names them\)"):
        checkpoints.load(checkpoint)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("architectures", ["LlamaForCausalLM"], r"architectures = \['LlamaForCausalLM'\]; this engine runs only \['DeepseekV3ForCausalLM'\]"),
        ("architectures", None, "lacks architectures"),
        ("model_type", "deepseek_v2", "model_type = 'deepseek_v2'"),
        ("n_group", 4, "n_group = 4"),
        ("ct_projector_type", "resampler", "ct_projector_type = 'resampler'"),
        ("rms_norm_eps", "small", "rms_norm_eps = 'small'"),
        ("num_nextn_predict_layers", 0, "num_nextn_predict_layers = 0"),
        ("num_experts_per_tok", 9, "chooses 9 of 4 experts"),
        ("rope_theta", None, "lacks rope_theta"),
        ("rope_theta", "10000", "rope_theta = '10000'"),
        ("rope_theta", 0.0, "rope_theta = 0.0"),
        ("rope_interleave", False, "rope_interleave = False"),
        ("rope_scaling", {"type": "linear", "factor": 2.0}, "type yarn"),
        ("rope_scaling", {"type": "yarn", "factor": 40}, "original_max_position_embeddings"),
        ("rope_scaling", {"type": "yarn", "factor": 0.5, "original_max_position_embeddings": 2048}, r"rope_scaling factor = 0\.5"),
        ("rope_scaling", {"type": "yarn", "factor": "x", "original_max_position_embeddings": 2048}, "rope_scaling factor = 'x'"),
    ],
)
def test_a_config_that_cannot_be_run_is_named(checkpoint: Path, key: str, value: object, sentence: str) -> None:
    edit_json(checkpoint / "config.json", **{key: value})
    says(checkpoint, sentence)


def test_a_config_in_the_form_of_transformers_5_is_told_where_its_rope_went(checkpoint: Path) -> None:
    edit_json(checkpoint / "config.json", rope_theta=None, rope_parameters={"rope_theta": 10000.0, "rope_type": "default"})
    says(checkpoint, r"lacks rope_theta \(it has rope_parameters instead")


def test_sizes_that_are_no_numbers_are_named(checkpoint: Path) -> None:
    edit_json(checkpoint / "config.json", hidden_size="wide", kv_lora_rank=-3)
    says(checkpoint, "hidden_size = 'wide'", "kv_lora_rank = -3")


def test_missing_mtp_weights_are_named(checkpoint: Path) -> None:
    edit_weights(checkpoint, drop("model.layers.2.eh_proj.weight"))
    says(checkpoint, r"no complete MTP layer \(model\.layers\.2\.\*: 1 tensors absent\); use a checkpoint with its MTP weights")


def test_a_missing_expert_is_named(checkpoint: Path) -> None:
    edit_weights(checkpoint, drop("model.layers.1.mlp.experts.2.up_proj.weight"))
    says(checkpoint, r"lacks 1 tensors, first 'model\.layers\.1\.mlp\.experts\.2\.up_proj\.weight'")


def test_a_shape_that_does_not_fit_is_named(checkpoint: Path) -> None:
    edit_weights(checkpoint, put("model.norm.weight", torch.ones(65)))
    says(checkpoint, r"'model\.norm\.weight' has shape \(65,\), config.json asks for \(64,\)")


@pytest.mark.parametrize("projector", PROJECTORS)
def test_a_projector_names_encoder_and_language_model_when_it_fits_neither(tmp_path: Path, projector: Projector) -> None:
    write_seeded_checkpoint(tmp_path, feature_dim=12, projector=projector)
    edit_json(tmp_path / "config.json", ct_feature_dim=99)
    says(tmp_path, r"takes features of 12 columns and gives 64, .* 99 from the encoder .* 64 for the language model")


@pytest.mark.parametrize("projector", PROJECTORS)
def test_a_checkpoint_without_its_projector_is_named(tmp_path: Path, projector: Projector) -> None:
    write_seeded_checkpoint(tmp_path, feature_dim=12, projector=projector)
    edit_weights(tmp_path, drop("ct_projector."))
    says(tmp_path, r"no ct_projector\.\*")


def test_half_a_projector_is_named(tmp_path: Path) -> None:
    write_seeded_checkpoint(tmp_path, feature_dim=12, projector="mlp")
    edit_weights(tmp_path, drop("ct_projector.linear_2.bias"))
    says(tmp_path, r"lacks 1 tensors, first 'ct_projector\.linear_2\.bias'")


def test_a_projector_of_another_type_is_named(checkpoint: Path) -> None:
    edit_json(checkpoint / "config.json", ct_projector_type="mlp")
    says(checkpoint, r"the projector in model\.safetensors is linear, config\.json says mlp")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_values_that_are_no_numbers_are_named_and_refused(checkpoint: Path, value: str) -> None:
    edit_weights(checkpoint, put("model.norm.weight", torch.full((64,), float(value))))
    edit_weights(checkpoint, put("lm_head.weight", load_file(checkpoint / "model.safetensors")["lm_head.weight"] * float("nan")))
    (sentence,) = unsound(stored_values(look(checkpoint).headers))
    assert re.match(r"'(lm_head|model\.norm)\.weight' and 1 more hold NaN or infinite values", sentence)
    with pytest.raises(ModelMissing, match=r"hold NaN or infinite values"):
        checkpoints.load(checkpoint)


def test_cut_weights_are_named_with_both_sizes(checkpoint: Path) -> None:
    path = checkpoint / "model.safetensors"
    whole = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(whole - 7)
    says(checkpoint, rf"model\.safetensors cannot be read \({whole - 7} bytes, its header speaks of {whole}\)")


@pytest.mark.parametrize("start", [b"", b"\xff" * 64, b"\x02" + b"\0" * 7 + b"[]", b"\x02" + b"\0" * 7 + b"{}"])
def test_a_file_that_is_no_safetensors_is_named(checkpoint: Path, start: bytes) -> None:
    (checkpoint / "model.safetensors").write_bytes(start)
    says(checkpoint, r"model\.safetensors cannot be read")


def test_weights_in_a_form_that_needs_scales_are_named_unless_a_server_runs_them(checkpoint: Path) -> None:
    edit_weights(checkpoint, put("model.layers.0.mlp.up_proj.weight", torch.zeros(96, 64, dtype=torch.float8_e4m3fn)))
    says(checkpoint, "holds F8_E4M3 values; this engine reads")
    says(checkpoint, served=True)


def test_limits_of_the_embedded_engine_do_not_bind_a_server(checkpoint: Path) -> None:
    edit_json(checkpoint / "config.json", n_group=2, topk_group=1)
    says(checkpoint, "n_group = 2")
    says(checkpoint, served=True)


def test_a_folder_in_several_files_loads_like_one_file(checkpoint: Path) -> None:
    whole = checkpoints.load(checkpoint)
    split(checkpoint)
    assert look(checkpoint).problems == ()
    parts = checkpoints.load(checkpoint)
    assert all(torch.equal(tensor, parts.model.state_dict()[name]) for name, tensor in whole.model.state_dict().items())
    assert parts.digest != whole.digest


def test_a_missing_shard_is_named_once_and_not_by_its_tensors(checkpoint: Path) -> None:
    files = split(checkpoint)
    files[1].unlink()
    says(checkpoint, rf"names 1 files that are missing, first '{files[1].name}'; copy them there")


def test_a_damaged_shard_is_named_once(checkpoint: Path) -> None:
    files = split(checkpoint)
    files[2].write_bytes(files[2].read_bytes()[:100])
    says(checkpoint, rf"{files[2].name} cannot be read")


def test_a_tensor_that_is_not_where_the_index_says_is_named(checkpoint: Path) -> None:
    files = split(checkpoint)
    placed = json.loads((checkpoint / "model.safetensors.index.json").read_text(encoding="utf-8"))["weight_map"]
    write_index(checkpoint, placed | {"model.layers.9.extra": files[0].name})
    says(checkpoint, r"places 1 tensors in files that do not hold them, first 'model\.layers\.9\.extra'")


@pytest.mark.parametrize("index", ["{}", '{"weight_map": {"lm_head.weight": "../outside.safetensors"}}', '{"weight_map": [1]}'])
def test_an_index_that_is_none_or_leads_outside_is_named(checkpoint: Path, index: str) -> None:
    (checkpoint / "model.safetensors.index.json").write_text(index, encoding="utf-8")
    says(checkpoint, r"index\.json cannot be read")


def test_a_tokenizer_of_another_model_is_named(checkpoint: Path) -> None:
    edit_json(checkpoint / "config.json", vocab_size=77)
    says(checkpoint, r"tokenizer\.json has \d+ tokens, config\.json says 77", r"config\.json asks for \(77, 64\), and 1 more tensors differ")


def test_other_special_tokens_are_named(checkpoint: Path) -> None:
    edit_json(checkpoint / "config.json", ct_placeholder_id=7)
    says(checkpoint, "disagree about <ct> or <eos>")


def edit_tokenizer(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "tokenizer.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    change(raw)
    path.write_text(json.dumps(raw, ensure_ascii=False), encoding="utf-8")


def test_a_tokenizer_that_normalises_chinese_signs_away_is_named_with_the_signs(checkpoint: Path) -> None:
    edit_tokenizer(checkpoint, lambda raw: raw.update(normalizer={"type": "NFKC"}))
    says(checkpoint, "does not give ， ； ： （ ） back as written")


def test_a_tokenizer_that_lacks_a_byte_of_chinese_signs_is_named_with_what_becomes_unknown(checkpoint: Path) -> None:
    def forget(raw: dict[str, Any]) -> None:
        vocab = raw["model"]["vocab"]  # 0xBC is the second byte of ，；：（） in UTF-8 and its stand-in is ¼
        place = next(index for index, (token, _) in enumerate(vocab) if token == "¼")
        vocab[place][0] = "nothing"
        raw["model"]["vocab"] = [entry for entry in vocab if entry[0] == "nothing" or "¼" not in entry[0]]

    edit_tokenizer(checkpoint, forget)
    problems = look(checkpoint).problems
    assert any("tokenizer.json maps ， ； ： （ ）" in problem and "to unknown" in problem for problem in problems), problems


def test_a_word_tokenizer_is_named_by_the_terms_it_cannot_say(checkpoint: Path) -> None:
    words = Tokenizer(models.WordLevel({"[UNK]": 0, "结节": 1}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    words.save(str(checkpoint / "tokenizer.json"))
    says(checkpoint, "maps ， 。 .* 磨玻璃影 .* to unknown", "has 2 tokens", "no token <pad> <bos> <eos> <ct>")


def test_a_broken_tokenizer_file_is_named(checkpoint: Path) -> None:
    (checkpoint / "tokenizer.json").write_text("{}", encoding="utf-8")
    says(checkpoint, r"tokenizer\.json cannot be read")


@pytest.mark.parametrize("card", ["{", "[]", '{"use": "clinical"}', "{}"])
def test_a_card_without_a_known_use_is_named(checkpoint: Path, card: str) -> None:
    (checkpoint / "card.json").write_text(card, encoding="utf-8")
    says(checkpoint, r"card\.json")


def test_nothing_is_loaded_to_look_at_a_folder(checkpoint: Path) -> None:
    tensors = load_file(checkpoint / "model.safetensors")
    save_file({name: torch.full_like(tensor, float("nan")) for name, tensor in tensors.items()}, checkpoint / "model.safetensors")
    assert look(checkpoint).problems == ()
