"""The report's schema in the prompt itself, besides the grammar: an engine that was not trained on it is told twice what is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pipeline.drafting.generator import Ask, Generated, Generator
from pipeline.model import Features

MARK = "[输出格式]"


def with_schema(prompt: str, schema: str) -> str:
    """The prompt behind a schema. It stands before everything else, the same for every study: servers keep what they made of it."""
    return f"{MARK}{schema}{prompt}"


class SchemaInPrompt:
    """A generator whose prompts begin with the whole report's schema, whatever section is asked: the sections go on sharing one beginning."""

    def __init__(self, generator: Generator, schema: Callable[[], str]) -> None:
        self._generator = generator
        self._schema = schema

    @property
    def phantom_only(self) -> bool:
        """As the generator behind it."""
        return self._generator.phantom_only

    def generate(self, ask: Ask, features: Features) -> Generated:
        """One text. Raises as the generator behind it."""
        return self._generator.generate(replace(ask, prompt=with_schema(ask.prompt, self._schema())), features)
