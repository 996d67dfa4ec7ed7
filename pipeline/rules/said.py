"""What findings and impression state, made ready for comparing: read once per report and shared by the rules that compare."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pipeline.entry import Kind
from pipeline.rules.analysis import Analysis
from pipeline.rules.lexicon import Lexicon
from pipeline.rules.measures import Measure
from pipeline.rules.mentions import Location, Mention, Section
from pipeline.rules.spans import Span

# Findings under one of these words may be the same thing under another of the same group: a 肿块 of one section is the 结节 of the other.
NODULE, OPACITY, EFFUSION, SCAR, CALCIUM = "nodule", "opacity", "effusion", "scar", "calcium"
GROUPS: Mapping[str, frozenset[str]] = {
    "结节": frozenset({NODULE}),
    "肿块": frozenset({NODULE}),
    "磨玻璃结节": frozenset({NODULE, OPACITY}),
    "部分实性结节": frozenset({NODULE, OPACITY}),
    "磨玻璃影": frozenset({NODULE, OPACITY}),
    "钙化结节": frozenset({NODULE, CALCIUM}),
    "实变": frozenset({OPACITY}),
    "斑片影": frozenset({OPACITY}),
    "渗出": frozenset({OPACITY}),
    "浸润影": frozenset({OPACITY}),
    "胸腔积液": frozenset({EFFUSION}),
    "条索影": frozenset({SCAR}),
    "纤维灶": frozenset({SCAR}),
    "钙化灶": frozenset({CALCIUM}),
}
SHARED = "said"
NO_GROUPS: frozenset[str] = frozenset()
# organs that reports name for one another
REGIONS = {"支气管": "肺", "胸膜": "胸膜腔", "骨骼": "骨", "肋骨": "骨", "脊柱": "骨", "胸骨": "骨", "锁骨": "骨", "肩胛骨": "骨", "胆管": "胆"}
REGIONS |= {"颅骨": "骨", "胸廓": "骨", "骨盆": "骨"}
REGIONS |= {"胆囊": "胆", "主动脉": "血管", "大血管": "血管", "心脏": "心", "冠状动脉": "心", "心包": "心包", "胸腺": "纵隔", "腋窝": "淋巴结"}
# every alternative begins with a character of its own: the matcher then skips all others in C
_NORMAL = re.compile(
    r"未见|未发现|未及|无(?!法)|正常|对称|通畅|居中|尚可|如常|良好|清(?<![不欠]清)晰|均(?<![不欠]均)匀|光(?<![不欠]光)[滑整]"
    r"|规(?<![不欠]规)则|完(?<![不欠]完)整|锐利"
)
_PAST = re.compile(r"术后|病史|史(?=[，,。；;]|$)|既往|治疗后|化疗后|放疗后")
_AGAIN = re.compile(r"(?:该|此|上述|以上|前述|其余?|其中|较大|最大|较小|余)(?:者|一?枚|个|处)?(?:为|见)?\Z")  # the same finding once more
_LOOK_BACK = 6


class Stated(NamedTuple):
    """One finding that a section states as there, with everything that its sentence says of it. `again`: it only goes on about an earlier one."""

    mention: Mention
    terms: tuple[str, ...]
    groups: frozenset[str]
    region: str
    locations: tuple[Location, ...]
    sizes: tuple[Measure, ...]
    number: int | None  # 0 for several
    certain: bool
    again: bool

    @property
    def sides(self) -> frozenset[str]:
        """左 and 右 as far as they are named."""
        return sides_of(self.locations)

    @property
    def inferred(self) -> bool:
        """A disease, or a finding in doubt: what it is called need not stand in the findings."""
        return not self.certain or self.mention.kind is Kind.DISEASE

    @property
    def free(self) -> bool:
        """True for a word that may sum up other findings of its region: 食管占位 of a thickened wall. Lungs and pleura have their groups."""
        return self.inferred or not self.groups or self.region not in ("", "肺", "胸膜腔")

    @property
    def place(self) -> Location | None:
        """Its first place."""
        return self.locations[0] if self.locations else None


@dataclass(frozen=True, slots=True, eq=False)
class Said:
    """Both sections. `described` and `concluded` are the places where findings and impression find something."""

    findings: tuple[Stated, ...]
    impression: tuple[Stated, ...]
    described: tuple[Location, ...]
    concluded: tuple[Location, ...]


def said(analysis: Analysis) -> Said:
    """Worked out once for all rules of one run."""
    known = analysis.shared.get(SHARED)
    if not isinstance(known, Said):
        known = analysis.shared[SHARED] = _said(analysis)
    return known


def _said(analysis: Analysis) -> Said:
    lexicon = analysis.lexicon
    findings, impression = tuple(_stated(analysis.findings, lexicon)), tuple(_stated(analysis.impression, lexicon))
    return Said(findings, impression, tuple(_places(analysis.findings, findings)), tuple(_places(analysis.impression, impression)))


def region_of(organ: str) -> str:
    """Organs that one report may name for the other share a region."""
    return REGIONS.get(organ, organ)


def sides_of(locations: Sequence[Location]) -> frozenset[str]:
    """左 and 右 as far as the places name them; 双 is both."""
    return frozenset(side for place in locations for side in ("左右" if place.side == "双" else place.side))


def groups_of(term: str, lexicon: Lexicon) -> frozenset[str]:
    """The groups of a term, or of the nearest one above it."""
    for above in lexicon.lines.get(term, (term,)):
        if above in GROUPS:
            return GROUPS[above]
    return NO_GROUPS


def same_thing(one: Stated, other: Stated, lexicon: Lexicon) -> bool:
    """True when both may name one finding, wherever it is."""
    if one.region and other.region and one.region != other.region:
        return False
    if not one.groups.isdisjoint(other.groups):
        return True
    lines = lexicon.lines
    return any(a in lines.get(b, (b,)) or b in lines.get(a, (a,)) for a in one.terms for b in other.terms)


def explains(conclusion: Stated, finding: Stated, lexicon: Lexicon) -> bool:
    """True when the impression's word may be what the finding is taken for."""
    near = not conclusion.region or conclusion.region == finding.region
    return same_thing(conclusion, finding, lexicon) or (near and conclusion.free)


def overlap(one: Stated, other: Stated) -> bool:
    """True when both may be at one place."""
    if not one.locations or not other.locations:
        return True
    return any(same_place(a, b) for a in one.locations for b in other.locations)


def same_place(a: Location, b: Location) -> bool:
    """What one of them leaves open fits; organs of one region are one."""
    sides = not a.side or not b.side or a.side == b.side or "双" in (a.side, b.side)
    lobes = not a.lobe or not b.lobe or a.lobe == b.lobe
    segments = not a.segment or not b.segment or a.segment == b.segment
    organs = not a.organ or not b.organ or a.organ == b.organ or region_of(a.organ) == region_of(b.organ)
    return sides and lobes and segments and organs


def normal(section: Section, clause: Span) -> bool:
    """True for a clause that says that nothing is there."""
    return _NORMAL.search(section.text, clause.start, clause.end) is not None


def past(section: Section, clause: Span) -> bool:
    """True for a clause about an operation, a treatment or a history."""
    return _PAST.search(section.text, clause.start, clause.end) is not None


def clause_at(section: Section, start: int) -> Span:
    """The clause that holds a character."""
    index = bisect_right(section.clauses, start, key=lambda clause: clause.start) - 1
    return section.clauses[max(index, 0)]


def _stated(section: Section, lexicon: Lexicon) -> Iterator[Stated]:
    """Findings that are there now; one that its sentence only goes on about is told once."""
    head: Stated | None = None
    for mention in section.mentions:
        if not mention.observed or mention.negated or mention.historical:
            continue
        one = _one(mention, section, lexicon)
        if head is not None and _continues(head, one):
            head = _joined(head, one)
            continue
        if head is not None:
            yield head
        head = one
    if head is not None:
        yield head


def _one(mention: Mention, section: Section, lexicon: Lexicon) -> Stated:
    region = region_of(mention.organ)
    again = _AGAIN.search(section.text, max(mention.clause.start, mention.start - _LOOK_BACK), mention.start) is not None
    groups = groups_of(mention.term, lexicon)
    number, sizes = (mention.count, mention.sizes) if mention.measures else (None, ())
    return Stated(mention, (mention.term,), groups, region, mention.locations, sizes, number, not mention.uncertain, again)


def _continues(head: Stated, one: Stated) -> bool:
    """磨玻璃影内见实性成分 behind 部分实性结节: same sentence, no new place, same group."""
    if head.mention.sentence != one.mention.sentence or not head.groups & one.groups or not one.locations:
        return False
    return head.locations[:1] == one.locations[:1]


def _joined(head: Stated, one: Stated) -> Stated:
    number = head.number if head.number is not None else one.number
    certain = head.certain or one.certain
    return head._replace(terms=head.terms + one.terms, sizes=head.sizes + one.sizes, number=number, certain=certain)


def _places(section: Section, stated: Sequence[Stated]) -> Iterator[Location]:
    """Places of what is stated, and those of every clause that does not say that nothing is there."""
    for one in stated:
        yield from one.locations
    clause, skip = None, False
    for place in section.locations:
        if clause is None or not clause.start <= place.start < clause.end:
            clause = clause_at(section, place.start)
            skip = normal(section, clause)
        if not skip:
            yield place
