"""What one report tells, ready to be scored: its list, what its prose says, and the same for the encoder's heads and for the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pipeline.drafting.parse import parse
from pipeline.errors import BadDraft
from pipeline.evaluation.extract import extract
from pipeline.model import Candidate, Finding, Report, Side
from pipeline.training.phantom import Lesion, Truth

LUNG_KINDS = ("结节", "实变")
NODE = "淋巴结"
LIVER_KINDS = ("肝囊肿", "肝血管瘤", "肝低密度灶")
SPREAD = ("胸腔积液", "肺气肿", "纤维化")
SPREAD_SIDES = {
    frozenset[Side](): "无",
    frozenset({Side.LEFT}): "左侧",
    frozenset({Side.RIGHT}): "右侧",
    frozenset({Side.LEFT, Side.RIGHT}): "双侧",
}
MAX_WHOLE_MM = 140


@dataclass(frozen=True, slots=True)
class Told:
    """One answer. `report` is None where the answer is no report, `prose` is False where there is a list and no text (the heads alone)."""

    findings: tuple[Finding, ...] = ()
    report: Report | None = None
    described: tuple[Finding, ...] = ()  # by 描述
    concluded: tuple[Finding, ...] = ()  # by 诊断意见
    valid: bool = True
    prose: bool = True


NOTHING = Told(valid=False)


def told(text: str) -> Told:
    """What a drafter's JSON text tells. A text that does not fit the schema tells nothing and is not valid."""
    try:
        report = parse(text)
    except BadDraft:
        return NOTHING
    return Told(report.findings, report, extract(report.findings_text), extract(report.impression, "诊断意见"))


def heads(
    candidates: Iterable[Candidate], threshold: float, effusion: Sequence[Side] = (), emphysema: Sequence[Side] = (), fibrosis: Sequence[Side] = ()
) -> Told:
    """What the encoder says by itself: every candidate of at least the threshold's score, and its sides."""
    seen = (_candidate(one) for one in candidates if one.score >= threshold)
    return Told((*seen, *_spread((effusion, emphysema, fibrosis))), prose=False)


def true_findings(truth: Truth) -> tuple[Finding, ...]:
    """The truth as a list of findings without candidates."""
    return (
        *(lesion_finding(lesion) for lesion in truth.lesions),
        *(Finding(None, NODE, "纵隔", None, None, whole_mm(node.size_mm)) for node in truth.nodes),
        *(Finding(None, f"肝{one.kind}", "肝脏", None, None, whole_mm(one.size_mm)) for one in truth.liver),
        *_spread((truth.effusion, truth.emphysema, truth.fibrosis)),
    )


def lesion_finding(lesion: Lesion, candidate: int | None = None) -> Finding:
    """A true lung lesion in the schema's words."""
    return Finding(
        candidate,
        lesion.kind,
        f"{lesion.side}肺",
        lesion.lobe,
        lesion.density,
        whole_mm(lesion.size_mm),
        lesion.margin,
        "钙化" if lesion.calcified else "均匀",
        "胸膜牵拉" if lesion.retraction else "无",
    )


def whole_mm(size_mm: float) -> int:
    """As the schema allows sizes."""
    return min(MAX_WHOLE_MM, max(1, round(size_mm)))


def _candidate(one: Candidate) -> Finding:
    size = whole_mm(one.size_mm)
    if one.kind == NODE:
        return Finding(one.index, NODE, "纵隔", None, None, size)
    if one.kind not in LUNG_KINDS:
        return Finding(one.index, f"肝{one.kind}", "肝脏", None, None, size)
    internal = None if one.calcified is None else "钙化" if one.calcified else "均匀"
    surround = None if one.retraction is None else "胸膜牵拉" if one.retraction else "无"
    return Finding(one.index, one.kind, f"{one.side}肺", one.lobe, one.density, size, one.margin, internal, surround)


def _spread(sides: Sequence[Iterable[Side]]) -> tuple[Finding, ...]:
    named = (SPREAD_SIDES[frozenset(one)] for one in sides)
    return tuple(Finding(None, kind, side, None, None, None) for kind, side in zip(SPREAD, named, strict=True) if side != "无")
