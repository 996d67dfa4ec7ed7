"""The list of lesions (病灶) and the prose (描述) of 检查所见 say the same: side, lobe, size, density, and how many."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pipeline.checking import Hit
from pipeline.model import Finding, Severity
from pipeline.rules.analysis import FINDINGS, Analysis
from pipeline.rules.lexicon import Lexicon
from pipeline.rules.said import NODULE, OPACITY, Stated, said

ID, VERSION = "structure.prose", 1
KINDS: Mapping[str, str] = MappingProxyType({"结节": NODULE, "实变": OPACITY})
DENSITIES: Mapping[str, str] = MappingProxyType({"部分实性结节": "部分实性", "磨玻璃结节": "磨玻璃", "磨玻璃影": "磨玻璃", "实性结节": "实性"})
ROUNDING_MM = 0.5


@dataclass(frozen=True, slots=True)
class Pair:
    """One listed lesion and the statement that speaks of it."""

    finding: Finding
    stated: Stated


def agree(analysis: Analysis) -> tuple[Hit, ...]:
    """Another side blocks; any other difference is flagged. Without a list nothing is compared; the order of the list changes nothing."""
    listed = [finding for finding in analysis.report.findings if finding.kind in KINDS]
    if not analysis.lexicon.terms or not (analysis.context.structured or analysis.report.findings):
        return ()
    told = [one for one in said(analysis).findings if one.region == "肺" and _kind(one) and not one.again]
    pairs, unsaid, unlisted = _paired(listed, told, analysis.lexicon)
    hits = [hit for pair in pairs for hit in _differences(pair, analysis.lexicon)]
    hits += [_hit(Severity.FLAG, None, f"病灶列表中的{_name(finding)}在描述中没有对应的文字，请核对") for finding in unsaid]
    hits += [_hit(Severity.FLAG, one, f"描述中的「{_text(analysis, one)}」不在病灶列表中，请核对") for one in unlisted if one.certain]
    return tuple(sorted(hits, key=lambda hit: (hit.start, hit.message)))


def _paired(listed: Sequence[Finding], told: Sequence[Stated], lexicon: Lexicon) -> tuple[list[Pair], list[Finding], list[Stated]]:
    """Those that fit best first. A statement speaks of as many lesions as it says; one of several (多发) of as many as are left."""
    possible = ((row, at) for row, finding in enumerate(listed) for at, one in enumerate(told) if KINDS[finding.kind] in one.groups)
    ranked = sorted((-_fit(listed[row], told[at], lexicon), repr(listed[row]), told[at].mention.start, row, at) for row, at in possible)
    room = {at: _room(one) for at, one in enumerate(told)}
    taken: dict[int, int] = {}
    for _, _, _, row, at in ranked:
        if row not in taken and room[at]:
            taken[row] = at
            room[at] -= 1
    pairs = [Pair(listed[row], told[at]) for row, at in taken.items()]
    unsaid = [finding for row, finding in enumerate(listed) if row not in taken]
    return pairs, unsaid, [one for at, one in enumerate(told) if at not in taken.values()]


def _room(one: Stated) -> int:
    """How many lesions one statement may speak of."""
    if one.number == 0 or one.sides == {"左", "右"}:
        return 99
    return max(one.number or 1, len(one.locations), 1)


def _kind(one: Stated) -> str:
    """The list's word for what is stated; empty for what the list does not hold."""
    if NODULE in one.groups:
        return "结节"
    return "实变" if OPACITY in one.groups else ""


def _fit(finding: Finding, one: Stated, lexicon: Lexicon) -> int:
    """How much of a lesion a statement says: side before lobe before size before density."""
    sides = not one.sides or finding.side[:1] in one.sides
    lobes = _lobes(one, finding)
    return 8 * sides + 4 * (not lobes or finding.lobe in lobes) + 2 * _size_fits(finding, one) + (_density(one, lexicon) in ("", finding.density))


def _lobes(one: Stated, finding: Finding) -> frozenset[str]:
    """The lobes that are named on the lesion's side."""
    return frozenset(place.lobe for place in one.locations if place.lobe and place.side in ("", "双", finding.side[:1]))


def _size_fits(finding: Finding, one: Stated) -> bool:
    if finding.size_mm is None or not one.sizes:
        return True
    return any(size.low - ROUNDING_MM <= finding.size_mm <= size.high + ROUNDING_MM for size in one.sizes)


def _density(one: Stated, lexicon: Lexicon) -> str:
    """As the head word of the statement says it; empty where it does not."""
    for above in lexicon.lines.get(one.mention.term, ()):
        if above in DENSITIES:
            return DENSITIES[above]
    return next((detail.term for detail in one.mention.details if detail.term in DENSITIES.values() and not detail.negated), "")


def _differences(pair: Pair, lexicon: Lexicon) -> Iterator[Hit]:
    finding, one = pair.finding, pair.stated
    if one.sides and finding.side[:1] not in one.sides:
        yield _hit(Severity.BLOCK, one, f"病灶列表写{_name(finding)}，描述写在{'、'.join(sorted(one.sides))}侧，请核对侧别")
        return
    lobes = _lobes(one, finding)
    if lobes and finding.lobe and finding.lobe not in lobes:
        yield _hit(Severity.FLAG, one, f"病灶列表写{_name(finding)}，描述写在{'、'.join(sorted(lobes))}，请核对肺叶")
    if not _size_fits(finding, one):
        sizes = "、".join(f"{size.largest_mm:g} mm" for size in one.sizes)
        yield _hit(Severity.FLAG, one, f"病灶列表写{_name(finding)}，描述写 {sizes}，请核对大小")
    density = _density(one, lexicon)
    if finding.kind == "结节" and finding.density and density and density != finding.density:
        yield _hit(Severity.FLAG, one, f"病灶列表写{_name(finding)}（{finding.density}），描述写{density}，请核对密度")


def _name(finding: Finding) -> str:
    size = f"（{finding.size_mm} mm）" if finding.size_mm is not None else ""
    return f"{finding.side}{finding.lobe or ''}{finding.kind}{size}"


def _text(analysis: Analysis, one: Stated) -> str:
    return analysis.findings.text[one.mention.start : one.mention.end]


def _hit(severity: Severity, one: Stated | None, message: str) -> Hit:
    start, end = (one.mention.start, one.mention.end) if one is not None else (0, 0)
    if one is not None and one.place is not None and 0 <= one.mention.start - one.place.end <= 2:
        start = one.place.start
    return Hit(ID, VERSION, severity, FINDINGS, start, end, message)
