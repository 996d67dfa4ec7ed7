"""Which sentences of 建议 are about a listed finding."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.model import Finding
from pipeline.rules.analysis import Analysis
from pipeline.rules.dose import warning_spans
from pipeline.rules.listed import LIVER, LUNG, NODES, REGION_OF
from pipeline.rules.mentions import Location
from pipeline.rules.said import region_of
from pipeline.rules.spans import Span, any_overlap
from pipeline.rules.spread import SPREADS, sides_of

OF_THE_CHEST = frozenset({"", LUNG, "胸", "胸部"})  # what a sentence about the lungs may name besides nothing
NAMED_AS = {LUNG: OF_THE_CHEST, NODES: frozenset({NODES, "纵隔"}), LIVER: frozenset({LIVER})}
MARKS = " 。；;\n"
_TERMS = {one.kind: one.terms for one in SPREADS}


def advice_for(finding: Finding, analysis: Analysis) -> str | None:
    """Its sentences, as they stand; None where there is none. One that names no place is about the lesions of the lungs; what spreads over a side
    has those that name it."""
    section = analysis.advice
    warned = warning_spans(section.text, analysis.ruleset.dose)
    mine = [one for one in section.sentences if not any_overlap(one, warned) and _about(one, finding, analysis)]
    return "".join(f"{section.text[one.start : one.end].strip(MARKS)}。" for one in mine) or None


def _about(sentence: Span, finding: Finding, analysis: Analysis) -> bool:
    if not analysis.advice.text[sentence.start : sentence.end].strip(MARKS):
        return False
    if finding.kind in _TERMS:
        return any(_is(term, finding.kind, analysis) for term, _ in _named(sentence, analysis))
    region = REGION_OF.get(finding.kind, "")
    organs = {organ for _, organ in _named(sentence, analysis)}
    mine = NAMED_AS.get(region, frozenset())
    if region == LUNG:
        return organs <= mine and all(_may_be(place, finding) for place in _places(sentence, analysis))
    return bool(organs & mine)


def _named(sentence: Span, analysis: Analysis) -> Iterator[tuple[str, str]]:
    """Term and organ of everything that is observed in the sentence, and the organ of each place. What spreads has a name of its own as its organ."""
    for mention in analysis.advice.mentions:
        if mention.observed and sentence.start <= mention.start < sentence.end:
            spread = any(_is(mention.term, kind, analysis) for kind in _TERMS)
            yield mention.term, mention.term if spread else region_of(mention.organ)
    for place in _places(sentence, analysis):
        yield "", region_of(place.organ)


def _places(sentence: Span, analysis: Analysis) -> Iterator[Location]:
    return (place for place in analysis.advice.locations if sentence.start <= place.start < sentence.end)


def _is(term: str, kind: str, analysis: Analysis) -> bool:
    return not _TERMS[kind].isdisjoint(analysis.lexicon.lines.get(term, ()))


def _may_be(place: Location, finding: Finding) -> bool:
    sides = not place.side or finding.side[:1] in sides_of(place.side)
    return sides and (not place.lobe or not finding.lobe or place.lobe == finding.lobe)
