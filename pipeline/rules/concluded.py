"""The list of findings beside 诊断意见 and 建议: all that these name lies on a side where something is listed."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.checking import Hit
from pipeline.model import Finding, Severity
from pipeline.rules.analysis import ADVICE, IMPRESSION, Analysis
from pipeline.rules.listed import KINDS, LUNG, REGION_OF, Pair, has_list, name, paired, region
from pipeline.rules.mentions import Location
from pipeline.rules.said import Stated, clause_at, past, said
from pipeline.rules.spans import Span, any_overlap, quotations
from pipeline.rules.spread import SPREADS, sides_of

ID, VERSION = "structure.impression", 1
ADVICE_ID, ADVICE_VERSION = "structure.advice", 1
SIDED = frozenset({LUNG, "胸膜腔", "胸膜"})
_SPREAD = frozenset(one.kind for one in SPREADS)


def agree(analysis: Analysis) -> tuple[Hit, ...]:
    """A lung lesion of the impression on another side than the listed one blocks; one more than are listed is flagged. Others may be left out."""
    if not has_list(analysis):
        return ()
    known = paired(analysis, [one for one in said(analysis).impression if region(one, analysis.lexicon) == LUNG])
    hits = [hit for pair in known.pairs for hit in _differences(pair)]
    hits += [hit for one in dict.fromkeys(pair.stated for pair in known.pairs) for hit in _too_wide(one, known.pairs)]
    hits += [_hit(Severity.FLAG, one, _unlisted(one, analysis.report.findings)) for one in known.unlisted if one.certain and one.sides]
    return tuple(sorted(hits, key=lambda hit: (hit.start, hit.message)))


def _differences(pair: Pair) -> Iterator[Hit]:
    if pair.stated.sides and pair.finding.side[:1] not in pair.stated.sides:
        yield _hit(Severity.BLOCK, pair.stated, f"病灶列表写{name(pair.finding)}，请核对侧别")


def _unlisted(one: Stated, findings: tuple[Finding, ...]) -> str:
    """One too many; of the side it may be, where lesions of its kind are listed on the other one only."""
    lie = {finding.side[:1] for finding in findings if REGION_OF.get(finding.kind) == LUNG and KINDS[finding.kind] in one.groups}
    return "病灶列表中没有对应的病灶，请核对" if not lie or one.sides & lie else "病灶列表中该侧没有这样的病灶，请核对侧别"


def _too_wide(one: Stated, pairs: tuple[Pair, ...]) -> Iterator[Hit]:
    """双肺 of lesions that are all on one side."""
    lie = {pair.finding.side[:1] for pair in pairs if pair.stated is one}
    if one.sides & lie and one.sides - lie:
        yield _hit(Severity.FLAG, one, f"病灶列表没有{'、'.join(sorted(one.sides - lie))}侧病灶，请核对侧别")


def _hit(severity: Severity, one: Stated, what: str) -> Hit:
    place, mention = one.place, one.mention
    start = min(place.start, mention.start) if place is not None and place.end <= mention.start else mention.start
    sides = "、".join(sorted(one.sides))
    return Hit(ID, VERSION, severity, IMPRESSION, start, mention.end, f"诊断意见写在{sides}侧的{mention.term}：{what}")


def advised(analysis: Analysis) -> tuple[Hit, ...]:
    """A lung, lobe or pleura that the advice names, with nothing listed there, is flagged. What the indication says is not."""
    section = analysis.advice
    if not has_list(analysis) or not any(place.side for place in section.locations):
        return ()
    quoted = quotations(section.text, analysis.context.indication)
    hits = []
    for place in section.locations:
        if place.organ not in SIDED or not place.side or any_overlap(Span(place.start, place.end), quoted):
            continue
        if not past(section, clause_at(section, place.start)) and not _listed(place, analysis.report.findings):
            message = f"建议写「{section.text[place.start : place.end]}」，结构化结果中该处没有病灶，请核对侧别"
            hits.append(Hit(ADVICE_ID, ADVICE_VERSION, Severity.FLAG, ADVICE, place.start, place.end, message))
    return tuple(hits)


def _listed(place: Location, findings: tuple[Finding, ...]) -> bool:
    """Is something listed on every side of the place, and in its lobe?"""
    return all(any(_there(place, side, finding) for finding in findings) for side in sides_of(place.side))


def _there(place: Location, side: str, finding: Finding) -> bool:
    if finding.kind in _SPREAD:
        return side in sides_of(finding.side)
    lobes = not place.lobe or not finding.lobe or place.lobe == finding.lobe
    return REGION_OF.get(finding.kind) == LUNG and finding.side[:1] == side and lobes
