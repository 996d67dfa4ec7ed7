"""A size in the impression is the one that the findings give of the same finding."""

from __future__ import annotations

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import IMPRESSION, Analysis
from pipeline.rules.measures import Measure
from pipeline.rules.said import Stated, explains, overlap, said

ID, VERSION = "size.impression", 1
ROUNDING_MM = 0.5  # 8.4 mm may be written as 8 mm


def agree(analysis: Analysis) -> tuple[Hit, ...]:
    """A size that none of the findings it may be about has is flagged."""
    known = said(analysis)
    hits = []
    for stated in known.impression:
        if not stated.sizes:
            continue
        about = [one for one in known.findings if one.sizes and explains(stated, one, analysis.lexicon) and overlap(one, stated)]
        given = [size for one in about for size in one.sizes]
        if given:
            hits += [_hit(stated, size, given) for size in stated.sizes if not any(_same(size, other) for other in given)]
    return tuple(hits)


def _same(one: Measure, other: Measure) -> bool:
    """The largest dimensions agree, or one lies in the other's range."""
    return one.low - ROUNDING_MM <= other.high and other.low - ROUNDING_MM <= one.high


def _hit(stated: Stated, size: Measure, given: list[Measure]) -> Hit:
    described = "、".join(dict.fromkeys(f"{one.largest_mm:g} mm" for one in given))
    message = f"诊断意见中{stated.mention.term}的大小为 {size.largest_mm:g} mm，检查所见为 {described}，请核对"
    return Hit(ID, VERSION, Severity.FLAG, IMPRESSION, size.start, size.end, message)
