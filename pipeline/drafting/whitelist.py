"""A text with a word off the white list is written again: all of it as it stands, and one of the listed terms in that word's place."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pipeline.drafting.generator import Ask, Generated, Generator
from pipeline.drafting.together import generation_of
from pipeline.model import Features

Places = Sequence[tuple[int, int]]  # first and behind the last character
TRIES = 2
_META = frozenset("\\.^$|?*+()[]{}")


@dataclass(frozen=True)
class WhiteList:
    """`off(text, indication)`: where the text has words that look like a finding, are on no list and quote no indication; `terms`: what may stand
    there instead."""

    off: Callable[[str, str], Places]
    terms: tuple[str, ...]
    tries: int = TRIES


def on_list(
    white: WhiteList, generator: Generator, ask: Ask, features: Features, made: Generated, indication: str, valid: Callable[[Generated], bool]
) -> Generated:
    """The section's answer in listed words: `made` where all of its are, else what came of at most `tries` more, which cost what all of them cost.

    An answer that is not valid ends the tries: what stands then is flagged by the rules.
    """
    spent = made.generation
    for _ in range(white.tries):
        text = json.loads(made.text)[ask.section]
        places = white.off(text, indication)
        if not places or not white.terms:
            break
        again = generator.generate(_asking(ask, text, places, white.terms), features)
        spent = replace(generation_of({"": spent, " ": again.generation}), k=made.generation.k, lengths={})
        if not valid(again):
            break
        made = again
    return replace(made, generation=spent)


def pattern_of(text: str, places: Places, terms: Sequence[str]) -> str:
    """A regular expression of the text with any of the terms at these places."""
    choice, parts, behind = f"({'|'.join(map(_literal, terms))})", [], 0
    for start, end in sorted(places):
        parts += [_literal(text[behind:start]), choice]
        behind = end
    return f"^{''.join(parts)}{_literal(text[behind:])}$"


def _asking(ask: Ask, text: str, places: Places, terms: Sequence[str]) -> Ask:
    word = {"type": "string", "pattern": pattern_of(text, places, terms)}
    schema = {"type": "object", "properties": {ask.section: word}, "required": [ask.section], "additionalProperties": False}
    return replace(ask, schema=json.dumps(schema, ensure_ascii=False))


def _literal(text: str) -> str:
    """The text as a regular expression that every engine reads alike."""
    return "".join(f"\\{character}" if character in _META else character for character in text)
