"""The findings that a report lists as data beside what one of its sections states: which statement speaks of which finding.

A listed finding lies in a lung (结节, 实变), among the lymph nodes (淋巴结) or in the liver (肝囊肿, 肝血管瘤, 肝低密度灶). What spreads over
a side and has no region of its own (胸腔积液, 肺气肿, 纤维化) is compared by `spread`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pipeline.model import Finding
from pipeline.rules.analysis import Analysis
from pipeline.rules.lexicon import Lexicon
from pipeline.rules.said import NODULE, OPACITY, Stated, said

LUNG, NODES, LIVER = "肺", "淋巴结", "肝"
KINDS: Mapping[str, str] = MappingProxyType({"结节": NODULE, "实变": OPACITY})
REGION_OF: Mapping[str, str] = MappingProxyType(
    {"结节": LUNG, "实变": LUNG, "淋巴结": NODES, "肝囊肿": LIVER, "肝血管瘤": LIVER, "肝低密度灶": LIVER}
)
LIVER_WORDS: Mapping[str, str] = MappingProxyType({"囊肿": "肝囊肿", "血管瘤": "肝血管瘤"})  # a word of the text that says which of the list it is
LIVER_LESIONS = frozenset({*LIVER_WORDS, "低密度影", "肿块", "结节", "病灶", "异常密度影"})  # as the text may call one
DENSITIES: Mapping[str, str] = MappingProxyType({"部分实性结节": "部分实性", "磨玻璃结节": "磨玻璃", "磨玻璃影": "磨玻璃", "实性结节": "实性"})
SHARED = "described"
ROUNDING_MM = 0.5
SEVERAL = 99
WRONG, UNSAID, RIGHT = 0, 1, 2  # what a statement says of one trait of a finding


@dataclass(frozen=True, slots=True)
class Pair:
    """One listed finding and the statement that speaks of it."""

    finding: Finding
    stated: Stated


@dataclass(frozen=True, slots=True)
class Paired:
    """All pairs, and what is left on either side."""

    pairs: tuple[Pair, ...]
    unsaid: tuple[Finding, ...]
    unlisted: tuple[Stated, ...]


def has_list(analysis: Analysis) -> bool:
    """True where the report came with its findings as data, and the text can be read."""
    return bool(analysis.lexicon.terms) and (analysis.context.structured or bool(analysis.report.findings))


def described(analysis: Analysis) -> Paired:
    """The list beside 描述; worked out once for all rules of one run."""
    known = analysis.shared.get(SHARED)
    if not isinstance(known, Paired):
        known = analysis.shared[SHARED] = paired(analysis, said(analysis).findings)
    return known


def paired(analysis: Analysis, stated: Sequence[Stated]) -> Paired:
    """Those that fit best first. A statement speaks of as many findings as it says; one of several (多发) of as many as are left."""
    lexicon = analysis.lexicon
    listed = [finding for finding in analysis.report.findings if finding.kind in REGION_OF]
    told = _told(stated, lexicon)
    possible = ((row, at) for row, finding in enumerate(listed) for at, one in enumerate(told) if _may_be(finding, one, lexicon))
    ranked = sorted((-_fit(listed[row], told[at], lexicon), repr(listed[row]), told[at].mention.start, row, at) for row, at in possible)
    room = {at: _room(one) for at, one in enumerate(told)}
    taken: dict[int, int] = {}
    for _, _, _, row, at in ranked:
        if row not in taken and room[at]:
            taken[row] = at
            room[at] -= 1
    pairs = tuple(Pair(listed[row], told[at]) for row, at in taken.items())
    unsaid = tuple(finding for row, finding in enumerate(listed) if row not in taken)
    return Paired(pairs, unsaid, tuple(one for at, one in enumerate(told) if at not in taken.values()))


def region(one: Stated, lexicon: Lexicon) -> str:
    """Where the list would hold what is stated; empty for what it does not hold."""
    if one.region == LUNG:
        return LUNG if NODULE in one.groups or OPACITY in one.groups else ""
    if one.region == LIVER:
        return LIVER if any(above in LIVER_LESIONS for term in one.terms for above in lexicon.lines.get(term, ())) else ""
    return NODES if one.region == NODES and any(lexicon.is_a(term, "淋巴结肿大") for term in one.terms) else ""


def name(finding: Finding) -> str:
    """As a message names it."""
    size = f"（{finding.size_mm} mm）" if finding.size_mm is not None else ""
    where = "" if REGION_OF.get(finding.kind) == LIVER else finding.side
    return f"{where}{finding.lobe or ''}{finding.kind}{size}"


def lobes(one: Stated, finding: Finding) -> frozenset[str]:
    """The lobes that are named on the finding's side."""
    return frozenset(place.lobe for place in one.locations if place.lobe and place.side in ("", "双", finding.side[:1]))


def size_fits(finding: Finding, one: Stated) -> bool:
    """False where the statement gives other sizes."""
    if finding.size_mm is None or not one.sizes:
        return True
    return any(size.low - ROUNDING_MM <= finding.size_mm <= size.high + ROUNDING_MM for size in one.sizes)


def density(one: Stated, lexicon: Lexicon) -> str:
    """As the head word of the statement says it; empty where it does not."""
    for above in lexicon.lines.get(one.mention.term, ()):
        if above in DENSITIES:
            return DENSITIES[above]
    return next((detail.term for detail in one.mention.details if detail.term in DENSITIES.values() and not detail.negated), "")


def liver_kind(one: Stated, lexicon: Lexicon) -> str:
    """Which of the list's liver lesions the statement says that it is; empty where it only describes."""
    lines = (above for term in one.terms for above in lexicon.lines.get(term, ()))
    return next((LIVER_WORDS[above] for above in lines if above in LIVER_WORDS), "")


def _told(stated: Sequence[Stated], lexicon: Lexicon) -> list[Stated]:
    """Statements that the list may hold. 稍低密度影，考虑血管瘤: what one of the liver is taken for in its sentence belongs to it."""
    told: list[Stated] = []
    for one in stated:
        where = "" if one.again else region(one, lexicon)
        head = told[-1] if told else None
        if head is not None and where == LIVER == head.region and head.mention.sentence == one.mention.sentence and not one.sizes:
            told[-1] = head._replace(terms=head.terms + one.terms)
        elif where:
            told.append(one)
    return told


def _may_be(finding: Finding, one: Stated, lexicon: Lexicon) -> bool:
    where = REGION_OF[finding.kind]
    return where == region(one, lexicon) and (where != LUNG or KINDS[finding.kind] in one.groups)


def _room(one: Stated) -> int:
    """How many findings one statement may speak of."""
    if one.number == 0 or one.sides == {"左", "右"}:
        return SEVERAL
    return max(one.number or 1, len(one.locations), 1)


def _fit(finding: Finding, one: Stated, lexicon: Lexicon) -> int:
    """How much of a finding a statement says: side before lobe before size before look; what it leaves open counts less than what it has right."""
    score = 0
    for trait in _traits(finding, one, lexicon):
        score = score * 3 + trait
    return score


def _traits(finding: Finding, one: Stated, lexicon: Lexicon) -> Iterator[int]:
    in_lung = REGION_OF[finding.kind] == LUNG
    yield _judged(finding.side[:1] in one.sides, bool(one.sides) and in_lung)
    named = lobes(one, finding)
    yield _judged(finding.lobe in named, bool(named) and in_lung)
    yield _judged(size_fits(finding, one), bool(one.sizes) and finding.size_mm is not None)
    look, listed = (density(one, lexicon), finding.density) if in_lung else (liver_kind(one, lexicon), finding.kind)
    yield _judged(look == listed, bool(look) and listed is not None)


def _judged(right: bool, spoken: bool) -> int:
    return (RIGHT if right else WRONG) if spoken else UNSAID
