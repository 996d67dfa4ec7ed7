"""Rungs by settings, on fake servers: what a site with several draft servers lives through."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pipeline.drafting.fake_server import FakeServer, Script, Trouble, shortest
from pipeline.drafting.ladder import Ladder
from pipeline.drafting.reference import make, probes, write
from pipeline.drafting.schema import ADVICE, FINDINGS, dumps
from pipeline.drafting.served_model import ServedModel
from pipeline.drafting.serving import Serving, at, checkup, embedded_rung, is_live, packaged_schemas, rungs_of, served_generators
from pipeline.engine.checkpoint import digest
from pipeline.errors import BadInput, ModelMissing, ServiceUnavailable
from pipeline.settings import ServedSettings, SglangSettings, VllmSettings
from tests.unit.drafting.served import DIM, EMPTY, FEATURES, OPENED, ROWS, ask

Answers = Callable[[Mapping[str, Any], Sequence[int]], str | Sequence[int]]


@pytest.fixture(scope="module")
def folder(model: ServedModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint with its reference beside it."""
    copy = shutil.copytree(model.folder, tmp_path_factory.mktemp("with-reference") / "seeded")
    write(copy, make(copy))
    return copy


@pytest.fixture(scope="module")
def answers(model: ServedModel, folder: Path) -> Answers:
    """The reference for its questions, the shortest text for all others."""
    asked = [model.question(one.prompt, one.features, one.schema, one.max_tokens).ids for one in probes(DIM)]
    known = dict(zip(asked, make(folder).ids, strict=True))
    return lambda schema, ids: known.get(tuple(ids)) or dumps(shortest(schema))


@pytest.fixture
def started(model: ServedModel) -> Iterator[Callable[[Script], FakeServer]]:
    """Starts fake servers that end with the test."""
    with ExitStack() as stack:
        yield lambda script: stack.enter_context(FakeServer(model, script))


def serving(folder: Path, *, url: str = "", text: str = "", plain: str = "", vllm: str = "", **served: Any) -> Serving:
    rooms = (
        SglangSettings(url=url or None, text_url=text or None, plain_url=plain or None),
        VllmSettings(url=vllm or None),
        ServedSettings(**({"retries": 0, "first_token_timeout_s": 20.0, "timeout_s": 30.0} | served)),
    )
    return Serving(*rooms, folder)


def ladder(configured: Serving) -> Ladder:
    rungs = rungs_of(configured)
    OPENED.extend(one.server._wire for one in _served(rungs))
    return Ladder(rungs, again_after_s=600)


def _served(rungs: Any) -> list[Any]:
    return [one.generator for one in rungs]


def test_nothing_is_a_rung_that_is_not_configured(folder: Path) -> None:
    assert rungs_of(serving(folder)) == []
    every = serving(folder, url="http://a:1", text="http://b:1", plain="http://c:1", vllm="http://d:1")
    assert [rung.name for rung in rungs_of(every)] == ["sglang", "sglang-text", "sglang-plain", "vllm"]


def test_a_proved_server_was_warmed_with_every_schema(folder: Path, answers: Answers, started: Callable[[Script], FakeServer]) -> None:
    server = started(Script(answers=answers))
    steps = ladder(serving(folder, url=server.url))
    assert steps.refusal() is None
    warmed = [body["sampling_params"]["json_schema"] for body in server.asked if body["sampling_params"]["max_new_tokens"] == 1]
    assert warmed == list(packaged_schemas())
    assert steps.generate(ask(), FEATURES).text == EMPTY


def test_a_server_of_other_weights_is_passed_and_its_neighbour_writes(
    folder: Path, answers: Answers, started: Callable[[Script], FakeServer]
) -> None:
    wrong, right = started(Script(answers=answers, digest="ab" * 32)), started(Script(k=0, answers=answers))
    steps = ladder(serving(folder, url=wrong.url, plain=right.url))
    made = steps.generate(ask(), FEATURES)
    assert made.source.rung == "sglang-plain"
    assert not wrong.asked
    assert "reports weights 'abababababab…'" in steps.standings["sglang"][1]


def test_a_server_that_dies_between_texts_is_passed(folder: Path, answers: Answers, started: Callable[[Script], FakeServer]) -> None:
    dying, other = started(Script(answers=answers)), started(Script(k=0, answers=answers))
    steps = ladder(serving(folder, url=dying.url, plain=other.url))
    assert steps.generate(ask(), FEATURES).source.rung == "sglang"
    dying.script.troubles.append(Trouble.DIES)
    assert steps.generate(ask(), FEATURES).source.rung == "sglang-plain"
    before = len(dying.asked)
    assert steps.generate(ask(), FEATURES).source.rung == "sglang-plain"
    assert len(dying.asked) == before


def test_the_truncated_answers_of_mtp_with_a_grammar_are_written_by_the_plain_server(
    folder: Path, answers: Answers, started: Callable[[Script], FakeServer]
) -> None:
    cutting, plain = started(Script(answers=answers)), started(Script(k=0, answers=answers))
    steps = ladder(serving(folder, url=cutting.url, plain=plain.url))
    assert steps.refusal() is None
    cutting.script.troubles.append(Trouble.TRUNCATED)
    assert steps.generate(ask(), FEATURES).source.rung == "sglang-plain"
    assert steps.generate(ask(), FEATURES).source.rung == "sglang"


def test_the_text_server_writes_advice_and_the_first_the_findings(folder: Path, answers: Answers, started: Callable[[Script], FakeServer]) -> None:
    first, texts = started(Script(k=4, answers=answers)), started(Script(k=1, answers=answers))
    steps = ladder(serving(folder, url=first.url, text=texts.url))
    assert steps.refusal() is None
    assert steps.generate(ask(FINDINGS), FEATURES).generation.k == 4
    assert steps.generate(ask(ADVICE), FEATURES).generation.k == 1
    assert steps.generate(ask(ADVICE, k=3), FEATURES).generation.k == 4
    assert steps.generate(ask(FINDINGS, k=0), FEATURES).generation.k == 1


def test_vllm_writes_when_sglang_is_gone(folder: Path, answers: Answers, model: ServedModel, started: Callable[[Script], FakeServer]) -> None:
    def by_schema(schema: Mapping[str, Any], ids: Sequence[int]) -> str | Sequence[int]:
        return next(wanted) if len(served.asked) <= 3 else dumps(shortest(schema))

    wanted = iter(make(folder).ids)
    served = started(Script(answers=by_schema, version="0.32.0"))
    gone = started(Script())
    gone.__exit__(None, None, None)
    steps = Ladder(rungs_of(serving(folder, url=gone.url, vllm=served.url)), again_after_s=600)
    OPENED.extend(step.rung.generator.server._wire for step in steps._steps)  # type: ignore[attr-defined]  # served generators
    made = steps.generate(ask(), FEATURES)
    assert (made.source.rung, made.text) == ("vllm", EMPTY)


def test_when_all_are_down_it_is_refused_with_each_reason(folder: Path, started: Callable[[Script], FakeServer]) -> None:
    gone = started(Script())
    gone.__exit__(None, None, None)
    steps = ladder(serving(folder, url=gone.url))
    assert steps.refusal() is not None
    with pytest.raises(ServiceUnavailable, match=r"未生成：sglang: draft server .* cannot be reached"):
        steps.generate(ask(), FEATURES)


def test_a_folder_without_weights_needs_the_digest(folder: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("config.json", "tokenizer.json", "card.json"):
        shutil.copy(folder / name, bare / name)
    with pytest.raises(ModelMissing, match="CTREPORT_SERVED_DIGEST"):
        served_generators(serving(bare, url="http://a:1"))
    [one] = served_generators(serving(bare, url="http://a:1", digest=digest(folder))).values()
    assert one.model.digest == digest(folder)


def test_a_look_at_a_server_before_it_is_configured_asks_that_server(folder: Path, answers: Answers, started: Callable[[Script], FakeServer]) -> None:
    server = started(Script(answers=answers))
    for name in ("sglang", "sglang-text"):
        found = served_generators(at(serving(folder), name, server.url))
        OPENED.extend(one.server._wire for one in found.values())  # type: ignore[attr-defined]  # of a real server
        assert checkup(name, found, 0.25).refusal is None


def test_prompts_become_the_ids_that_the_embedded_engine_reads(folder: Path) -> None:
    from pipeline.engine.tokenizer import TextTokenizer

    model, tokenizer = ServedModel.read(folder), TextTokenizer.read(folder / "tokenizer.json")
    for section in ("检查所见", "描述", "诊断意见", "建议"):
        prompt = ask(section).prompt
        assert list(model.question(prompt, FEATURES.array, "{}", 10).ids) == tokenizer.encode(prompt)


def test_a_prompt_and_features_that_do_not_fit_are_refused(model: ServedModel) -> None:
    with pytest.raises(BadInput, match=f"{ROWS} feature places and 0"):
        model.question(ask().prompt, None, "{}", 10)
    with pytest.raises(BadInput, match="must fit into 2048"):
        model.question(ask().prompt, FEATURES.array, "{}", 2048)


@pytest.mark.parametrize(("card", "live"), [('{"use": "live"}', True), ('{"use": "candidate"}', False), ("[]", False), ("", False)])
def test_only_a_card_that_says_live_is_live(tmp_path: Path, card: str, live: bool) -> None:
    (tmp_path / "card.json").write_text(card)
    assert is_live(tmp_path) is live
    assert not is_live(tmp_path / "nowhere")


def test_the_embedded_engine_needs_no_proof() -> None:
    class Writer:
        phantom_only = False

        def generate(self, ask: Any, features: Any) -> Any:
            raise AssertionError

    rung = embedded_rung(Writer())
    rung.check()
    assert (rung.name, rung.drafts()) == ("embedded", None)
