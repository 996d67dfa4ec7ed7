"""Reports in sections on any engine: findings once, then each department's texts from them; bad answers are asked for once more."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.drafting.embedded import EmbeddedDrafter
from pipeline.drafting.fake import FakeGenerator
from pipeline.drafting.generator import WHOLE, Ask, Generated
from pipeline.drafting.parse import parse
from pipeline.drafting.prompt import PLACEHOLDER, render, section_prompt
from pipeline.drafting.schema import ADVICE, DESCRIPTION, FINDINGS, IMPRESSION, SECTIONS, schema_text, section_schema
from pipeline.drafting.sections import PLAIN, SectionDrafter, findings_in, k_of
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.errors import BadDraft, NotAllowed, ServiceUnavailable
from pipeline.model import DEPARTMENTS, Candidate, DraftSource, Features, Side

CANDIDATE = Candidate(1, "结节", (60.0, 0.0, 0.0), Side.LEFT, "上叶", "实性", 8.4, 0.9)
FEATURES = Features(np.zeros((3, 4), np.float32), "fake", "1", "", (CANDIDATE,), (Side.RIGHT,))
SEEDED = Features(np.random.default_rng(1).standard_normal((4, 8)).astype(np.float32), "seeded", "1", "")


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> EmbeddedDrafter:
    folder: Path = tmp_path_factory.mktemp("checkpoint")
    write_seeded_checkpoint(folder, feature_dim=8)
    return EmbeddedDrafter(folder, None, 600)


def test_findings_are_asked_once_and_each_text_behind_those_before_it() -> None:
    generator = FakeGenerator()
    drafter = SectionDrafter(generator)
    found = drafter.find(FEATURES, "咳嗽")
    drafter.write(FEATURES, "咳嗽", found, "oncology")
    assert [ask.section for ask in generator.asked] == list(SECTIONS)
    assert [ask.schema for ask in generator.asked] == [section_schema(section) for section in SECTIONS]
    assert generator.asked[0].prompt == section_prompt(FINDINGS, "咳嗽", 3)
    assert generator.asked[0].prompt.count(PLACEHOLDER) == 3
    assert all(later.prompt.startswith(one.prompt) for one, later in zip(generator.asked, generator.asked[1:], strict=False))
    assert generator.asked[1].prompt.endswith(f"{found.text}[科室]肿瘤科[描述]")


@pytest.mark.parametrize("mode", ["sections", "whole"])
def test_every_department_has_the_same_findings(mode: str) -> None:
    drafter = SectionDrafter(FakeGenerator(), mode="whole" if mode == "whole" else "sections")
    found = drafter.find(FEATURES, "")
    reports = [parse(drafter.write(FEATURES, "", found, department).text) for department in DEPARTMENTS]
    reports += [parse(found.whole.text)] if found.whole else []
    assert {report.findings for report in reports} == {reports[0].findings}
    assert [(one.kind, one.side) for one in reports[0].findings] == [("结节", "左肺"), ("胸腔积液", "右侧")]


def test_a_whole_report_takes_one_call_and_its_findings_are_the_frozen_ones() -> None:
    generator = FakeGenerator()
    found = SectionDrafter(generator, mode="whole").find(FEATURES, "", "pulmonology")
    assert [(ask.section, ask.prompt, ask.schema) for ask in generator.asked] == [(WHOLE, render("", 3, "pulmonology"), schema_text())]
    assert found.whole is not None
    assert found.text == findings_in(found.whole.text)
    assert DESCRIPTION not in json.loads(found.text)
    assert SectionDrafter(generator, mode="whole").draft(FEATURES, "", "pulmonology") == found.whole


def test_a_report_says_what_all_its_sections_cost() -> None:
    answer = SectionDrafter(FakeGenerator(), lengths={FINDINGS: 7, IMPRESSION: 2}).draft(FEATURES, "", "radiology")
    found = SectionDrafter(FakeGenerator()).find(FEATURES, "")
    written = SectionDrafter(FakeGenerator()).write(FEATURES, "", found, "radiology")
    assert answer.text == written.text
    assert answer.generation.tokens == found.generation.tokens + written.generation.tokens
    assert answer.generation.lengths == {FINDINGS: 7, DESCRIPTION: 7, IMPRESSION: 2, ADVICE: None}


def test_it_tells_of_each_section_that_is_written() -> None:
    told: list[tuple[str, int]] = []
    drafter = SectionDrafter(FakeGenerator())
    found = drafter.find(FEATURES, "", told=lambda section, tokens: told.append((section, tokens)))
    drafter.write(FEATURES, "", found, "radiology", told=lambda section, tokens: told.append((section, tokens)))
    assert [section for section, _ in told] == list(SECTIONS)
    assert all(tokens > 0 for _, tokens in told)


@pytest.mark.parametrize("bad", [None, "{", '{"描述": ""}'])
def test_a_bad_answer_of_a_server_is_asked_for_once_more_without_drafts(bad: str | None) -> None:
    generator = FakeGenerator(texts=[bad], server="fake 1")
    found = SectionDrafter(generator, lengths={WHOLE: 4}).find(FEATURES, "")
    assert [ask.k for ask in generator.asked] == [4, 0]
    assert generator.asked[0] == replace(generator.asked[1], k=4)
    assert found.text == SectionDrafter(FakeGenerator()).find(FEATURES, "").text


def test_two_bad_answers_are_no_draft() -> None:
    generator = FakeGenerator(texts=["{", "{"], server="fake 1")
    with pytest.raises(BadDraft, match="is cut at character"):
        SectionDrafter(generator).find(FEATURES, "")
    assert len(generator.asked) == 2


def test_the_embedded_engine_is_not_asked_twice_for_what_it_would_write_again() -> None:
    generator = FakeGenerator(texts=[None])
    with pytest.raises(BadDraft, match="cut at 99 tokens"):
        SectionDrafter(generator, max_tokens=99).find(FEATURES, "")
    assert len(generator.asked) == 1


def test_a_server_that_is_down_is_the_ladders_business() -> None:
    with pytest.raises(ServiceUnavailable):
        SectionDrafter(FakeGenerator(failures=[ServiceUnavailable("down")])).find(FEATURES, "")


def test_a_department_that_no_model_writes_for_is_refused_before_anything_is_asked() -> None:
    generator = FakeGenerator()
    with pytest.raises(NotAllowed, match="radiology, oncology, pulmonology"):
        SectionDrafter(generator).draft(FEATURES, "", "cardiology")
    assert generator.asked == []


@pytest.mark.parametrize(
    ("section", "lengths", "k"),
    [
        (FINDINGS, {}, None),
        (FINDINGS, {WHOLE: 3}, 3),
        (IMPRESSION, {WHOLE: 3, IMPRESSION: 0}, 0),
        (DESCRIPTION, {FINDINGS: 7}, 7),
        (DESCRIPTION, {FINDINGS: 7, DESCRIPTION: 5}, 5),
        (ADVICE, {FINDINGS: 7}, None),
        (WHOLE, {WHOLE: 3}, 3),
        (WHOLE, {FINDINGS: 7, ADVICE: 1}, {FINDINGS: 7, ADVICE: 1}),
        (WHOLE, PLAIN, 0),
    ],
)
def test_a_section_takes_its_own_draft_length_before_that_of_all(section: str, lengths: dict[str, int], k: object) -> None:
    assert k_of(section, lengths) == k


class Changing(FakeGenerator):
    """Another rung answers from the third ask on."""

    def generate(self, ask: Ask, features: Features) -> Generated:
        made = super().generate(ask, features)
        later = DraftSource("vllm", "fake", "0" * 64, True, "vllm 2")
        return Generated(made.text, made.generation, later if len(self.asked) > 2 else made.source, made.ended)


def test_a_report_that_several_rungs_wrote_names_each_and_is_phantom_only_as_soon_as_one_is() -> None:
    answer = SectionDrafter(Changing(phantom_only=False)).draft(FEATURES, "", "radiology")
    assert (answer.source.rung, answer.source.server, answer.source.phantom_only) == ("fake + vllm", "vllm 2", True)


@pytest.mark.parametrize("mode", ["sections", "whole"])
def test_the_embedded_engine_writes_one_text_at_every_draft_length(embedded: EmbeddedDrafter, mode: str) -> None:
    made = [
        SectionDrafter(embedded, mode="whole" if mode == "whole" else "sections", lengths=lengths).draft(SEEDED, "咳嗽", "oncology")
        for lengths in ({}, PLAIN, {FINDINGS: 5, IMPRESSION: 1, ADVICE: 2})
    ]
    assert len({answer.text for answer in made}) == 1
    assert made[1].generation.acceptance == 0.0
    parse(made[0].text)


@pytest.mark.parametrize(("runs", "at_once"), [(3, 3), pytest.param(20, 12, marks=pytest.mark.long)])
def test_many_runs_of_one_study_side_by_side_give_one_text(embedded: EmbeddedDrafter, runs: int, at_once: int) -> None:
    drafter = SectionDrafter(embedded)
    with ThreadPoolExecutor(at_once) as pool:
        texts = list(pool.map(lambda _: drafter.draft(SEEDED, "咳嗽", "radiology").text, range(runs)))
    assert len(texts) == runs
    assert len(set(texts)) == 1
