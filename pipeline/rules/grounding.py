"""Each finding against the candidate region that it names: kind, side, lobe and size are what was measured. Flags only, no edits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from pipeline.checking import CheckContext, Hit, RuleSet
from pipeline.model import Candidate, Finding, Report, Severity, Side
from pipeline.rules.outcome import Outcome

ID, VERSION = "grounding.candidate", 2
SECTION = "检查所见"
TOLERANCE_MM, TOLERANCE_SHARE = 2.0, 0.2  # measured and stated size may differ by the larger of both
MEASURED: Mapping[str, str] = MappingProxyType(  # a finding's kind → what the encoder calls it; the others have no candidate region
    {"结节": "结节", "实变": "实变", "淋巴结": "淋巴结", "肝囊肿": "囊肿", "肝血管瘤": "血管瘤", "肝低密度灶": "低密度灶"}
)
PLACES: Mapping[str, str] = MappingProxyType({"淋巴结": "纵隔", "肝囊肿": "肝脏", "肝血管瘤": "肝脏", "肝低密度灶": "肝脏"})  # instead of a side
NO_SUCH_LOBE = (Side.LEFT, "中叶")


def grounded(report: Report, ruleset: RuleSet, context: CheckContext) -> Outcome:
    """A finding without its candidate, or that differs from it, is flagged."""
    known = {candidate.index: candidate for candidate in context.candidates}
    used: set[int] = set()
    hits: list[Hit] = []
    for number, finding in enumerate(report.findings, start=1):
        if finding.kind not in MEASURED:
            continue
        hits += [_hit(report, finding, f"第 {number} 个病灶{text}") for text in _faults(finding, known, used)]
        used |= {finding.candidate} if finding.candidate is not None else set()
    return Outcome(report, tuple(hits))


def _faults(finding: Finding, known: dict[int, Candidate], used: set[int]) -> Iterator[str]:
    if finding.side.startswith(NO_SUCH_LOBE[0]) and finding.lobe == NO_SUCH_LOBE[1]:
        yield "写作左肺中叶，左肺没有中叶"
    candidate = known.get(finding.candidate) if finding.candidate is not None else None
    if candidate is None:
        named = "没有指明候选区" if finding.candidate is None else f"指向的候选区 {finding.candidate} 不存在"
        yield f"{named}，请对照图像核实"
        return
    if candidate.index in used:
        yield f"与前一病灶指向同一候选区 {candidate.index}，请核实是否重复"
    yield from _differences(finding, candidate)


def _differences(finding: Finding, candidate: Candidate) -> Iterator[str]:
    told = {
        "kind": f"写作{finding.kind}，图像测得为{candidate.kind}",
        "side": f"写作{finding.side}，图像测得在{candidate.side}侧，请核对侧别",
        "lobe": f"写作{finding.lobe}，图像测得在{candidate.lobe}",
        "size": f"写作 {finding.size_mm} mm，图像测得 {candidate.size_mm:.1f} mm",
    }
    return (told[what] for what in differences(finding, candidate))


def differences(finding: Finding, candidate: Candidate) -> Iterator[str]:
    """In what a finding is not its region: kind, side, lobe, size."""
    if MEASURED.get(finding.kind) != candidate.kind:
        yield "kind"
    if not _lies(finding, candidate):
        yield "side"
    if finding.lobe is not None and candidate.lobe is not None and finding.lobe != candidate.lobe:
        yield "lobe"
    if finding.size_mm is not None and abs(finding.size_mm - candidate.size_mm) > max(TOLERANCE_MM, TOLERANCE_SHARE * candidate.size_mm):
        yield "size"


def _lies(finding: Finding, candidate: Candidate) -> bool:
    """On the measured side; what lies in the mediastinum or the liver names these instead."""
    return finding.side == PLACES[finding.kind] if finding.kind in PLACES else finding.side.startswith(candidate.side)


def _hit(report: Report, finding: Finding, message: str) -> Hit:
    """Points at the first place that names the finding's side and lobe, else at no span."""
    named = "肝" if finding.side == PLACES["肝囊肿"] else f"{finding.side}{finding.lobe or ''}"
    start = report.findings_text.find(named)
    end = start + len(named) if start >= 0 else 0
    return Hit(ID, VERSION, Severity.FLAG, SECTION, max(start, 0), end, message)
