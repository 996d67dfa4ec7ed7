"""Where words stand in a text: longest matches, clauses, negation, quotations. Offsets count characters."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import ahocorasick

CLAUSE_END = "，,。；;！!？?\n"
_CLAUSE = re.compile(f"[^{CLAUSE_END}]+")
QUOTED = re.compile(r"[“「『\"]([^”」』\"]+)[”」』\"]")
MIN_QUOTED_VERBATIM = 6  # a shorter indication may stand in the text by chance

# Longer cues first: 不建议 must not be read as 建议.
_NOT = (
    "暂?不(?:建议|推荐|主张|考虑|需|须|必|宜|应|用|予|行|做|(?:可|能)(?=进?行|做|接受|耐受))|未建议|未推荐|暂不|[无毋][需须]|没有?必要|非必要|"
    "暂缓|避免|禁忌|禁(?=行|做)|拒绝|勿|取消|替代|代替|取代|已(?=行)|曾(?=行)|"
    "(?:既往|前次|上次|外院|原)的?(?=(?:胸部|腹部|[上全]腹|CT|平扫|增强|扫描|检查)+\\Z)"  # an examination that was made, to compare with
)
_DO = "建议|推荐|必要时|可考虑|可行|应|需|须|宜"
_CUES = re.compile(f"(?P<no>{_NOT})|(?P<yes>{_DO})")
_NOT_BEHIND = re.compile(r"(?:检查|目前|暂时)*(?:暂?不(?:需|须|必|宜|建议|推荐|考虑|作为首选)|暂缓|无需|无须|没有?必要)(?:要|进行|行|做|安排)*$")
_BEGINS_ANEW = re.compile("并|但|且|而|同时|改(?=行|为|做)")  # 避免受凉并复查CT: what is denied ends here
_WITHOUT_NEED = re.compile(r"(?:无|没有|不具备)(?:进?行|做)?[^，,。；;]*\Z")
_NEED_BEHIND = re.compile(r"(?:检查|扫描)*的?(?:必要性?(?!时)|指征|适应[证症])")
# ASCII in full width or lower case → half width, upper case; the four Chinese punctuation marks among them stay
_FOLD = {0xFEE0 + code: chr(code).upper() for code in range(0x21, 0x7F) if chr(code) not in ",;!?"}
_FOLD |= {code: chr(code).upper() for code in range(ord("a"), ord("z") + 1)}
_FOLDABLE = re.compile("[a-z\uff01-\uff5e]+")  # few characters of a report; translating all of it takes four times as long


class Span(NamedTuple):
    """Characters `start:end` of a text. A named tuple: each report has some hundred."""

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
        return tuple(Span(start, end) for start, end in self.places(text))

    def places(self, text: str) -> list[tuple[int, int]]:
        """The same as pairs of start and end."""
        if self._empty:
            return []
        # matches come in the order of their ends: the last one of a start is its longest
        longest = {end + 1 - length: end + 1 for end, length in self._automaton.iter(text)}
        chosen: list[tuple[int, int]] = []
        reached = 0
        for start in sorted(longest):
            if start >= reached:
                reached = longest[start]
                chosen.append((start, reached))
        return chosen

    def any_in(self, text: str) -> bool:
        """True when the text holds any of the words."""
        return not self._empty and next(self._automaton.iter(text), None) is not None


def clauses(text: str) -> Iterator[Span]:
    """Stretches between punctuation marks, without the marks."""
    return (Span(found.start(), found.end()) for found in _CLAUSE.finditer(text))


def folded(text: str) -> str:
    """Text of the same length in upper case and half width, for matching `ct` and `ＣＴ` as CT."""
    return _FOLDABLE.sub(lambda found: found[0].translate(_FOLD), text)


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
    if _NOT_BEHIND.match(clause, trigger.end) or (_NEED_BEHIND.match(clause, trigger.end) and _WITHOUT_NEED.search(clause, 0, trigger.start)):
        return False
    before = [cue for cue in _CUES.finditer(clause, 0, trigger.end) if cue.start() < trigger.start]
    if not before or (before[-1].lastgroup == "no" and _BEGINS_ANEW.search(clause, before[-1].end(), trigger.start)):
        return None
    return before[-1].lastgroup == "yes"


def quotations(text: str, indication: str) -> tuple[Span, ...]:
    """Stretches of the text that quote the indication: in quotation marks, or the whole of it word for word."""
    sources = {indication.strip(), unicodedata.normalize("NFKC", indication).strip()} - {""}
    if not sources:
        return ()
    spans = [Span(m.start(1), m.end(1)) for m in QUOTED.finditer(text) if any(m[1] in source for source in sources)]
    for source in sources:
        if len(source) >= MIN_QUOTED_VERBATIM:
            spans += [Span(m.start(), m.end()) for m in re.finditer(re.escape(source), text)]
    return tuple(spans)


def any_overlap(span: Span, others: Sequence[Span]) -> bool:
    """True when `span` shares a character with any of the others."""
    return any(span.overlaps(other) for other in others)
