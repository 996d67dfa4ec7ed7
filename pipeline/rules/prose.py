"""The list of findings and the prose (描述) of 检查所见 say the same: side, lobe, size, density, kind, and how many."""

from __future__ import annotations

from collections.abc import Iterator

from pipeline.checking import Hit
from pipeline.model import Finding, Severity
from pipeline.rules.analysis import FINDINGS, Analysis
from pipeline.rules.lexicon import Lexicon
from pipeline.rules.listed import LUNG, NODES, REGION_OF, Pair, density, described, has_list, liver_kind, lobes, name, region, size_fits
from pipeline.rules.said import Stated

ID, VERSION = "structure.prose", 2


def agree(analysis: Analysis) -> tuple[Hit, ...]:
    """Another side blocks; any other difference is flagged. Without a list nothing is compared; the order of the list changes nothing."""
    if not has_list(analysis):
        return ()
    known = described(analysis)
    hits = [hit for pair in known.pairs for hit in _differences(pair, analysis.lexicon)]
    hits += [hit for one in dict.fromkeys(pair.stated for pair in known.pairs) for hit in _sides(analysis, one, known.pairs)]
    hits += [_hit(Severity.FLAG, None, f"病灶列表中的{name(finding)}在描述中没有对应的文字，请核对") for finding in known.unsaid]
    hits += [_hit(Severity.FLAG, one, f"描述中的「{_text(analysis, one)}」不在病灶列表中，请核对") for one in known.unlisted if one.certain]
    return tuple(sorted(hits, key=lambda hit: (hit.start, hit.message)))


def _differences(pair: Pair, lexicon: Lexicon) -> Iterator[Hit]:
    finding, one = pair.finding, pair.stated
    if REGION_OF[finding.kind] == LUNG and one.sides and finding.side[:1] not in one.sides:
        yield _hit(Severity.BLOCK, one, f"病灶列表写{name(finding)}，描述写在{'、'.join(sorted(one.sides))}侧，请核对侧别")
        return
    named = lobes(one, finding)
    if named and finding.lobe and finding.lobe not in named:
        yield _hit(Severity.FLAG, one, f"病灶列表写{name(finding)}，描述写在{'、'.join(sorted(named))}，请核对肺叶")
    if not size_fits(finding, one):
        sizes = "、".join(f"{size.largest_mm:g} mm" for size in one.sizes)
        yield _hit(Severity.FLAG, one, f"病灶列表写{name(finding)}，描述写 {sizes}，请核对大小")
    yield from _kinds(pair, lexicon)


def _kinds(pair: Pair, lexicon: Lexicon) -> Iterator[Hit]:
    """Another density of a nodule, another kind of liver lesion."""
    finding, one = pair.finding, pair.stated
    told = density(one, lexicon) if finding.kind == "结节" else ""
    if finding.density and told and told != finding.density:
        yield _hit(Severity.FLAG, one, f"病灶列表写{name(finding)}（{finding.density}），描述写{told}，请核对密度")
    kind = liver_kind(one, lexicon)
    if finding.kind.startswith("肝") and kind and kind != finding.kind:
        yield _hit(Severity.FLAG, one, f"病灶列表写{name(finding)}，描述写{kind}，请核对")


def _sides(analysis: Analysis, one: Stated, pairs: tuple[Pair, ...]) -> Iterator[Hit]:
    """A side that a statement names, and none of its findings lies on: 双肺 of nodules that are all on the right, 右侧 of a node on the left."""
    mine = [pair.finding for pair in pairs if pair.stated is one]
    in_lung = region(one, analysis.lexicon) == LUNG
    lie = {finding.side[:1] for finding in mine} if in_lung else _measured(analysis, mine)
    told_already = in_lung and not one.sides & lie  # by `_differences`
    if lie and not one.sides <= lie and not told_already:
        source = "病灶列表" if in_lung else "图像测得"
        other, where = "、".join(sorted(one.sides - lie)), "、".join(sorted(lie))
        yield _hit(Severity.FLAG, one, f"描述写{other}侧，{source}只在{where}侧，请核对侧别")


def _measured(analysis: Analysis, findings: list[Finding]) -> set[str]:
    """Sides on which the encoder saw nodes; nothing of the liver, whose lobes are no sides of the patient."""
    seen = {one.index: one.side.value for one in analysis.context.candidates}
    return {seen[finding.candidate] for finding in findings if REGION_OF[finding.kind] == NODES and finding.candidate in seen}


def _text(analysis: Analysis, one: Stated) -> str:
    return analysis.findings.text[one.mention.start : one.mention.end]


def _hit(severity: Severity, one: Stated | None, message: str) -> Hit:
    start, end = (one.mention.start, one.mention.end) if one is not None else (0, 0)
    if one is not None and one.place is not None and 0 <= one.mention.start - one.place.end <= 2:
        start = one.place.start
    return Hit(ID, VERSION, severity, FINDINGS, start, end, message)
