"""SGLang's interface, spoken to a real HTTP server on the loopback that behaves, or does not."""

from __future__ import annotations

import base64
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from safetensors.numpy import load

from pipeline.drafting.fake_server import FakeServer, Script, Trouble
from pipeline.drafting.schema import FINDINGS
from pipeline.drafting.served_model import ServedModel
from pipeline.errors import BadInput, ModelMissing, ServiceUnavailable
from pipeline.model import Features
from tests.unit.drafting.served import EMPTY, FEATURES, PATIENT, QUICK, ROWS, ask, client, troubled


@pytest.mark.parametrize("incremental", [False, True])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_an_answer_comes_with_how_it_was_made_and_by_whom(model: ServedModel, k: int, incremental: bool) -> None:
    with FakeServer(model, Script(k=k, incremental=incremental)) as server:
        made = client(server, plain=k == 0).generate(ask(), FEATURES)
    assert (made.text, made.ended) == (EMPTY, True)
    tokens = len(model.encode(EMPTY))
    assert made.generation.tokens == tokens
    assert made.generation.k == k
    if k:
        steps = made.generation.verify_count
        assert steps == -(-tokens // (k + 1))
        assert len(made.generation.accepted_histogram) == k + 1
        assert sum(made.generation.accepted_histogram) == steps
        assert 0.7 < made.generation.acceptance <= 1
    assert made.generation.first_token_s is not None
    assert 0 < made.generation.first_token_s <= made.generation.seconds
    assert made.source.rung == ("sglang" if k else "sglang-plain")
    assert (made.source.model_digest, made.source.server) == (model.digest, "sglang 0.5.23")
    assert made.source.speculation == (f"NEXTN, steps {k}, top-k 1" if k else "")


def test_the_request_holds_our_ids_the_schema_and_the_features(model: ServedModel) -> None:
    with FakeServer(model) as server:
        client(server).generate(ask(), FEATURES)
        [body] = server.asked
    assert body["input_ids"].count(model.placeholder_id) == ROWS
    assert body["sampling_params"] == {"temperature": 0, "max_new_tokens": 400, "json_schema": ask().schema}
    assert body["stream"] is True
    kind, _, packed = body["image_data"].partition(",")
    assert kind == "data:application/x-safetensors;base64"
    assert np.array_equal(load(base64.b64decode(packed))["features"], FEATURES.array)


def test_a_prompt_without_features_sends_none(model: ServedModel) -> None:
    nobody = Features(np.zeros((0, 8), np.float32), "seeded", "1", "")
    words = ask()
    with FakeServer(model) as server:
        client(server).generate(type(words)(FINDINGS, words.prompt.replace("<ct>", ""), words.schema, 400), nobody)
        assert "image_data" not in server.asked[0]


@pytest.mark.parametrize(
    "trouble", [Trouble.ERROR, Trouble.BUSY, Trouble.DIES, Trouble.GARBAGE, Trouble.ODD, Trouble.SHORT, Trouble.EVENT_ERROR], ids=str
)
def test_what_the_wire_broke_is_asked_again(model: ServedModel, trouble: Trouble) -> None:
    pauses: list[float] = []
    with FakeServer(model, troubled(trouble, trouble)) as server:
        made = client(server, pauses=pauses).generate(ask(), FEATURES)
        assert len(server.asked) == 3
    assert made.text == EMPTY
    assert len(pauses) == 2
    assert 0.1 <= pauses[0] <= 0.3
    assert 0.2 <= pauses[1] <= 0.6


def test_a_wire_that_stays_broken_is_given_up_after_the_configured_attempts(model: ServedModel) -> None:
    with FakeServer(model, troubled(*[Trouble.DIES] * 9)) as server:
        with pytest.raises(ServiceUnavailable, match=r"127\.0\.0\.1:\d+ cannot be reached or broke off|ended its answer in the middle"):
            client(server).generate(ask(), FEATURES)
        assert len(server.asked) == 1 + PATIENT.retries


def test_a_refusal_is_never_asked_again_and_repeats_nothing_of_the_answer(model: ServedModel) -> None:
    with FakeServer(model, troubled(Trouble.REFUSED)) as server:
        with pytest.raises(ModelMissing, match="answered 400 to /generate") as refused:
            client(server).generate(ask(), FEATURES)
        assert len(server.asked) == 1
    assert "scripted" not in str(refused.value)


def test_a_wrong_key_is_named_with_its_setting(model: ServedModel) -> None:
    with FakeServer(model, Script(key="right")) as server:
        with pytest.raises(ModelMissing, match=r"answered 401.*CTREPORT_SGLANG_API_KEY"):
            client(server, key="wrong").generate(ask(), FEATURES)
        assert client(server, key="right").generate(ask(), FEATURES).text == EMPTY


@pytest.mark.parametrize("trouble", [Trouble.HANG, Trouble.HANG_LATER], ids=str)
def test_a_server_that_goes_quiet_costs_one_time_out(model: ServedModel, trouble: Trouble) -> None:
    with FakeServer(model, troubled(*[trouble] * 5)) as server:
        began = time.monotonic()
        with pytest.raises(ServiceUnavailable, match=r"said nothing for 1 s"):
            client(server, limits=QUICK).generate(ask(), FEATURES)
        assert time.monotonic() - began < 10 * QUICK.total_s
        assert len(server.asked) == 1


def test_a_server_that_drips_is_cut_at_the_deadline(model: ServedModel) -> None:
    with FakeServer(model, troubled(Trouble.DRIP, Trouble.DRIP)) as server:
        began = time.monotonic()
        with pytest.raises(ServiceUnavailable, match=r"had not finished its answer after 2 s"):
            client(server, limits=QUICK).generate(ask(), FEATURES)
        assert QUICK.total_s * 0.9 < time.monotonic() - began < QUICK.total_s + 5.0
        assert len(server.asked) == 1


def test_a_server_that_is_not_there_is_unavailable(model: ServedModel) -> None:
    with FakeServer(model) as server:
        gone = client(server)
    with pytest.raises(ServiceUnavailable, match=r"cannot be reached.*CTREPORT_SGLANG_URL"):
        gone.generate(ask(), FEATURES)


def test_an_answer_of_other_weights_is_refused(model: ServedModel) -> None:
    with (
        FakeServer(model, troubled(Trouble.OTHER_WEIGHTS)) as server,
        pytest.raises(ModelMissing, match=r"reports weights '0{12}…', configured are '[0-9a-f]{12}…'"),
    ):
        client(server).generate(ask(), FEATURES)


def test_a_cut_answer_says_that_it_was_cut(model: ServedModel) -> None:
    with FakeServer(model) as server:
        made = client(server).generate(ask(max_tokens=5), FEATURES)
    assert not made.ended
    assert made.generation.tokens == 5
    assert EMPTY.startswith(made.text)


def test_a_histogram_is_as_wide_as_the_drafts(model: ServedModel) -> None:
    """SGLang leaves out the columns behind the longest draft that was accepted."""
    from pipeline.drafting.sglang import _accepted

    assert _accepted({"spec_correct_drafts_histogram": [4, 1], "spec_verify_ct": 5}, 3, 6) == ((4, 1, 0, 0), 5)
    assert _accepted({}, 3, 6) == ((), 0)
    assert _accepted({}, 0, 6) == ((6,), 6)


def test_features_of_another_encoder_are_refused_before_anything_is_sent(model: ServedModel) -> None:
    with FakeServer(model) as server:
        with pytest.raises(BadInput, match=r"5 columns.*takes 8"):
            client(server).generate(ask(), Features(np.zeros((ROWS, 5), np.float32), "other", "1", ""))
        assert not server.asked


def test_twelve_at_once_get_their_own_answers(model: ServedModel) -> None:
    def numbered(schema: object, ids: object) -> str:
        return json.dumps({"n": len(list(ids))})  # type: ignore[call-overload]  # the prompt's ids

    with FakeServer(model, Script(answers=numbered)) as server:
        one = client(server)
        prompts = ["咳" * number for number in range(1, 13)]
        with ThreadPoolExecutor(12) as pool:
            asked = [ask() for _ in prompts]
            texts = pool.map(
                lambda pair: one.generate(type(pair[0])(FINDINGS, pair[0].prompt + pair[1], pair[0].schema, 400), FEATURES).text,
                zip(asked, prompts, strict=True),
            )
            counts = [json.loads(text)["n"] for text in texts]
    wanted = [len(model.question(ask().prompt + more, FEATURES.array, "{}", 1).ids) for more in prompts]
    assert counts == wanted


def test_no_thread_is_left_behind_by_an_answer(model: ServedModel) -> None:
    with FakeServer(model) as server:
        client(server).generate(ask(), FEATURES)
        timers = [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]
        for timer in timers:
            timer.join(timeout=1)
        assert not any(timer.is_alive() for timer in timers)
