"""Where words stand in a text: longest matches, clauses, negation, quotations. Offsets count characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import ahocorasick

CLAUSE_END = "，,。；;！!？?\n"
QUOTED = re.compile(r"[“「『\"]([^”」』\"]+)[”」』\"]")
MIN_QUOTED_VERBATIM = 6  # a shorter indication may stand in the text by chance

# Longer cues first: 不建议 must not be read as 建议.
_NOT = "不建议|不推荐|不主张|不考虑|不需|不须|不必|不宜|不应|不用|不予|暂不|无需|无须|毋需|毋须|暂缓|避免|禁忌|拒绝|勿|已(?=行)|曾(?=行)"
_DO = "建议|推荐|必要时|可考虑|可行|应|需|须|宜"
_CUES = re.compile(f"(?P<no>{_NOT})|(?P<yes>{_DO})")
_NOT_BEHIND = re.compile(r"(?:检查|目前|暂时)*(?:暂?不(?:需|须|必|宜|建议|推荐|考虑)|暂缓|无需|无须|没有必要)(?:要|进行|行|做|安排)*$")
# ASCII in full width or lower case → half width, upper case; the four Chinese punctuation marks among them stay
_FOLD = {0xFEE0 + code: chr(code).upper() for code in range(0x21, 0x7F) if chr(code) not in ",;!?"}
_FOLD |= {code: chr(code).upper() for code in range(ord("a"), ord("z") + 1)}


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start:end` of a text."""

    start: int
    end: int

    def overlaps(self, other: Span) -> bool:
        """True when both share a character."""
        return self.start < other.end and other.start < self.end

    def moved(self, by: int) -> Span:
        """The same span, `by` characters later."""
        return Span(self.start + by, self.end + by)


class Matcher:
    """Finds words of a fixed list: leftmost first, the longest at each place, without overlap."""

    def __init__(self, words: Iterable[str]) -> None:
        self._automaton = ahocorasick.Automaton()
        for word in words:
            if word:
                self._automaton.add_word(word, len(word))
        self._empty = len(self._automaton) == 0
        if not self._empty:
            self._automaton.make_automaton()

    def longest(self, text: str) -> tuple[Span, ...]:
        """Matches in the order of the text."""
        if self._empty:
            return ()
        every = sorted((end + 1 - length, -end - 1) for end, length in self._automaton.iter(text))
        chosen: list[Span] = []
        for start, negative_end in every:
            if not chosen or start >= chosen[-1].end:
                chosen.append(Span(start, -negative_end))
        return tuple(chosen)


def clauses(text: str) -> Iterator[Span]:
    """Stretches between punctuation marks, without the marks."""
    start = 0
    for index, character in enumerate(text):
        if character in CLAUSE_END:
            if index > start:
                yield Span(start, index)
            start = index + 1
    if len(text) > start:
        yield Span(start, len(text))


def folded(text: str) -> str:
    """Text of the same length in upper case and half width, for matching `ct` and `ＣＴ` as CT."""
    return text.translate(_FOLD)


def find_pattern(clause: str, pattern: str) -> Span | None:
    """First place of `pattern` in a clause; `…` stands for anything in between."""
    parts = [part for part in pattern.split("…") if part]
    start = end = -1
    for part in parts:
        found = clause.find(part, max(end, 0))
        if found < 0:
            return None
        start = found if start < 0 else start
        end = found + len(part)
    return Span(start, end) if parts else None


def recommended(clause: str, trigger: Span) -> bool | None:
    """Does the clause ask for what stands at `trigger`? True, False (negated), or None when no cue says so."""
    if _NOT_BEHIND.match(clause, trigger.end):
        return False
    before = [cue.lastgroup for cue in _CUES.finditer(clause, 0, trigger.end) if cue.start() < trigger.start]
    return before[-1] == "yes" if before else None


def quotations(text: str, indication: str) -> tuple[Span, ...]:
    """Stretches of the text that quote the indication: in quotation marks, or the whole of it word for word."""
    sources = {indication.strip(), unicodedata.normalize("NFKC", indication).strip()} - {""}
    spans = [Span(m.start(1), m.end(1)) for m in QUOTED.finditer(text) if any(m[1] in source for source in sources)]
    for source in sources:
        if len(source) >= MIN_QUOTED_VERBATIM:
            spans += [Span(m.start(), m.end()) for m in re.finditer(re.escape(source), text)]
    return tuple(spans)


def any_overlap(span: Span, others: Sequence[Span]) -> bool:
    """True when `span` shares a character with any of the others."""
    return any(span.overlaps(other) for other in others)
