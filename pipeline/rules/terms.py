"""Non-standard term → standard term, outside quotations of the indication; words that look like a finding and are not listed are told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pipeline.checking import CheckContext, Hit, RuleSet
from pipeline.entry import Kind
from pipeline.model import Report, Severity
from pipeline.rules.analysis import FINDINGS, Analysis
from pipeline.rules.dose import warning_spans
from pipeline.rules.extract import read
from pipeline.rules.lexicon import Lexicon, compiled
from pipeline.rules.outcome import Outcome
from pipeline.rules.spans import Span, any_overlap, folded, quotations

ID, VERSION = "term.standard", 2
UNLISTED_ID, UNLISTED_VERSION = "term.unlisted", 1
MAX_ROUNDS = 4  # a replacement may complete another forbidden form with its neighbours
Kept = Callable[[str], Sequence[Span]]


@dataclass(frozen=True, slots=True)
class Replacement:
    """A standard term at `span` of the new text, in place of `original`."""

    span: Span
    original: str


def standardise(report: Report, ruleset: RuleSet, context: CheckContext) -> Outcome:
    """Each forbidden form is replaced; the hit points at the standard term in the new text and keeps the original."""
    lexicon = compiled(ruleset)

    def kept(text: str) -> Sequence[Span]:
        return (*quotations(text, context.indication), *warning_spans(text, ruleset.dose))

    texts, hits = [], []
    for section, text in report.sections().items():
        new, replacements = replaced(text, lexicon, kept)
        texts.append(new)
        hits += [_hit(section, new, replacement) for replacement in replacements]
    findings_text, impression, advice = texts
    return Outcome(replace(report, findings_text=findings_text, impression=impression, advice=advice), tuple(hits))


def unlisted(analysis: Analysis) -> tuple[Hit, ...]:
    """A word in the place of a finding that the lexicon does not have, outside quotations of the indication, is flagged."""
    hits = []
    for section in analysis.sections.values():
        keep = quotations(section.text, analysis.context.indication) if section.unlisted else ()
        for span in section.unlisted:
            if not any_overlap(span, keep):
                message = f"「{section.text[span.start : span.end]}」不在术语表中，请核对用词"
                hits.append(Hit(UNLISTED_ID, UNLISTED_VERSION, Severity.FLAG, section.name, span.start, span.end, message))
    return tuple(hits)


def off_list(text: str, ruleset: RuleSet, indication: str) -> tuple[tuple[int, int], ...]:
    """Where a text has such words: first and behind the last character of each."""
    keep = quotations(text, indication)
    return tuple((span.start, span.end) for span in read(FINDINGS, text, compiled(ruleset)).unlisted if not any_overlap(span, keep))


def listed_terms(ruleset: RuleSet) -> tuple[str, ...]:
    """The standard words for findings and diseases, in the order of the lexicon."""
    return tuple(entry.term for entry in ruleset.lexicon if entry.kind in (Kind.FINDING, Kind.DISEASE))


def _hit(section: str, text: str, done: Replacement) -> Hit:
    standard = text[done.span.start : done.span.end]
    message = f"「{done.original}」已规范为「{standard}」"
    return Hit(ID, VERSION, Severity.REPLACED, section, done.span.start, done.span.end, message, done.original)


def replaced(text: str, lexicon: Lexicon, kept: Kept = lambda _: ()) -> tuple[str, tuple[Replacement, ...]]:
    """Text in standard terms, and what was replaced where. Nothing inside the spans of `kept(text)` changes."""
    done: list[Replacement] = []
    for _ in range(MAX_ROUNDS):
        found = lexicon.replaceable(folded(text))
        if found:
            keep = kept(text)
            found = tuple((span, standard) for span, standard in found if not any_overlap(span, keep))
        if not found:
            break
        text, done = _apply(text, found, done)
    return text, tuple(done)


def _apply(text: str, found: Sequence[tuple[Span, str]], done: Sequence[Replacement]) -> tuple[str, list[Replacement]]:
    """Replace all spans at once; earlier replacements move along."""
    parts, new, position, shift = [], [], 0, 0
    moved = {old: old.span for old in done if not any_overlap(old.span, [span for span, _ in found])}
    for span, standard in found:
        original = text[span.start : span.end]
        parts += [text[position : span.start], standard]
        new.append(Replacement(Span(span.start + shift, span.start + shift + len(standard)), original))
        growth = len(standard) - len(original)
        moved = {old: place.moved(growth) if old.span.start >= span.end else place for old, place in moved.items()}
        position, shift = span.end, shift + growth
    old_ones = [Replacement(place, old.original) for old, place in moved.items()]
    return "".join([*parts, text[position:]]), sorted([*old_ones, *new], key=lambda done: done.span.start)
