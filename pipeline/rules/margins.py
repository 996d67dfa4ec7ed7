"""A solid nodule with a blurred margin: wording that a person must look at (source article, case of a false 'solid')."""

from __future__ import annotations

from pipeline.checking import Hit
from pipeline.entry import Kind
from pipeline.model import Severity
from pipeline.rules.analysis import ADVICE, Analysis
from pipeline.rules.lexicon import Lexicon
from pipeline.rules.mentions import Mention

ID, VERSION = "margin.solid", 1
SOLID, BLURRED = "实性", "blurred"


def blurred(analysis: Analysis) -> tuple[Hit, ...]:
    """One flag per solid nodule that is described as 边界模糊, at that description."""
    hits = []
    for section in analysis.sections.values():
        if section.name == ADVICE:
            continue
        for mention in section.mentions:
            if mention.details and mention.observed and mention.present and _solid(mention, analysis.lexicon):
                hits += [_hit(detail) for detail in mention.details if detail.kind is Kind.MARGIN and BLURRED in detail.tags and not detail.negated]
    return tuple(hits)


def _solid(mention: Mention, lexicon: Lexicon) -> bool:
    if lexicon.is_a(mention.term, "实性结节"):
        return True
    return lexicon.is_a(mention.term, "结节") and any(detail.term == SOLID and not detail.negated for detail in mention.details)


def _hit(detail: Mention) -> Hit:
    message = "实性结节描述为边界模糊，密度或边界可能有误，请人工复核图像"
    return Hit(ID, VERSION, Severity.FLAG, detail.section, detail.start, detail.end, message)
