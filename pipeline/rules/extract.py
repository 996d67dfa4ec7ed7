"""Text → what it says, in one pass: entries, clauses, cues, places, measures; then each finding with what belongs to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import TypeVar

from pipeline.entry import DESCRIBING, OBSERVED, Kind, Level
from pipeline.rules.lexicon import Lexicon, Token
from pipeline.rules.measures import Measure, MeasureKind, in_folded
from pipeline.rules.mentions import Location, Mention, Section
from pipeline.rules.negation import Governed, governed
from pipeline.rules.spans import Span, clauses, folded
from pipeline.rules.unlisted import unlisted

SENTENCE_END = "。；;！!\n"
SILENT = frozenset({Kind.ANATOMY, Kind.SIDE, Kind.NEGATION, Kind.UNCERTAINTY, Kind.HISTORY, Kind.ASSERTION, Kind.UNIT, Kind.GUARD})
ATTACHED = frozenset({MeasureKind.SIZE, MeasureKind.HU, MeasureKind.COUNT, MeasureKind.REFERENCE})
NO_FLAGS: frozenset[Kind] = frozenset()
Piece = TypeVar("Piece", Token, Measure)
_JOINED = re.compile(r"\s*(?:、|及|和|与|以及|并|或|/|至|-|~)\s*")
_LIES_IN = re.compile(r"位于|居于|在|见于|主要分布于|分布于|以")
_NOTHING_BETWEEN = re.compile(r"\s*[（(]?\s*")


@dataclass(slots=True)
class _Found:
    """A mention in the making."""

    token: Token
    clause: Span
    locations: tuple[Location, ...]
    flags: frozenset[Kind]
    details: list[Mention] = field(default_factory=list)
    measures: list[Measure] = field(default_factory=list)


@dataclass(slots=True)
class _Sentence:
    """What has been read of the sentence so far."""

    span: Span
    places: list[Location] = field(default_factory=list)
    spoken: bool = False  # a finding stood behind the places: the next place begins anew
    last: _Found | None = None  # the finding that a description behind it belongs to


def read(name: str, text: str, lexicon: Lexicon, start: int = 0) -> Section:
    """One section from `start` on. Every offset is one of `text`, whatever its width and case."""
    flat = folded(text)
    if start:
        flat = "。" * start + flat[start:]
    tokens, sizes = lexicon.tokens(flat), in_folded(flat)
    spans = tuple(clauses(flat))
    by_clause, sizes_by_clause = _shared(tokens, spans), _shared(sizes, spans)
    reader = _Reader(name, flat, lexicon)
    sentences = []
    for first, last in _sentences(flat, spans):
        whole = Span(spans[first].start, spans[last - 1].end)
        reader.sentence(whole, spans[first:last], by_clause[first:last], sizes_by_clause[first:last])
        sentences.append(whole)
    odd = unlisted(flat, spans, by_clause, sizes)
    return Section(name, text, reader.mentions(), tuple(reader.locations), sizes, spans, tuple(sentences), odd)


def _sentences(text: str, spans: Sequence[Span]) -> Iterator[tuple[int, int]]:
    """Numbers of the first clause and of the one behind the last, up to each mark that ends a sentence."""
    first = 0
    for number, span in enumerate(spans, start=1):
        if number == len(spans) or text[span.end] in SENTENCE_END:
            yield first, number
            first = number


def _shared(pieces: Sequence[Piece], spans: Sequence[Span]) -> list[list[Piece]]:
    """The pieces of each clause. One that runs over a mark belongs to the clause where it begins, and a question mark to the clause that it ends."""
    shared: list[list[Piece]] = [[] for _ in spans]
    at = 0
    for piece in pieces:
        while at < len(spans) and spans[at].end < piece.start:
            at += 1
        if at < len(spans) and spans[at].start <= piece.start:
            shared[at].append(piece)
    return shared


class _Reader:
    """Reads a section sentence by sentence."""

    def __init__(self, name: str, text: str, lexicon: Lexicon) -> None:
        self._name, self._text, self._lexicon = name, text, lexicon
        self._found: list[tuple[_Found, Span]] = []
        self._loose: list[Mention] = []
        self._last: _Found | None = None  # of the sentence before
        self.locations: list[Location] = []

    def mentions(self) -> tuple[Mention, ...]:
        """Everything that was found, in the order of the text."""
        every = [*self._loose]
        for found, sentence in self._found:
            every.append(
                self._mention(found.token, found.clause, sentence, found.flags, found.locations, tuple(found.details), tuple(found.measures))
            )
            every += found.details
        return tuple(sorted(every, key=attrgetter("start")))

    def sentence(self, span: Span, parts: Sequence[Span], tokens: Sequence[list[Token]], sizes: Sequence[list[Measure]]) -> None:
        """Read one sentence; places and the last finding go on from clause to clause."""
        state = _Sentence(span)
        scopes: tuple[Governed, ...] = ()
        for index, (clause, words) in enumerate(zip(parts, tokens, strict=True)):
            following = parts[index + 1] if index + 1 < len(parts) else None
            kept = tuple(scope for scope in scopes if scope.end > clause.start) if scopes else ()
            scopes = (*kept, *governed(self._text, clause, words, following))
            if index == 0 and not any(token.kind in OBSERVED or token.kind is Kind.ANATOMY for token in words):
                state.last = self._last  # 大小约8mm。 tells of what the sentence before found
            self._clause(state, clause, words, scopes, sizes[index])
        self._last = state.last

    def _clause(self, state: _Sentence, clause: Span, tokens: Sequence[Token], scopes: Sequence[Governed], sizes: Sequence[Measure]) -> None:
        waiting: list[tuple[Token, frozenset[Kind]]] = []
        side, fresh = "", False  # a place named in this clause, before any finding of it
        own: list[_Found] = []
        for index, token in enumerate(tokens):
            if token.kind is Kind.SIDE:
                side = token.entry.side
            elif token.kind is Kind.ANATOMY:
                fresh = self._place(state, token, side) or fresh
                side = "" if token.entry.level is not Level.PART else side
            elif token.kind in OBSERVED:
                here = fresh and not state.spoken
                if here or (state.places and token.kind is Kind.FINDING and not token.entry.organ):
                    token = self._named(token, state)
                found = _Found(token, clause, self._where(state, token, side, tokens[index + 1 :], here), _flags(scopes, token))
                found.details += [self._mention(one, clause, state.span, flags, found.locations) for one, flags in waiting]
                waiting, state.last, state.spoken = [], found, True
                own.append(found)
                self._found.append((found, state.span))
            elif token.kind in DESCRIBING:
                waiting.append((token, _flags(scopes, token)))
            elif token.kind not in SILENT:
                self._loose.append(self._mention(token, clause, state.span, _flags(scopes, token)))
        if waiting:
            self._leftover(state, clause, waiting, fresh and not own)
        if sizes:
            past = [scope for scope in scopes if scope.cue is Kind.HISTORY]
            self._measured(state, own, [_dated(one, past) for one in sizes], fresh)

    def _leftover(self, state: _Sentence, clause: Span, waiting: Sequence[tuple[Token, frozenset[Kind]]], elsewhere: bool) -> None:
        """Descriptions behind the last finding belong to it, unless their clause speaks of another place."""
        for token, flags in waiting:
            if state.last is not None and not elsewhere:
                state.last.details.append(self._mention(token, clause, state.span, flags, state.last.locations))
            else:
                self._loose.append(self._mention(token, clause, state.span, flags, tuple(state.places)))

    def _measured(self, state: _Sentence, own: Sequence[_Found], sizes: Sequence[Measure], elsewhere: bool) -> None:
        """A count belongs to the finding behind it, a size to the one before it in its clause, else behind it, else before it in the sentence."""
        for one in sizes:
            if one.kind not in ATTACHED:
                continue
            before = [found for found in own if found.token.start <= one.start]
            behind = [found for found in own if found.token.start > one.start]
            if one.kind is MeasureKind.COUNT and behind:
                behind[0].measures.append(one)
            elif before:
                before[-1].measures.append(one)
            elif behind:
                behind[0].measures.append(one)
            elif state.last is not None and not elsewhere:
                state.last.measures.append(one)

    def _place(self, state: _Sentence, token: Token, side: str) -> bool:
        """Note a place: it refines the one right before it, joins a list with it, or takes its place. True: places of this clause."""
        place = self._lexicon.places[token.entry.term]
        before = state.places[-1] if state.places else None
        named = Location(token.entry.term, place.organ, place.side or side, place.lobe, place.segment, token.start, token.end)
        if before is not None and not place.side and before.organ == named.organ and not state.spoken:
            named = _completed(named, before)
        elif before is not None and not place.side and before.organ == named.organ and place.lobe:
            named = named._replace(side=named.side or before.side)
        between = self._text[before.end : token.start] if before is not None else ""
        if before is None or state.spoken or before.end > token.start:
            state.places = [named]
        elif _NOTHING_BETWEEN.fullmatch(between) and before.organ == named.organ:
            state.places[-1] = named._replace(start=before.start, lobe=named.lobe or before.lobe, segment=named.segment or before.segment)
        elif _JOINED.fullmatch(between):
            state.places.append(named)
        else:
            state.places = [named]
        state.spoken = False
        self.locations.append(state.places[-1])
        return True

    def _named(self, token: Token, state: _Sentence) -> Token:
        """积液 behind 左侧胸腔 is 胸腔积液."""
        entry = self._lexicon.named_in(token.entry, state.places[-1].term)
        return token if entry is token.entry else Token(token.start, token.end, entry, entry.kind)

    def _where(self, state: _Sentence, token: Token, side: str, behind: Sequence[Token], here: bool) -> tuple[Location, ...]:
        """Where a finding is: the places right before it, else what its own nature says, else the sentence's places, else those behind it."""
        side = token.entry.side or side
        if here:
            return _on_side(state.places, side)
        if token.entry.organ:
            return self._by_nature(state, token, side)
        later = self._behind(token, behind, side)
        if later is not None:
            return (later,)
        if not state.places and side:
            return (Location("", "", side, "", "", token.start, token.end),)
        return _on_side(state.places, side)

    def _behind(self, token: Token, behind: Sequence[Token], side: str) -> Location | None:
        """结节位于右肺下叶: the place behind a finding, before the next one."""
        place = next((one for one in behind if one.kind is Kind.ANATOMY or one.kind in OBSERVED), None)
        if place is None or place.kind is not Kind.ANATOMY or not _LIES_IN.search(self._text, token.end, place.start):
            return None
        tree = self._lexicon.places[place.entry.term]
        return Location(place.entry.term, tree.organ, tree.side or side, tree.lobe, tree.segment, place.start, place.end)

    def _by_nature(self, state: _Sentence, token: Token, side: str) -> tuple[Location, ...]:
        """The sentence's places that lie in the finding's organ or hold it, else the organ alone."""
        term = token.entry.organ
        tree = self._lexicon.places.get(term)
        organ = tree.organ if tree is not None else term
        is_a = self._lexicon.is_a
        same = [place for place in state.places if place.organ == organ or is_a(place.term, organ) or is_a(organ, place.organ)]
        if same and not side:
            return tuple(same)
        return (Location(term, organ, side, "", "", token.start, token.end),)

    def _mention(
        self,
        token: Token,
        clause: Span,
        sentence: Span,
        flags: frozenset[Kind],
        locations: tuple[Location, ...] = (),
        details: tuple[Mention, ...] = (),
        measures: tuple[Measure, ...] = (),
    ) -> Mention:
        entry = token.entry
        return Mention(
            entry.term,
            token.kind,
            self._name,
            token.start,
            token.end,
            clause,
            sentence,
            locations,
            measures,
            details,
            Kind.NEGATION in flags,
            Kind.UNCERTAINTY in flags,
            Kind.HISTORY in flags,
            entry.tags,
            entry.organ or (locations[0].organ if locations else ""),
        )


def _dated(measure: Measure, past: Sequence[Governed]) -> Measure:
    """原约8mm is the size of an earlier examination."""
    return replace(measure, prior=True) if any(scope.start < measure.end and measure.start < scope.end for scope in past) else measure


def _on_side(places: Sequence[Location], side: str) -> tuple[Location, ...]:
    """The places; those without a side take this one."""
    return tuple(place if place.side or not side else place._replace(side=side) for place in places)


def _flags(scopes: Sequence[Governed], token: Token) -> frozenset[Kind]:
    if not scopes:
        return NO_FLAGS
    return frozenset(scope.cue for scope in scopes if scope.holds(token))


def _completed(named: Location, before: Location) -> Location:
    """A lobe or segment named alone takes side and lobe from the place before it."""
    side = named.side or before.side
    if named.segment and (not named.lobe or named.lobe == before.lobe or named.lobe.endswith(before.lobe or "\0")):
        return named._replace(side=side, lobe=before.lobe or named.lobe)
    return named._replace(side=side)
