"""One report against one truth, as counts that add up over many. What each figure is made of stands in `figures.FIGURES`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pipeline.evaluation.agreement import agree, paired
from pipeline.evaluation.flagged import side_flagged
from pipeline.evaluation.matching import matched
from pipeline.evaluation.told import LIVER_KINDS, LUNG_KINDS, NODE, SPREAD, SPREAD_SIDES, Told, lesion_finding, true_findings
from pipeline.model import Candidate, Finding, Side
from pipeline.training.phantom import Lesion, Truth

SMALL_MM = 12.0
SIDE_NAMES = {name: sides for sides, name in SPREAD_SIDES.items()}
SPREAD_COUNTS = dict(zip(SPREAD, ("effusion", "emphysema", "fibrosis"), strict=True))  # how the counts of each are named
Tally = dict[str, float]


def score(told: Told, candidates: Sequence[Candidate], truth: Truth) -> Tally:
    """Counts of one report. One that is not valid finds nothing, misses everything and agrees with nothing."""
    chest = chest_matches(told, candidates, truth)
    tally = {"reports": 1.0, "valid": float(told.valid)}
    tally |= _lesions(told, chest, truth) | _sides(told, chest, candidates, truth)
    tally |= _nodes(told, candidates, truth) | _liver(told, candidates, truth) | _spreads(told, truth)
    invented = (
        tally["invented"] + tally["node_invented"] + tally["liver_invented"] + sum(tally[f"{name}_invented"] for name in SPREAD_COUNTS.values())
    )
    return tally | _texts(told, truth) | {"inventing": float(tally["invented"] > 0), "inventing_any": float(invented > 0)}


def chest_matches(told: Told, candidates: Sequence[Candidate], truth: Truth) -> dict[int, int]:
    """Number of a finding in the report's list → number of the true lung lesion that it is."""
    return _of_kind(told, LUNG_KINDS, candidates, [(one.center_mm, one.size_mm) for one in truth.lesions])


def _of_kind(
    told: Told, kinds: Sequence[str], candidates: Sequence[Candidate], places: Sequence[tuple[tuple[float, float, float], float]]
) -> dict[int, int]:
    rows = [row for row, one in enumerate(told.findings) if one.kind in kinds]
    return {rows[row]: number for row, number in matched([told.findings[row] for row in rows], candidates, places).items()}


def _lesions(told: Told, found: dict[int, int], truth: Truth) -> Tally:
    """Lung lesions. Density and margin are counted on true nodules: a consolidation has but one of each."""
    pairs = [(told.findings[row], truth.lesions[number]) for row, number in found.items()]
    nodules = [(lesion_finding(lesion), said) for said, lesion in pairs if lesion.kind == "结节"]
    small = [number for number, lesion in enumerate(truth.lesions) if lesion.size_mm <= SMALL_MM]
    return {
        "found": len(pairs),
        "invented": sum(one.kind in LUNG_KINDS for one in told.findings) - len(pairs) + _only_in_prose(told),
        "missed": len(truth.lesions) - len(pairs),
        "small": len(small),
        "small_found": len({*small} & {*found.values()}),
        "kind_right": sum(said.kind == lesion.kind for said, lesion in pairs),
        "lobe_right": sum(said.lobe == lesion.lobe for said, lesion in pairs),
        "size_error_mm": sum(abs((said.size_mm or 0) - lesion.size_mm) for said, lesion in pairs),
        "nodules": len(nodules),
        "density_right": sum(said.density == true.density for true, said in nodules),
        "margin_right": sum(said.margin == true.margin for true, said in nodules),
        **_yes_or_no("calcified", [(true.internal == "钙化", said.internal == "钙化") for true, said in nodules]),
        **_yes_or_no("retraction", [(true.surround == "胸膜牵拉", said.surround == "胸膜牵拉") for true, said in nodules]),
    }


def _only_in_prose(told: Told) -> int:
    """Lung lesions that 描述 or 诊断意见 speaks of and the list does not hold: the larger of both numbers."""
    listed = [one for one in told.findings if one.kind in LUNG_KINDS]
    texts = [[one for one in text if one.kind in LUNG_KINDS] for text in (told.described, told.concluded)]
    return max(len(text) - len(paired(listed, text)) for text in texts)


def _yes_or_no(name: str, pairs: Sequence[tuple[bool, bool]]) -> Tally:
    """Of a trait that most lesions do not have: how often it is right, and what an F1 needs."""
    return {
        f"{name}_right": sum(true == said for true, said in pairs),
        f"{name}_hit": sum(true and said for true, said in pairs),
        f"{name}_sum": sum(int(true) + int(said) for true, said in pairs),
    }


def _sides(told: Told, found: dict[int, int], candidates: Sequence[Candidate], truth: Truth) -> Tally:
    """Wrong in the list or in a text that speaks of the finding, among the matched; and those of them that no rule flags."""
    wrong = [(row, truth.lesions[number].side) for row, number in found.items() if _wrong_side(told, row, truth.lesions[number])]
    flags = [told.report is not None and side_flagged(told.report, row, side, candidates) for row, side in wrong]
    return {"side_wrong": len(wrong), "side_unflagged": len(flags) - sum(flags)}


def _wrong_side(told: Told, row: int, lesion: Lesion) -> bool:
    texts = (_statement(told.findings, row, text) for text in (told.described, told.concluded))
    said = [told.findings[row], *(one for one in texts if one is not None)]
    return any(one.side != f"{lesion.side}肺" for one in said)


def _statement(listed: Sequence[Finding], row: int, text: Sequence[Finding]) -> Finding | None:
    """What a text says of a listed finding."""
    at = paired(listed, text).get(row)
    return None if at is None else text[at]


def _nodes(told: Told, candidates: Sequence[Candidate], truth: Truth) -> Tally:
    found = _of_kind(told, (NODE,), candidates, [(one.center_mm, one.size_mm) for one in truth.nodes])
    return _counts("node", found, sum(one.kind == NODE for one in told.findings), len(truth.nodes))


def _liver(told: Told, candidates: Sequence[Candidate], truth: Truth) -> Tally:
    found = _of_kind(told, LIVER_KINDS, candidates, [(one.center_mm, one.size_mm) for one in truth.liver])
    right = sum(told.findings[row].kind == f"肝{truth.liver[number].kind}" for row, number in found.items())
    return _counts("liver", found, sum(one.kind in LIVER_KINDS for one in told.findings), len(truth.liver)) | {"liver_kind_right": right}


def _counts(name: str, found: dict[int, int], said: int, true: int) -> Tally:
    return {f"{name}_found": len(found), f"{name}_invented": said - len(found), f"{name}_missed": true - len(found)}


def _spreads(told: Told, truth: Truth) -> Tally:
    """Effusion, emphysema and fibrosis: the right sides and no other, and each side by itself."""
    tally: Tally = {}
    for (kind, name), true in zip(SPREAD_COUNTS.items(), (truth.effusion, truth.emphysema, truth.fibrosis), strict=True):
        said = _spread_sides(told.findings, kind)
        tally |= {
            f"{name}_right": float(told.valid and said == true),
            f"{name}_hit": len(said & true),
            f"{name}_sum": len(said) + len(true),
            f"{name}_invented": len(said - true),
        }
    return tally


def _spread_sides(findings: Iterable[Finding], kind: str) -> frozenset[Side]:
    return next((SIDE_NAMES[one.side] for one in findings if one.kind == kind), frozenset())


def _texts(told: Told, truth: Truth) -> Tally:
    """What is asked of the words: that they agree with the list, name every element and use the standard terms. Nothing is asked of heads alone."""
    said, true = _terms(told.described), _terms(true_findings(truth))
    asked = told.prose
    return {
        "texts": float(asked),
        "agreed": float(asked and told.valid and agree(told.findings, told.concluded, detailed=False)),
        "described": float(asked and told.valid and agree(told.findings, told.described, detailed=True)),
        "positive": asked * sum(one.kind in LUNG_KINDS for one in told.findings),
        "complete": asked * _complete(told),
        "terms_right": asked * sum((said & true).values()),
        "terms_said": asked * sum(said.values()),
        "terms_true": asked * sum(true.values()),
    }


def _complete(told: Told) -> int:
    """Listed lung lesions whose 描述 gives 部位 (side and lobe), 大小 and 形态 (density and margin), in a report that gives 建议."""
    if told.report is None or "建议" not in told.report.advice:
        return 0
    pairs = paired(told.findings, told.described)
    said = [told.described[at] for row, at in pairs.items() if told.findings[row].kind in LUNG_KINDS]
    return sum(all((one.side, one.lobe, one.size_mm, one.density, one.margin)) for one in said)


def _terms(findings: Iterable[Finding]) -> Counter[str]:
    """Standard terms: kind, side, lobe, density, margin and what is seen besides; places of nodes and liver lesions are their kinds'."""
    terms: Counter[str] = Counter()
    for one in findings:
        extra = [one.internal if one.internal == "钙化" else None, one.surround if one.surround == "胸膜牵拉" else None]
        said = (one.kind, one.side, one.lobe, one.density, one.margin, *extra) if one.kind in LUNG_KINDS else (f"{one.side}{one.kind}",)
        terms += Counter(term for term in said if term)
    return terms
