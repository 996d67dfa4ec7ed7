"""The schemas of one version of the rules: compiled once, the same strings for every call, so that a grammar cache meets one string per section."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from pipeline.checking import RuleSet
from pipeline.drafting import parse
from pipeline.drafting.schema import SECTIONS, schema_text, section_schema
from pipeline.drafting.vocabulary import PACKAGED, Vocabulary, vocabulary
from pipeline.model import Report


@dataclass(frozen=True, slots=True)
class Schemas:
    """What constrains answers, and what reads them, under one version of the rules; 0 is the package's own."""

    version: int = 0
    words: Vocabulary = PACKAGED
    _texts: Mapping[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        texts = {section: section_schema(section, self.words) for section in SECTIONS}
        object.__setattr__(self, "_texts", MappingProxyType(texts))

    @property
    def whole(self) -> str:
        """Schema of a whole report."""
        return schema_text(self.words)

    def section(self, name: str) -> str:
        """Schema of one section's answer (SECTIONS)."""
        return self._texts[name]

    def texts(self) -> tuple[str, ...]:
        """Every string that an engine may be given, the whole report's first: what is warmed at start."""
        return (self.whole, *self._texts.values())

    def parse(self, text: str) -> Report:
        """The report in a whole answer. Raises BadDraft."""
        return parse.parse(text, self.words)

    def parse_section(self, name: str, text: str) -> dict[str, Any]:
        """One section's answer. Raises BadDraft."""
        return parse.parse_section(name, text, self.words)


@lru_cache(maxsize=8)
def schemas_of(ruleset: RuleSet) -> Schemas:
    """Those of a rule set, compiled at its first use. Known by identity: the store gives one object per version. Raises BadInput."""
    return Schemas(ruleset.version, vocabulary(ruleset.lexicon))


@lru_cache(maxsize=1)
def packaged() -> Schemas:
    """Those that the packaged model is trained with."""
    return Schemas()
