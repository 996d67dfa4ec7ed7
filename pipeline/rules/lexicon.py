"""The lexicon in force, compiled once per rule set: every form in one automaton, and the trees above each entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from pipeline.checking import RuleSet
from pipeline.entry import OBSERVED, Entry, Kind, Level
from pipeline.rules.spans import Matcher, Span, folded

_OF_LUNG = re.compile("^[左右双]?肺(?=[上中下尖前后背舌外内基固])")  # bronchi and arteries are named after the part of the lung
LUNG, LONGEST_OF_LUNG = "肺", 8  # characters behind 肺 that a finding of the lung may have
ABNORMAL = "异常"
IN_ORGAN = "in-organ"  # tag of a finding: what its parent is called in its organ
IN_ORGAN_OF = "in-organ:"  # and before a term: what that one is called there, of whatever parent


@dataclass(frozen=True, slots=True)
class Place:
    """Where an anatomical entry lies in its tree: its organ, and the names of its lobe and segment without those above them."""

    organ: str
    side: str
    lobe: str = ""
    segment: str = ""


class Token(NamedTuple):
    """One form of an entry in a text. A named tuple: some hundred are made of one report, in a third of the time that a frozen dataclass takes."""

    start: int
    end: int
    entry: Entry
    kind: Kind


@dataclass(frozen=True, slots=True, eq=False)
class Lexicon:
    """`entries` by every folded form; `targets` by every folded form that is replaced; one matcher finds both: a longer form guards one inside it."""

    matcher: Matcher
    suspects: Matcher  # forbidden forms alone: a text without any needs no longest match
    entries: Mapping[str, Entry]
    targets: Mapping[str, str]  # a standard term or, for a guard, nothing
    terms: Mapping[str, Entry]
    places: Mapping[str, Place]
    lines: Mapping[str, tuple[str, ...]]  # each term and those above it
    in_organ: Mapping[str, Mapping[str, Entry]]  # general finding → place → what it is called there: 积液, 胸膜腔 → 胸腔积液

    def tokens(self, text: str) -> tuple[Token, ...]:
        """The entries of a folded text in its order, leftmost first and the longest at each place. Forms that are no entry's are left out."""
        known = self.entries
        found, reached = [], 0
        places = self.matcher.places(text)
        for number, (start, end) in enumerate(places, start=1):
            entry = known.get(text[start:end]) if start >= reached else None
            if entry is not None and text.endswith(ABNORMAL, start, end) and number < len(places) and places[number][0] == end:
                cue, denied = known.get(text[start : end - len(ABNORMAL)]), known.get(text[end : places[number][1]])
                if cue is not None and cue.kind is Kind.NEGATION and denied is not None and denied.kind in OBSERVED:
                    found.append(Token(start, end - len(ABNORMAL), cue, cue.kind))  # 未见异常 alone is 正常; 未见异常充盈缺损 denies one
                    continue
            if entry is not None:
                found.append(Token(start, end, entry, entry.kind))
                if entry.kind is Kind.ANATOMY and text[end - 1] == LUNG:
                    follows = known.get(text[end : places[number][1]]) if number < len(places) and places[number][0] == end else None
                    if follows is None or follows.kind not in OBSERVED:
                        rest = self._of_lung(text, end)
                        found += [rest] if rest is not None else []
                        reached = rest.end if rest is not None else end
        return tuple(found)

    def _of_lung(self, text: str, end: int) -> Token | None:
        """What stands behind 左肺 and shares its 肺: 左肺气肿 is 肺气肿 on the left."""
        for stop in range(min(end + LONGEST_OF_LUNG, len(text)), end, -1):
            entry = self.entries.get(text[end - 1 : stop])
            if entry is not None:
                return Token(end, stop, entry, entry.kind) if entry.kind in OBSERVED else None
        return None

    def replaceable(self, text: str) -> tuple[tuple[Span, str], ...]:
        """Forbidden forms of a folded text, each with its standard term."""
        targets = self.targets
        found = []
        for first, last in self._sentences_with_suspects(text):
            sentence = text[first:last]
            for start, end in self.matcher.places(sentence):
                target = targets.get(sentence[start:end])
                if target:
                    found.append((Span(first + start, first + end), target))
        return tuple(found)

    def _sentences_with_suspects(self, text: str) -> Iterator[tuple[int, int]]:
        """Only these need a longest match; no form runs over 。."""
        reached = 0
        for start, end in self.suspects.places(text):
            if start >= reached:
                first = text.rfind("。", reached, start) + 1
                mark = text.find("。", end)
                reached = len(text) if mark < 0 else mark
                yield max(first, 0), reached

    def is_a(self, term: str, wider: str) -> bool:
        """True when `wider` is the term itself or stands above it."""
        return wider in self.lines.get(term, ())

    def above(self, term: str) -> Iterator[Entry]:
        """The entry of a term and those above it; nothing for an unknown term."""
        return (self.terms[one] for one in self.lines.get(term, ()))

    def named_in(self, finding: Entry, place: str) -> Entry:
        """A general finding (积液) as it is called in a place (胸腔积液), else as it is."""
        names = self.in_organ.get(finding.term)
        if names is not None:
            for above in self.lines.get(place, ()):
                if above in names:
                    return names[above]
        return finding

    def tagged(self, tag: str) -> tuple[Entry, ...]:
        """Every entry with this tag."""
        return tuple(entry for entry in self.terms.values() if tag in entry.tags)


@lru_cache(maxsize=8)
def compiled(ruleset: RuleSet) -> Lexicon:
    """The lexicon of a rule set, compiled at its first use. Known by identity: the store gives one object per version."""
    every = (*ruleset.lexicon, *_beside(ruleset))
    terms = {entry.term: entry for entry in every}
    entries = {folded(form): entry for entry in every for form in entry.forms()}
    targets = _targets(ruleset)
    words = {*entries, *targets, *map(folded, targets.values())}
    places = {entry.term: _place(entry, terms) for entry in ruleset.lexicon if entry.kind is Kind.ANATOMY}
    lines = {term: tuple(one.term for one in _line(entry, terms)) for term, entry in terms.items()}
    in_organ: dict[str, dict[str, Entry]] = {}
    for entry in ruleset.lexicon:
        general = [tag.removeprefix(IN_ORGAN_OF) for tag in entry.tags if tag.startswith(IN_ORGAN_OF)]
        for term in (*general, entry.parent) if IN_ORGAN in entry.tags else general:
            in_organ.setdefault(term, {})[entry.organ] = entry
    replaced = {form: final for form, final in targets.items() if form != folded(final)}
    return Lexicon(Matcher(words), Matcher(replaced), entries, replaced, terms, places, lines, in_organ)


def _beside(ruleset: RuleSet) -> tuple[Entry, ...]:
    """Words of the list of critical findings that are no form of any entry: they too are read with what negates them."""
    known = {folded(form) for entry in ruleset.lexicon for form in entry.forms()} if ruleset.critical else set()
    named = (word.partition("@")[0] for rule in ruleset.critical for word in rule.words)
    words = {folded(word): word for word in named if folded(word) not in known}
    return tuple(Entry(word, Kind.DISEASE, "critical findings") for word in words.values())


def _targets(ruleset: RuleSet) -> dict[str, str]:
    """Folded form → where the chain of replacements ends. The site's own terms come before the lexicon's; a form that maps to itself only guards."""
    pairs = {folded(form): entry.term for entry in ruleset.lexicon for form in entry.forbidden}
    pairs |= {folded(form): standard for form, standard in ruleset.terms.items()}
    return {form: _final(form, pairs) for form in pairs if form}


def _final(form: str, pairs: Mapping[str, str]) -> str:
    """A form in a circle stays as it is."""
    seen, word = {form}, pairs[form]
    while (following := pairs.get(folded(word))) is not None and folded(following) != folded(word):
        if folded(word) in seen:
            return form
        seen.add(folded(word))
        word = following
    return form if folded(word) in seen else word


def _place(entry: Entry, terms: Mapping[str, Entry]) -> Place:
    line = list(_line(entry, terms))
    organ = next((one.term for one in line if one.level is Level.ORGAN), line[-1].term)
    side = next((one.side for one in line if one.side), "")
    lobe = next((one for one in line if one.level is Level.LOBE), None)
    segment = next((one for one in line if one.level in (Level.SEGMENT, Level.STATION)), None)
    of_lobe = _short(lobe, terms.get(lobe.parent), organ) if lobe else ""
    return Place(organ, side, of_lobe, _short(segment, lobe, organ) if segment else "")


def _short(entry: Entry, above: Entry | None, organ: str) -> str:
    """The term without its organ and what the one above it says: 上叶 of 左肺上叶 and of 左肺上叶支气管."""
    tail = organ if entry.term.endswith(organ) and entry.term != organ else ""
    bare = entry.term.removesuffix(tail)
    own = bare.removeprefix(above.term.removesuffix(tail)) if above is not None else bare
    return _OF_LUNG.sub("", own) or bare


def _line(entry: Entry, terms: Mapping[str, Entry]) -> Iterator[Entry]:
    above: Entry | None = entry
    while above is not None:
        yield above
        above = terms.get(above.parent)


def forms(entries: Iterable[Entry]) -> int:
    """How many words the entries are read from."""
    return sum(len(entry.forms()) for entry in entries)
