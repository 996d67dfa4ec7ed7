"""How many: a number of nodules agrees with the sizes listed behind it, and the impression's number with that of the findings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pipeline.checking import Hit
from pipeline.model import Severity
from pipeline.rules.analysis import IMPRESSION, Analysis
from pipeline.rules.lexicon import Lexicon
from pipeline.rules.mentions import Section
from pipeline.rules.said import Stated, explains, overlap, said, same_thing

ID, VERSION = "count.mismatch", 2
SEVERAL = 0  # 多发, 数枚
_EACH = re.compile(r"各|均|分别(?=见|可见|有|示)")  # 双肺各见一枚: the number is that of one place


def mismatches(analysis: Analysis) -> tuple[Hit, ...]:
    """Flags only: 两枚 before three sizes, 两枚 in the impression of one nodule, 多发 of one."""
    known = said(analysis)
    hits = [*_listed(analysis.findings, known.findings), *_listed(analysis.impression, known.impression)]
    for one in known.impression:
        if one.number is not None and not _each(analysis.impression, one):
            hits += _concluded(analysis, one, known.findings) if one.groups else _named(analysis, one, known.findings)
    return tuple(hits)


def _listed(section: Section, stated: Sequence[Stated]) -> Iterator[Hit]:
    """两枚结节，大小分别约8mm、6mm、5mm."""
    for one in stated:
        if one.number and 1 < len(one.sizes) != one.number and "分别" in section.text[one.mention.start : one.sizes[-1].end]:
            message = f"写作 {one.number} 枚，其后列出 {len(one.sizes)} 个大小，请核对数目"
            yield Hit(ID, VERSION, Severity.FLAG, section.name, one.sizes[0].start, one.sizes[-1].end, message)


def _concluded(analysis: Analysis, one: Stated, findings: Sequence[Stated]) -> Iterator[Hit]:
    about = [other for other in findings if explains(one, other, analysis.lexicon) and one.groups & other.groups and overlap(one, other)]
    yield from _compared(one, about, [_number(analysis, other) for other in about if not other.again])


def _named(analysis: Analysis, one: Stated, findings: Sequence[Stated]) -> Iterator[Hit]:
    """Words without a group (囊肿, 结石, 骨折): only where the findings use them too, or take what they describe for them, and write how many."""
    about = [other for other in findings if same_thing(one, other, analysis.lexicon) and overlap(one, other)]
    sources = [other if other.number is not None else _taken_for(other, findings) for other in about if not other.again]
    once = {source.mention.start: source for source in sources if source is not None}
    if None not in sources and all(source.number for source in once.values()):
        yield from _compared(one, about, [_counted(analysis, source) for source in once.values()])


def _taken_for(one: Stated, findings: Sequence[Stated]) -> Stated | None:
    """4个低密度影，考虑囊肿: the last counted finding of the same sentence and place before an uncertain one."""
    if one.certain:
        return None
    sentence = [other for other in findings if other.mention.sentence == one.mention.sentence and other.mention.start < one.mention.start]
    return next((other for other in reversed(sentence) if other.number and other.region == one.region and overlap(one, other)), None)


def _compared(one: Stated, about: Sequence[Stated], counts: Sequence[int | None]) -> Iterator[Hit]:
    if not counts or None in counts:
        return
    total = sum(count for count in counts if count)
    if (one.number == SEVERAL and total == 1) or (one.number and one.number != total and not _part(one, about)):
        said_as = "多发" if one.number == SEVERAL else f"{one.number} 枚"
        place = next(measure for measure in one.mention.measures if measure.kind == "count")
        message = f"诊断意见写{one.mention.term}{said_as}，检查所见描述 {total} 枚，请核对数目"
        yield Hit(ID, VERSION, Severity.FLAG, IMPRESSION, place.start, place.end, message)


def _part(one: Stated, about: Sequence[Stated]) -> bool:
    """An impression that names a size may speak of one among several."""
    return one.number == 1 and bool(one.sizes) and len(about) > 1


def _number(analysis: Analysis, one: Stated) -> int | None:
    """How many a finding is: one where no number is said, None for several or where the number is that of each place."""
    if one.number == SEVERAL or not one.certain or _plural(one, analysis.lexicon):
        return None
    return 1 if one.number is None else _counted(analysis, one)


def _counted(analysis: Analysis, one: Stated) -> int:
    """The number that is written, of all its places where it is that of each; 0 where none is."""
    places = sum(2 if place.side == "双" else 1 for place in one.locations)
    return (one.number or 0) * (places if _each(analysis.findings, one) else 1)


def _plural(one: Stated, lexicon: Lexicon) -> bool:
    """散在, 弥漫, or places on both sides without a number: nobody can count that."""
    spread = any(detail.term in ("散在", "弥漫性", "多发", "广泛", "簇状分布") for detail in one.mention.details)
    return spread or (one.number is None and (len(one.sides) > 1 or len(one.locations) > 1)) or lexicon.is_a(one.mention.term, "粟粒结节")


def _each(section: Section, one: Stated) -> bool:
    return _EACH.search(section.text, one.mention.clause.start, one.mention.start) is not None
