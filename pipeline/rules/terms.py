"""Non-standard term → standard term, outside quotations of the indication."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from pipeline.model import CheckContext, Hit, Report, RuleSet, Severity
from pipeline.rules.dose import warning_spans
from pipeline.rules.outcome import Outcome
from pipeline.rules.spans import Matcher, Span, any_overlap, quotations

ID, VERSION = "term.standard", 1
MAX_ROUNDS = 4  # a replacement may complete another forbidden form with its neighbours
Kept = Callable[[str], Sequence[Span]]


@dataclass(frozen=True, slots=True)
class Replacement:
    """A standard term at `span` of the new text, in place of `original`."""

    span: Span
    original: str


def standardise(report: Report, ruleset: RuleSet, context: CheckContext) -> Outcome:
    """Each forbidden form is replaced; the hit points at the standard term in the new text and keeps the original."""

    def kept(text: str) -> Sequence[Span]:
        return (*quotations(text, context.indication), *warning_spans(text, ruleset.dose))

    texts, hits = [], []
    for section, text in report.sections().items():
        new, replacements = replaced(text, ruleset.terms, kept)
        texts.append(new)
        hits += [_hit(section, new, replacement) for replacement in replacements]
    findings_text, impression, advice = texts
    return Outcome(replace(report, findings_text=findings_text, impression=impression, advice=advice), tuple(hits))


def _hit(section: str, text: str, done: Replacement) -> Hit:
    standard = text[done.span.start : done.span.end]
    message = f"「{done.original}」已规范为「{standard}」"
    return Hit(ID, VERSION, Severity.REPLACED, section, done.span.start, done.span.end, message, done.original)


def replaced(text: str, terms: Mapping[str, str], kept: Kept = lambda _: ()) -> tuple[str, tuple[Replacement, ...]]:
    """Text in standard terms, and what was replaced where. Nothing inside the spans of `kept(text)` changes."""
    lexicon = _lexicon(tuple(terms.items()))
    done: list[Replacement] = []
    for _ in range(MAX_ROUNDS):
        keep = kept(text)
        found = [span for span in lexicon.matcher.longest(text) if text[span.start : span.end] in lexicon.targets]
        found = [span for span in found if not any_overlap(span, keep)]
        if not found:
            break
        text, done = _apply(text, found, lexicon.targets, done)
    return text, tuple(done)


def _apply(text: str, found: Sequence[Span], targets: Mapping[str, str], done: Sequence[Replacement]) -> tuple[str, list[Replacement]]:
    """Replace all spans at once; earlier replacements move along."""
    parts, new, position, shift = [], [], 0, 0
    moved = {old: old.span for old in done if not any_overlap(old.span, found)}
    for span in found:
        original = text[span.start : span.end]
        standard = targets[original]
        parts += [text[position : span.start], standard]
        new.append(Replacement(Span(span.start + shift, span.start + shift + len(standard)), original))
        growth = len(standard) - len(original)
        moved = {old: place.moved(growth) if old.span.start >= span.end else place for old, place in moved.items()}
        position, shift = span.end, shift + growth
    old_ones = [Replacement(place, old.original) for old, place in moved.items()]
    return "".join([*parts, text[position:]]), sorted([*old_ones, *new], key=lambda done: done.span.start)


@dataclass(frozen=True)
class _Lexicon:
    matcher: Matcher
    targets: Mapping[str, str]  # forbidden form → final standard term, without forms that map to themselves


@lru_cache(maxsize=8)
def _lexicon(terms: tuple[tuple[str, str], ...]) -> _Lexicon:
    """Standard terms match as well: a longer one guards the forbidden form inside it."""
    known = dict(terms)
    targets = {form: final for form in known if (final := _final(form, known)) != form}
    return _Lexicon(Matcher({*known, *known.values()}), targets)


def _final(form: str, terms: Mapping[str, str]) -> str:
    """Where a chain of replacements ends; a form in a circle stays as it is."""
    seen, word = {form}, form
    while (following := terms.get(word, word)) != word:
        if following in seen:
            return form
        seen.add(following)
        word = following
    return word
