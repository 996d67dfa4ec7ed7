"""The rules that a new installation starts with. A hospital edits its own copy in PostgreSQL, not these files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from types import MappingProxyType

from pipeline.checking import RuleSet
from pipeline.entry import Entry
from pipeline.guidance import CriticalRule, GrowthRule, Guidance, Guideline, HistoryCue
from pipeline.rules import guidelines_reading, reading
from pipeline.rules.seed.dose import FIRST_VERSION, seed_dose_factors, seed_dose_rules

__all__ = [
    "FIRST_VERSION",
    "seed_critical",
    "seed_cues",
    "seed_dose_factors",
    "seed_dose_rules",
    "seed_growth",
    "seed_guidance",
    "seed_guidelines",
    "seed_lexicon",
    "seed_reasons",
    "seed_ruleset",
    "seed_terms",
]


def seed_terms() -> Mapping[str, str]:
    """Forbidden form → standard term. A form that maps to itself is kept: it guards a word in which a forbidden form hides."""
    return MappingProxyType(reading.read_terms(_text("terms.toml")))


def seed_reasons() -> Mapping[str, str]:
    """Forbidden form → why it is not used."""
    return MappingProxyType(reading.read_reasons(_text("terms.toml")))


@lru_cache(maxsize=1)
def seed_lexicon() -> tuple[Entry, ...]:
    """Every entry of the package's lexicon, each form once."""
    folder = files(__name__).joinpath("lexicon")
    tables = sorted((one for one in folder.iterdir() if one.name.endswith(".toml")), key=lambda one: one.name)
    return reading.checked(entry for one in tables for entry in reading.read_lexicon(one.read_text(encoding="utf-8"), one.name))


def seed_critical() -> tuple[CriticalRule, ...]:
    """Critical findings (危急值) of a new installation."""
    return guidelines_reading.read_critical(_text("critical.toml"))


def seed_guidelines() -> tuple[Guideline, ...]:
    """Guideline tables, those that are off among them."""
    return guidelines_reading.read_guidelines(_text("guidelines.toml"))


def seed_cues() -> tuple[HistoryCue, ...]:
    """What words of an indication tell of the patient."""
    return guidelines_reading.read_cues(_text("history.toml"))


def seed_growth() -> GrowthRule:
    """What counts as growth."""
    return guidelines_reading.read_growth(_text("growth.toml"))[0]


def seed_guidance() -> Guidance:
    """Critical findings, guidelines, cues of history and the growth rule together."""
    return Guidance(seed_critical(), seed_guidelines(), seed_cues(), seed_growth())


def seed_ruleset(version: int = FIRST_VERSION) -> RuleSet:
    """Everything that a new installation checks drafts with."""
    return RuleSet(version, seed_terms(), seed_dose_rules(), seed_lexicon(), seed_critical(), seed_guidelines(), seed_cues(), seed_growth())


def _text(name: str) -> str:
    return files(__name__).joinpath(name).read_text(encoding="utf-8")
