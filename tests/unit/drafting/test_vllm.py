"""vLLM's interface, spoken to the fake server."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
import torch

from pipeline.drafting.fake_server import FakeServer, Script, Trouble
from pipeline.drafting.projector import projector_of
from pipeline.drafting.served import ServedGenerator
from pipeline.drafting.served_model import ServedModel
from pipeline.drafting.vllm import VllmServer
from pipeline.drafting.wire import Address, Wire
from pipeline.engine.generate import Engine
from pipeline.errors import ModelMissing, ServiceUnavailable
from tests.unit.drafting.served import EMPTY, FEATURES, OPENED, PATIENT, ROWS, ask, troubled


def client(server: FakeServer) -> ServedGenerator:
    slept: list[float] = []
    wire = Wire(Address(server.url, setting="CTREPORT_VLLM_URL"), PATIENT, sleep=slept.append)
    OPENED.append(wire)
    return ServedGenerator(VllmServer(wire, server.model.eos_id, projector_of(server.model.folder)), server.model)


@pytest.mark.parametrize("k", [0, 3])
def test_an_answer_comes_with_how_it_was_made_and_by_whom(model: ServedModel, k: int) -> None:
    with FakeServer(model, Script(k=k, version="0.32.0")) as server:
        made = client(server).generate(ask(), FEATURES)
    tokens = len(model.encode(EMPTY))
    assert (made.text, made.ended, made.generation.tokens) == (EMPTY, True, tokens)
    assert (made.source.rung, made.source.server, made.source.model_digest) == ("vllm", "vllm 0.32.0", model.digest)
    assert made.generation.verify_count == (tokens if k == 0 else -(-tokens // (k + 1)))
    assert len(made.generation.accepted_histogram) == (0 if k == 0 else k + 1)


def test_the_prompt_is_three_messages_and_the_features_are_projected_here(model: ServedModel) -> None:
    with FakeServer(model) as server:
        client(server).generate(ask(), FEATURES)
        [body] = server.asked
    before, rows, after = (message["content"] for message in body["messages"])
    assert before + "<ct>" * ROWS + after == ask().prompt
    sent = torch.load(io.BytesIO(base64.b64decode(rows[0]["data"])), weights_only=True)
    engine = Engine.load(model.folder)
    with torch.inference_mode():
        ours = engine.model.ct_projector(torch.from_numpy(FEATURES.array).unsqueeze(0))[0]
    assert torch.allclose(sent, ours, atol=1e-6)
    assert body["model"] == model.digest
    form = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    assert body["structured_outputs"] == {"json": json.loads(ask().schema) | {"x-guidance": form}}
    assert body["temperature"] == 0


@pytest.mark.parametrize("trouble", [Trouble.DIES, Trouble.GARBAGE, Trouble.ODD, Trouble.SHORT, Trouble.EVENT_ERROR, Trouble.ERROR], ids=str)
def test_what_the_wire_broke_is_asked_again(model: ServedModel, trouble: Trouble) -> None:
    with FakeServer(model, troubled(trouble)) as server:
        assert client(server).generate(ask(), FEATURES).text == EMPTY
        assert len(server.asked) == 2


def test_a_server_of_another_model_is_refused(model: ServedModel) -> None:
    with FakeServer(model, Script(digest="cd" * 32)) as server, pytest.raises(ModelMissing, match="--served-model-name"):
        client(server).generate(ask(), FEATURES)


def test_a_server_that_is_not_there_is_unavailable(model: ServedModel) -> None:
    with FakeServer(model) as server:
        gone = client(server)
    with pytest.raises(ServiceUnavailable, match="CTREPORT_VLLM_URL"):
        gone.generate(ask(), FEATURES)


def test_a_folder_without_a_projector_says_what_to_copy(model: ServedModel, tmp_path: object) -> None:
    from pathlib import Path

    empty = Path(str(tmp_path))
    (empty / "config.json").write_bytes((model.folder / "config.json").read_bytes())
    with pytest.raises(ModelMissing, match="holds no projector weights"):
        projector_of(empty)(np.zeros((1, 8), np.float32))


def test_the_schema_says_how_its_json_is_written() -> None:
    """By the grammar engine that vLLM's guidance back-end uses, with the defaults that it gives it."""
    import llguidance

    from pipeline.drafting.schema import dumps
    from pipeline.drafting.vllm import with_separators

    value = json.loads(EMPTY)
    grammar = llguidance.LLMatcher.grammar_from_json_schema(json.dumps(with_separators(ask().schema)), defaults={"whitespace_flexible": False})
    tokenizer = llguidance.LLTokenizer("byte")
    for text, fits in ((dumps(value), True), (json.dumps(value, ensure_ascii=False, separators=(",", ":")), False)):
        written = list(text.encode())
        assert (llguidance.LLMatcher(tokenizer, grammar).validate_tokens(written) == len(written)) is fits


def test_steps_whose_drafts_the_grammar_struck_out_are_counted() -> None:
    from pipeline.drafting.vllm import _accepted

    told = {"metrics": {"speculative_decoding": {"acceptance_histogram": [3, 1, 1, 8], "num_spec_steps": 13}}}
    assert _accepted(told, 51) == ((3, 1, 1, 8), 24)
    assert _accepted({}, 51) == ((), 51)
