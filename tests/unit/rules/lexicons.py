"""The package's lexicon, compiled, and a section of text read with it."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline.checking import RuleSet
from pipeline.rules.extract import read
from pipeline.rules.lexicon import Lexicon, compiled
from pipeline.rules.mentions import Mention, Section
from pipeline.rules.seed import seed_ruleset

RULES = seed_ruleset()
LEXICON = compiled(RULES)


def of_terms(terms: Mapping[str, str]) -> Lexicon:
    """A lexicon that only replaces."""
    return compiled(RuleSet(1, terms))


def section(text: str, name: str = "检查所见") -> Section:
    """The text as the package's lexicon reads it."""
    return read(name, text, LEXICON)


def observed(text: str) -> tuple[Mention, ...]:
    """Its findings, diseases and devices."""
    return tuple(section(text).observations())
