"""Words where a finding is expected, that look like one and are not in the lexicon."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipeline.entry import Kind
from pipeline.rules.lexicon import Token
from pipeline.rules.measures import Measure
from pipeline.rules.spans import Span

# endings that make a word a finding; the word's own part are one to seven characters that no particle or verb breaks
_INSIDE = r"[^\W\d_A-Z的了呈为是于在之其及和与或并伴见示有无未约较内外上中下左右均可系个枚处一二两三]"
_LOOKS_LIKE_ONE = re.compile(_INSIDE + "{1,7}(?:征|影|瘤|癌|炎|病|症|综合征|肿|疹|疱|样变|灶)(?![响像学人史例房态理变])")
LEADS = frozenset({Kind.ANATOMY, Kind.ASSERTION, Kind.NEGATION, Kind.UNCERTAINTY})


def unlisted(text: str, spans: Sequence[Span], tokens: Sequence[Sequence[Token]], measures: Sequence[Measure]) -> tuple[Span, ...]:
    """Spans of such words in a folded text, behind 见, 未见, 考虑 or a place."""
    return tuple(found for span, words in zip(spans, tokens, strict=True) for found in _of_clause(text, span, words, measures))


def _of_clause(text: str, span: Span, tokens: Sequence[Token], measures: Sequence[Measure]) -> Iterator[Span]:
    for token in tokens:
        if token.kind in LEADS:
            lead = token.end
            break
    else:
        return
    for start, end in _gaps(span, tokens, lead):
        for match in _LOOKS_LIKE_ONE.finditer(text, start, end):
            place = Span(match.start(), match.end())
            if not any(place.overlaps(Span(one.start, one.end)) for one in measures):
                yield place


def _gaps(span: Span, tokens: Sequence[Token], start: int) -> Iterator[tuple[int, int]]:
    """What no entry covers behind `start`, as far as a word fits in."""
    for token in tokens:
        if token.start > start + 1:
            yield start, token.start
        if token.end > start:
            start = token.end
    if span.end > start + 1:
        yield start, span.end
