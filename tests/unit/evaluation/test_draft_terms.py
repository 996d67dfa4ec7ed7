"""Words off the white list are counted before and after the retry, on texts that are drawn the same each time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipeline.drafting.embedded import EmbeddedDrafter
from pipeline.drafting.fake import FakeDrafter, FakeGenerator
from pipeline.drafting.generator import Ask, Generated
from pipeline.drafting.prompt import section_prompt
from pipeline.drafting.schema import DESCRIPTION, FINDINGS, IMPRESSION, dumps, section_schema
from pipeline.engine.generate import Engine
from pipeline.engine.seeded import write_seeded_checkpoint
from pipeline.evaluation.draft_table import tables
from pipeline.evaluation.draft_terms import Drawn, Words, rows, words_in
from pipeline.evaluation.quality import silent
from pipeline.model import Features
from tests.unit.drafting.served import DIM

FEATURES = Features(np.zeros((4, DIM), np.float32), "x", "1", "a")
ODD = dumps({DESCRIPTION: "左肺上叶见晕环怪影，大小约8mm。右肺下叶见结节。"})
LISTED = dumps({DESCRIPTION: "左肺上叶见结节，大小约8mm。右肺下叶见结节。"})


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> tuple[EmbeddedDrafter, Engine]:
    folder: Path = tmp_path_factory.mktemp("seeded")
    write_seeded_checkpoint(folder, feature_dim=DIM)
    return EmbeddedDrafter(folder, 0, 60), Engine.load(folder)


def ask(section: str, schema: str) -> Ask:
    return Ask(section, section_prompt(section, "", 4, [] if section == FINDINGS else ["{}"]), schema, 60)


def test_texts_are_drawn_the_same_each_time_and_what_is_asked_for_again_is_greedy(engine: tuple[EmbeddedDrafter, Engine]) -> None:
    greedy, loaded = engine
    hot, other = Drawn(greedy, loaded, 1.5, 3), Drawn(greedy, loaded, 1.5, 4)
    text = ask(DESCRIPTION, section_schema(DESCRIPTION))
    assert hot.generate(text, FEATURES).text == hot.generate(text, FEATURES).text
    assert len({one.generate(text, FEATURES).text for one in (hot, other, greedy)}) == 3
    again = ask(DESCRIPTION, json.dumps({"type": "object", "properties": {DESCRIPTION: {"type": "string", "pattern": "^左肺(结节|实变)$"}}}))
    assert hot.generate(again, FEATURES).text == greedy.generate(again, FEATURES).text
    findings = ask(FINDINGS, section_schema(FINDINGS))
    assert hot.generate(findings, FEATURES).text == greedy.generate(findings, FEATURES).text


def test_listed_words_and_others_are_counted_in_description_and_impression() -> None:
    report = json.loads(FakeDrafter().draft(FEATURES, "", "radiology").text)
    report[FINDINGS][DESCRIPTION] = json.loads(ODD)[DESCRIPTION]
    report[IMPRESSION] = "双肺肺气肿。"
    assert words_in(dumps(report)) == Words(listed=2, off=1)


def test_a_row_before_the_retry_and_one_for_each_number_of_tries() -> None:
    class Stubborn(FakeGenerator):
        """Writes the odd word until it is asked for under a pattern."""

        def generate(self, ask: Ask, features: Features) -> Generated:
            made = super().generate(ask, features)
            if ask.section != DESCRIPTION:
                return made
            return replace(made, text=ODD if ask.schema == section_schema(DESCRIPTION) else LISTED)

    found = list(rows(Stubborn(), None, [FEATURES], ["radiology"], (0.0,), silent))  # type: ignore[arg-type]  # nothing is drawn
    assert [(row["tries"], row["off_list"], row["reports_all_listed"], row["failed"]) for row in found] == [(0, 1, 0, 0), (1, 0, 1, 0), (2, 0, 1, 0)]
    assert found[0]["term_accuracy"] < 1.0 == found[1]["term_accuracy"]
    ((_, head, body),) = tables({"rows": found})
    assert len(head) == len(body[0])
    assert body[0][:2] == ("greedy", "0")
