"""The real SGLang with NEXTN serves the project's own checkpoint: features in, the embedded engine's tokens out, whatever is asked beside it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from pipeline.drafting.embedded import EmbeddedDrafter
from pipeline.drafting.parse import parse
from pipeline.drafting.prompt import render, section_prompt
from pipeline.drafting.reference import SEEN
from pipeline.drafting.schema import DESCRIPTION, FINDINGS, schema_text, section_schema
from pipeline.drafting.sections import SectionDrafter
from pipeline.drafting.served import ServedGenerator
from pipeline.drafting.served_model import ServedModel
from pipeline.drafting.server import Question
from pipeline.drafting.sglang import body_of
from pipeline.drafting.wire import Events
from pipeline.engine.generate import Engine
from pipeline.engine.policy import Policy
from pipeline.errors import BadDraft, ModelMissing
from pipeline.model import DraftAnswer, Features, Found
from tests.sglang.conftest import FOLDER, Servers, client, features_of
from tests.sglang.rig import STEPS

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(3600)]
ANSWER, FREE, SHORT = 160, 60, 40  # tokens at most
DEPARTMENTS = ("radiology", "oncology")


@pytest.fixture
def served(servers: Servers, model: ServedModel) -> ServedGenerator:
    """The project's client of the server with MTP."""
    return client(servers.drafting.url, model)


def question(model: ServedModel, number: int, max_tokens: int = ANSWER) -> Question:
    """The n-th of many different requests: whole reports, findings and texts, with features and of words alone."""
    rows = features_of(model, number).array if number % 4 else None  # (N, D)
    count = 0 if rows is None else len(rows)
    indication = ("咳嗽", "体检", "")[number % 3]
    asked = (
        (render(indication, count), schema_text()),
        (section_prompt(FINDINGS, indication, count), section_schema(FINDINGS)),
        (section_prompt(DESCRIPTION, indication, count, [SEEN]), section_schema(DESCRIPTION)),
    )
    prompt, schema = asked[number % 3]
    return model.question(prompt, rows, schema, max_tokens)


def embedded_ids(engine: Engine, asked: Question) -> tuple[int, ...]:
    """What the embedded engine writes, without any drafts."""
    prompt = engine.tokenizer.decode(asked.ids) if asked.features is None else asked.head + "<ct>" * asked.rows + asked.tail
    return engine.generate(prompt, asked.features, schema=asked.schema or None, policy=Policy.plain(), max_tokens=asked.max_tokens).ids


def test_it_tells_how_it_was_started(served: ServedGenerator, model: ServedModel) -> None:
    info = served.info()
    assert (info.server, info.digest, info.dtype, info.k) == ("sglang 0.5.23", model.digest, "float32", STEPS)
    assert info.faults == info.notes == ()


def test_tokens_are_those_of_the_embedded_engine(served: ServedGenerator, model: ServedModel, engine: Engine) -> None:
    """Three kinds of prompts, five with features; without a grammar, so that nothing but the model decides."""
    asked = [replace(question(model, number, FREE), schema="") for number in range(6)]
    info = served.info()
    got = [served.server.ask(one, info) for one in asked]
    assert [one.ids for one in got] == [embedded_ids(engine, one) for one in asked]
    drafted, accepted = sum(sum(one.histogram) * STEPS for one in got), sum(i * n for one in got for i, n in enumerate(one.histogram))
    print(f"SGLang k={STEPS}: {accepted} of {drafted} drafted tokens accepted, {sum(len(one.ids) for one in got)} tokens of {len(asked)} texts equal")
    assert accepted > 0
    assert all(0 < one.first_token_s <= one.seconds for one in got)


def test_tokens_under_a_sections_schema_are_those_of_the_embedded_engine(served: ServedGenerator, model: ServedModel, engine: Engine) -> None:
    """Two grammar engines, one text: where a trained model is asked for what it was trained to write."""
    asked, info = [question(model, number) for number in (1, 2, 5)], served.info()
    assert [served.server.ask(one, info).ids for one in asked] == [embedded_ids(engine, one) for one in asked]


def test_a_whole_report_fits_its_schema(served: ServedGenerator, model: ServedModel) -> None:
    answer = served.server.ask(question(model, 3, 600), served.info())
    if not answer.ended:
        pytest.skip("these weights do not end a report on random features")
    assert parse(answer.text).findings_text


def test_a_report_in_sections_is_the_embedded_engines_for_each_department(served: ServedGenerator, model: ServedModel) -> None:
    features = features_of(model, 3)
    ours, theirs = SectionDrafter(EmbeddedDrafter(FOLDER, None, 600)), SectionDrafter(served)
    found = theirs.find(features, "咳嗽")
    assert found.text == ours.find(features, "咳嗽").text
    for department in DEPARTMENTS:
        answer = written(theirs, features, found, department)
        same = written(ours, features, found, department)
        assert answer.text == same.text
        assert parse(answer.text).findings == parse(same.text).findings
        assert (answer.source.rung, answer.source.server, answer.source.model_digest) == ("sglang", "sglang 0.5.23", model.digest)
        assert "NEXTN" in answer.source.speculation or "EAGLE" in answer.source.speculation
        assert answer.generation.tokens > 0
        assert answer.generation.verify_count > 0


def written(drafter: SectionDrafter, features: Features, found: Found, department: str) -> DraftAnswer:
    """One department's report, or a skip where the served weights write no report from these features on either engine."""
    try:
        return drafter.write(features, "咳嗽", found, department)
    except BadDraft as error:
        pytest.skip(f"these weights write no whole report from random features: {error}")


def test_twelve_at_once_write_what_each_writes_alone(served: ServedGenerator, model: ServedModel) -> None:
    asked, info = [question(model, number, SHORT) for number in range(12)], served.info()
    together = threading.Barrier(len(asked))

    def ask(one: Question) -> tuple[int, ...]:
        together.wait(60)
        return served.server.ask(one, info).ids

    with ThreadPoolExecutor(len(asked)) as pool:
        got = list(pool.map(ask, asked))
    assert got == [served.server.ask(one, info).ids for one in asked]


def test_twenty_runs_of_one_study_give_one_text(served: ServedGenerator, model: ServedModel) -> None:
    one, info = question(model, 5, SHORT), served.info()
    with ThreadPoolExecutor(12) as pool:
        texts = set(pool.map(lambda _: served.server.ask(one, info).text, range(20)))
    assert len(texts) == 1


def test_the_prefix_cache_knows_a_study_again_and_takes_no_other_for_it(served: ServedGenerator, model: ServedModel) -> None:
    def cached(seed: int) -> tuple[int, list[int]]:
        prompt = section_prompt(FINDINGS, "胸痛", 40)
        body = body_of(model.question(prompt, features_of(model, seed, rows=40).array, section_schema(FINDINGS), 8)) | {"stream": False}
        return served.server._wire.call("/generate", body, whole)  # type: ignore[attr-defined,no-any-return]  # the raw answer tells what was cached

    def whole(events: Events) -> tuple[int, list[int]]:
        ((_, event),) = events
        return int(event["meta_info"]["cached_tokens"]), list(event["output_ids"])

    first, text = cached(101)
    assert first < 10
    again, same = cached(101)
    assert again > 40
    assert same == text
    other, _ = cached(102)
    assert other < 10


def test_features_of_another_width_are_refused_and_the_server_lives(served: ServedGenerator, model: ServedModel) -> None:
    good = question(model, 5, 8)
    assert good.features is not None
    bad = Question(good.head, good.tail, good.ids, good.features[:, :-1].copy(), good.schema, good.max_tokens)
    with pytest.raises(ModelMissing, match="400"):
        served.server.ask(bad, served.info())
    fewer = Question(good.head, good.tail, good.ids, good.features[:-1].copy(), good.schema, good.max_tokens)
    with pytest.raises(ModelMissing, match="400"):
        served.server.ask(fewer, served.info())
    assert served.server.ask(good, served.info()).ids


def test_a_wrong_key_is_told_as_a_setting(servers: Servers, model: ServedModel) -> None:
    stranger = client(servers.drafting.url, model, key="another")
    with pytest.raises(ModelMissing, match="CTREPORT_SGLANG_API_KEY"):
        stranger.info()
