"""Words off the white list before and after the retry. The packaged model writes no such words: texts drawn by chance stand for one that does."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from typing import Any

from pipeline.checking import RuleSet
from pipeline.drafting.generator import Ask, Generated, Generator
from pipeline.drafting.parse import parse
from pipeline.drafting.schema import FINDINGS
from pipeline.drafting.schemas import packaged
from pipeline.drafting.sections import SectionDrafter
from pipeline.drafting.whitelist import WhiteList
from pipeline.engine.generate import Engine, Request
from pipeline.errors import BadDraft
from pipeline.evaluation.decode_texts import Told
from pipeline.evaluation.draft_freely import sampled
from pipeline.model import Features
from pipeline.rules.extract import read
from pipeline.rules.lexicon import compiled
from pipeline.rules.seed import seed_ruleset
from pipeline.rules.terms import listed_terms, off_list

Row = dict[str, Any]
TERMS = "terms"
HEATS = (0.0, 1.0, 1.5, 2.0)  # 0: greedy, as reports are
TRIES = (0, 1, 2)  # 0: before the retry


@dataclass(frozen=True)
class Drawn:
    """The embedded engine, whose texts are drawn at a temperature; its findings, and what is asked for again under a pattern, are greedy."""

    generator: Generator
    engine: Engine
    heat: float
    seed: int

    @property
    def phantom_only(self) -> bool:
        """As the engine's."""
        return self.generator.phantom_only

    def generate(self, ask: Ask, features: Features) -> Generated:
        """The same ask draws the same text."""
        made = self.generator.generate(ask, features)
        if ask.section == FINDINGS or ask.schema != packaged().section(ask.section):
            return made
        request = Request(ask.prompt, features.array, ask.schema, ask.max_tokens)
        text, generation = sampled(self.engine, request, self.heat, 1.0, self.seed + zlib.crc32(ask.prompt.encode()))
        return replace(made, text=text, generation=generation, ended=generation.tokens < ask.max_tokens)


@dataclass(frozen=True, slots=True)
class Words:
    """Words that name a finding in the texts of one report: on the list and off it."""

    listed: int
    off: int


def white_list(tries: int) -> WhiteList:
    """As the packaged rules have it."""
    rules = _rules()
    return WhiteList(lambda text, indication: off_list(text, rules, indication), listed_terms(rules), tries)


def words_in(text: str) -> Words:
    """In description and impression of a whole report's JSON text. Raises BadDraft."""
    report = parse(text)
    parts = [read(FINDINGS, part, compiled(_rules())) for part in (report.findings_text, report.impression)]
    return Words(sum(len(list(part.observations())) for part in parts), sum(len(part.unlisted) for part in parts))


def rows(
    generator: Generator, engine: Engine, scans: Sequence[Features], departments: Sequence[str], heats: Sequence[float], told: Told
) -> Iterator[Row]:
    """One row for each temperature and number of tries: share of listed words, and reports whose words are all listed."""
    cases = [(features, department) for features in scans for department in departments]
    for place, (heat, tries) in enumerate(settings := list(product(heats, TRIES))):
        told(place / len(settings), f"T {heat:g}, {tries} tries")
        yield _row(heat, tries, [_words(generator, engine, heat, tries, seed, *case) for seed, case in enumerate(cases)])


def _words(generator: Generator, engine: Engine, heat: float, tries: int, seed: int, features: Features, department: str) -> Words | None:
    """None where no report came."""
    writer = Drawn(generator, engine, heat, seed) if heat else generator
    white = white_list(tries) if tries else None
    try:
        return words_in(SectionDrafter(writer, white=lambda: white).draft(features, "", department).text)
    except BadDraft:
        return None


def _row(heat: float, tries: int, found: Sequence[Words | None]) -> Row:
    counted = [one for one in found if one is not None]
    listed, off = sum(one.listed for one in counted), sum(one.off for one in counted)
    return {
        "part": TERMS,
        "temperature": heat,
        "tries": tries,
        "texts": len(found),
        "failed": len(found) - len(counted),
        "words": listed + off,
        "off_list": off,
        "term_accuracy": listed / (listed + off) if listed + off else None,
        "reports_all_listed": sum(not one.off for one in counted),
    }


@cache
def _rules() -> RuleSet:
    return seed_ruleset()
