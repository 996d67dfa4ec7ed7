"""The memory of a set-up is counted from headers: a folder of 700 GB is looked at without reading it."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from pipeline.engine.check import look
from pipeline.engine.config import ModelConfig
from pipeline.engine.headers import Stored, read_headers
from pipeline.engine.memory import USABLE, Setup, misfits, need
from pipeline.engine.published import shapes
from tests.unit.engine.damage import write_index

GIB = 2**30
# sizes of the published DeepSeek-V3 (config.json of the release; arXiv 2412.19437, section 4.2)
V3: dict[str, Any] = json.loads(
    """{"vocab_size": 129280, "hidden_size": 7168, "intermediate_size": 18432, "moe_intermediate_size": 2048, "num_hidden_layers": 61,
    "num_attention_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
    "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "first_k_dense_replace": 3, "routed_scaling_factor": 2.5,
    "max_position_embeddings": 163840, "eos_token_id": 1, "bos_token_id": 0, "num_nextn_predict_layers": 1, "n_group": 8, "topk_group": 4}"""
)
SMALL = {"num_hidden_layers": 4, "kv_lora_rank": 24, "qk_rope_head_dim": 8, "num_nextn_predict_layers": 1, "num_attention_heads": 4}


def fake_file(path: Path, tensors: dict[str, tuple[str, tuple[int, ...], int]]) -> None:
    """A file with a true header and a hole where the weights would be: (dtype, shape, bytes of a number) of each tensor."""
    header: dict[str, object] = {}
    end = 0
    for name, (dtype, shape, width) in tensors.items():
        begin, end = end, end + Stored(dtype, shape, 0).elements * width
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """DeepSeek-V3 in eight files, float8 but for its norms, embeddings and routers; the disk holds only the headers."""
    folder = tmp_path_factory.mktemp("large")
    config = ModelConfig.of({**V3, "ct_feature_dim": 1, "ct_placeholder_id": 0, "pad_token_id": 0})
    wanted = shapes(config) | {"model.layers.61.embed_tokens.weight": (129280, 7168), "model.layers.61.shared_head.head.weight": (129280, 7168)}
    kinds = {name: ("F8_E4M3", 1) if name.endswith("proj.weight") and "eh_proj" not in name else ("BF16", 2) for name in wanted}
    names = sorted(wanted)
    placed: dict[str, str] = {}
    for number in range(8):
        file = folder / f"model-{number}.safetensors"
        fake_file(file, {name: (kinds[name][0], wanted[name], kinds[name][1]) for name in names[number::8]})
        placed |= dict.fromkeys(names[number::8], file.name)
    write_index(folder, placed)
    (folder / "config.json").write_text(json.dumps(V3), encoding="utf-8")
    return folder


def test_a_folder_of_hundreds_of_gigabytes_is_counted_from_its_headers(large: Path) -> None:
    headers = read_headers(large)
    assert headers.problems == []
    assert sum(path.stat().st_size for path in headers.files) > 680e9
    assert sum(path.stat().st_blocks * 512 for path in headers.files) < 50e6, "the test must not fill the disk"
    main = [stored for name, stored in headers.tensors.items() if not name.startswith("model.layers.61.")]
    assert sum(stored.elements for stored in main) == pytest.approx(671e9, rel=1e-3)  # the paper's 671 B parameters
    found = need(headers.tensors, V3, Setup(gpus=8, gpu_memory_bytes=80 * GIB))
    assert found.weights_bytes == pytest.approx(673e9, rel=5e-3)
    assert found.mtp_bytes == pytest.approx(11.6e9, rel=2e-2)  # the layer without its copies of embedding and head
    assert found.cache_bytes_per_token == (512 + 64) * 62 * 2
    assert found.cache_bytes == 71_424 * 8192 * 8
    assert found.fits is False
    assert found.gpus_needed == 10
    assert need(headers.tensors, V3, Setup(gpus=8, gpu_memory_bytes=141 * GIB)).fits is True


def test_its_problems_are_ours_to_name_and_fewer_for_a_server(large: Path) -> None:
    here, there = (" | ".join(look(large, served=served).problems) for served in (False, True))
    for sentence in ("lacks ct_feature_dim, ct_placeholder_id, pad_token_id", "no ct_projector.*", "no tokenizer.json", "card.json"):
        assert sentence in here
        assert sentence in there
    for limit in ("n_group = 8", "F8_E4M3"):
        assert limit in here
        assert limit not in there
    assert "MTP" not in here + there
    assert "model.layers" not in here + there


def test_what_fits_is_told_by_numbers() -> None:
    tensors = {"lm_head.weight": Stored("BF16", (1000, 1000), 2_000_000), "model.layers.4.eh_proj.weight": Stored("BF16", (500, 1000), 1_000_000)}
    tensors["model.layers.4.embed_tokens.weight"] = Stored("BF16", (1000, 1000), 2_000_000)
    setup = Setup(gpus=2, gpu_memory_bytes=4_000_000, context=100, batch=10)
    found = need(tensors, SMALL, setup)
    assert (found.weights_bytes, found.mtp_bytes) == (2_000_000, 1_000_000)
    assert found.cache_bytes_per_token == 32 * 5 * 2
    assert found.cache_bytes == 320_000
    assert found.per_gpu_bytes == 1_500_000 + 320_000
    assert found.usable_bytes == int(4_000_000 * USABLE)
    assert found.fits is True
    assert found.gpus_needed == 1
    assert found.batch_that_fits == (3_520_000 - 1_500_000) // 32_000


def test_number_formats_change_weights_and_cache_but_float8_weights_stay() -> None:
    tensors = {"lm_head.weight": Stored("BF16", (10, 10), 200), "model.norm.weight": Stored("F8_E4M3", (100,), 100)}
    assert need(tensors, SMALL, Setup(weights="fp32")).weights_bytes == 400 + 100
    assert need(tensors, SMALL, Setup(weights="fp8")).weights_bytes == 100 + 100
    assert need(tensors, SMALL, Setup(cache="fp32")).cache_bytes_per_token == 32 * 5 * 4


def test_a_cache_larger_than_the_gpu_is_helped_by_no_number_of_gpus() -> None:
    found = need({"lm_head.weight": Stored("BF16", (1, 1), 2)}, SMALL, Setup(gpu_memory_bytes=1000, context=1000))
    assert (found.fits, found.gpus_needed, found.batch_that_fits) == (False, None, 0)


@pytest.mark.parametrize("raw", [{}, SMALL | {"kv_lora_rank": "wide"}, SMALL | {"num_hidden_layers": None}])
def test_a_config_without_sizes_gives_no_figure_rather_than_a_wrong_one(raw: dict[str, Any]) -> None:
    found = need({"lm_head.weight": Stored("BF16", (1, 1), 2)}, raw, Setup(gpu_memory_bytes=GIB))
    assert (found.weights_bytes, found.cache_bytes_per_token, found.fits) == (2, None, None)


def test_a_set_up_that_the_model_cannot_have_is_named() -> None:
    told = list(misfits(SMALL | {"max_position_embeddings": 2048}, Setup(gpus=3, context=4096)))
    assert told[0].startswith("4 attention heads cannot be shared among 3 GPUs")
    assert told[1].startswith("a context of 4096 tokens is longer than max_position_embeddings = 2048")
    assert list(misfits(SMALL, Setup(gpus=4))) == []
