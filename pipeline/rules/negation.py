"""What a cue governs: 未见 X、Y are absent, X 待排 is uncertain, X 术后 is past. Scopes end with the clause, at 但, and at 见."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from pipeline.entry import CUES, OBSERVED, Kind, Scope
from pipeline.rules.lexicon import Token
from pipeline.rules.spans import Span

_LIST = re.compile(r"\s*(?:、|及|或|和|与|以及|并|/|\\)\s*")
_SET_IN = re.compile(r"\s*(?:行|的|经)?(?:血管)?(?:腔内)?(?:介入)?(?:覆膜)?\s*")  # between a disease and the stent for it
_GOES_ON = re.compile(r"\s*(?:或|及|以及|和|亦无|也无)")
_SAYS_MORE = re.compile(r"(?!征象|显示|表现|改变)[\u4e00-\u9fff]{2}")  # 结节未见脂肪密度 denies no nodule; 气胸未见征象 does
_TODAY = re.compile("新见|新增|新发|新出现|仍|比较|相比|对比|对照")  # 较既往CT新增 X tells of today
GOVERNED = OBSERVED | {Kind.ENHANCEMENT, Kind.MARGIN, Kind.STRUCTURE, Kind.CHANGE, Kind.CONTRAST}


class Governed(NamedTuple):
    """Characters `start:end` that a cue governs."""

    cue: Kind
    start: int
    end: int

    def holds(self, token: Token) -> bool:
        """True when the token begins inside."""
        return self.start <= token.start < self.end


def governed(text: str, clause: Span, tokens: Sequence[Token], following: Span | None = None) -> tuple[Governed, ...]:
    """The scopes of every cue among the tokens of one clause. `following`: the next clause of the same sentence, into which a list may go on."""
    found: list[Governed] = []
    for index, cue in enumerate(tokens):
        if cue.kind in CUES:
            found += _of(text, clause, tokens, index, following)
    return tuple(found)


def _of(text: str, clause: Span, tokens: Sequence[Token], index: int, following: Span | None) -> Sequence[Governed]:
    cue = tokens[index]
    ahead = _forward(text, clause, tokens, index, following)
    where = cue.entry.scope
    if where is Scope.NEAREST:
        after = any(token.kind in GOVERNED for token in tokens[index + 1 :] if token.start < ahead.end)
        goes_on = after or ahead.end > clause.end or _SAYS_MORE.search(text, cue.end, clause.end) is not None
        where = Scope.FORWARD if goes_on else Scope.BACKWARD
    if where is Scope.FORWARD and not (text[cue.start - 1 : cue.start] == ":" and not text[cue.end : clause.end].strip()):  # but 气胸：无
        return (ahead,)
    back = _backward(text, tokens, index)
    return (back,) if back is not None else ()


def _forward(text: str, clause: Span, tokens: Sequence[Token], index: int, following: Span | None) -> Governed:
    """From behind the cue to 见 or 但, else to the end of the clause, and on where the next one begins with 或."""
    cue = tokens[index]
    stop = next((token.start for token in tokens[index + 1 :] if token.kind is Kind.ASSERTION and _asserts(tokens, token)), None)
    if stop is not None:
        return Governed(cue.kind, cue.end, stop)
    if cue.kind is Kind.HISTORY and (today := _TODAY.search(text, cue.end, clause.end)) is not None:
        return Governed(cue.kind, cue.end, today.start())
    goes_on = following is not None and cue.kind is Kind.NEGATION and _GOES_ON.match(text, following.start, following.end)
    return Governed(cue.kind, cue.end, following.end if following is not None and goes_on else clause.end)


def _asserts(tokens: Sequence[Token], assertion: Token) -> bool:
    """伴 and 并 only go on with what is denied before them; the others begin anew."""
    return assertion.entry.term != "伴"


def _backward(text: str, tokens: Sequence[Token], index: int) -> Governed | None:
    """The observation nearest before the cue, and those that stand in one list with it; 夹层支架术后: the stent and what it was set for."""
    before = [token for token in tokens[:index] if token.kind in GOVERNED]
    if not before:
        return None
    start = before[-1].start
    for earlier, later in zip(reversed(before[:-1]), reversed(before), strict=False):
        treated = tokens[index].kind is Kind.HISTORY and later.kind is Kind.DEVICE and _SET_IN.fullmatch(text, earlier.end, later.start)
        if not treated and not _LIST.fullmatch(text, earlier.end, later.start):
            break
        start = earlier.start
    return Governed(tokens[index].kind, start, tokens[index].start)
