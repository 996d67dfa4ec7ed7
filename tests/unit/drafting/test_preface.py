from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from pipeline.drafting.generator import Ask, Generated
from pipeline.drafting.preface import SchemaInPrompt, with_schema
from pipeline.drafting.prompt import PLACEHOLDER, SECTIONS, section_prompt
from pipeline.drafting.schema import schema_text, section_schema
from pipeline.model import DraftSource, Features, Generation

FEATURES = Features(np.zeros((3, 4), np.float32), "e", "1", "p")


@dataclass
class Recording:
    """A generator that keeps what it is asked."""

    asked: list[Ask] = field(default_factory=list)
    phantom_only: bool = True

    def generate(self, ask: Ask, features: Features) -> Generated:
        self.asked.append(ask)
        return Generated("{}", Generation(1, 1, (1,), 0.0), DraftSource("fake", "m", "d", True), ended=True)


def test_the_schema_stands_before_the_prompt_and_takes_no_placeholder() -> None:
    prompt = with_schema(section_prompt(SECTIONS[0], "咳嗽", 3), schema_text())
    assert schema_text() in prompt
    assert prompt.index(schema_text()) < prompt.index(PLACEHOLDER)
    assert prompt.count(PLACEHOLDER) == 3


def test_every_section_begins_with_the_prompt_of_the_one_before() -> None:
    behind = Recording()
    generator = SchemaInPrompt(behind, schema_text)
    answers: list[str] = []
    for section in SECTIONS:
        generator.generate(Ask(section, section_prompt(section, "咳嗽", 3, answers), section_schema(section), 64), FEATURES)
        answers.append(f'{{"{section}": "…"}}')
    prompts = [ask.prompt for ask in behind.asked]
    assert all(later.startswith(earlier) for earlier, later in pairwise(prompts))
    assert [ask.schema for ask in behind.asked] == [section_schema(section) for section in SECTIONS]  # the grammar is the section's own


def test_it_is_as_phantom_only_as_what_it_stands_before() -> None:
    assert SchemaInPrompt(Recording(phantom_only=True), schema_text).phantom_only
    assert not SchemaInPrompt(Recording(phantom_only=False), schema_text).phantom_only
