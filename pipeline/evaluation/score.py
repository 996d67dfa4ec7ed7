"""One report against one truth: lesions matched by coordinates through the candidate that each finding names."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from math import dist
from typing import Any

from pipeline.model import Candidate, Side
from pipeline.training.phantom import Lesion, Truth

MATCH_MM = 15.0
EFFUSION_NAMES = {
    frozenset[Side](): "无",
    frozenset({Side.LEFT}): "左侧",
    frozenset({Side.RIGHT}): "右侧",
    frozenset({Side.LEFT, Side.RIGHT}): "双侧",
}
ELEMENTS = ("侧别", "肺叶", "密度", "大小mm")


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of one report; figures are ratios of their sums over many."""

    valid: int = 0
    found: int = 0  # findings that are a true lesion
    invented: int = 0  # findings that are none
    missed: int = 0
    side_wrong: int = 0  # among the found
    size_error_mm: float = 0.0  # summed over the found
    terms_right: int = 0
    terms_said: int = 0
    terms_true: int = 0
    complete: int = 0  # findings with 部位, 大小, 形态 in a report that gives 建议
    effusion_right: int = 0


@dataclass(frozen=True, slots=True)
class Match:
    """One finding of the report and the true lesion that it is."""

    finding: dict[str, Any]
    lesion: Lesion


def score(text: str, candidates: Sequence[Candidate], truth: Truth) -> Score:
    """Score one JSON text. A text that is no complete report finds nothing and misses everything."""
    report = parse_report(text)
    if report is None:
        return Score(missed=len(truth.lesions), terms_true=sum(_true_terms(truth).values()))
    findings, matches = report["检查所见"]["病灶"], match(report, candidates, truth)
    said, true = _said_terms(report), _true_terms(truth)
    return Score(
        valid=1,
        found=len(matches),
        invented=len(findings) - len(matches),
        missed=len(truth.lesions) - len(matches),
        side_wrong=sum(m.finding["侧别"] != f"{m.lesion.side}肺" for m in matches),
        size_error_mm=sum(abs(m.finding["大小mm"] - m.lesion.size_mm) for m in matches),
        terms_right=sum((said & true).values()),
        terms_said=sum(said.values()),
        terms_true=sum(true.values()),
        complete=sum(all(f.get(key) for key in ELEMENTS) for f in findings) if report["建议"] else 0,
        effusion_right=int(report["检查所见"]["胸腔积液"] == EFFUSION_NAMES[truth.effusion]),
    )


def parse_report(text: str) -> dict[str, Any] | None:
    """The report, or None where the text is not JSON with the three sections."""
    try:
        report = json.loads(text)
        complete = isinstance(report["检查所见"]["病灶"], list) and {"诊断意见", "建议"} <= report.keys()
    except (ValueError, KeyError, TypeError):
        return None
    return report if complete else None


def match(report: dict[str, Any], candidates: Sequence[Candidate], truth: Truth) -> list[Match]:
    """Nearest pairs first, each finding and each lesion once, at most 15 mm or the lesion's size apart."""
    centers = {candidate.index: candidate.center_mm for candidate in candidates}
    findings = report["检查所见"]["病灶"]
    pairs = sorted(
        (dist(centers[finding["候选"]], lesion.center_mm), f, number)
        for f, finding in enumerate(findings)
        if finding["候选"] in centers
        for number, lesion in enumerate(truth.lesions)
        if dist(centers[finding["候选"]], lesion.center_mm) <= max(MATCH_MM, lesion.size_mm)
    )
    taken: dict[int, int] = {}
    for _, f, number in pairs:
        if f not in taken and number not in taken.values():
            taken[f] = number
    return [Match(findings[f], truth.lesions[number]) for f, number in taken.items()]


def _said_terms(report: dict[str, Any]) -> Counter[str]:
    seen = report["检查所见"]
    terms = Counter(str(finding[key]) for finding in seen["病灶"] for key in ("类型", "侧别", "肺叶", "密度"))
    return terms + _effusion_terms(seen["胸腔积液"])


def _true_terms(truth: Truth) -> Counter[str]:
    terms = Counter(term for lesion in truth.lesions for term in (lesion.kind, f"{lesion.side}肺", lesion.lobe, lesion.density))
    return terms + _effusion_terms(EFFUSION_NAMES[truth.effusion])


def _effusion_terms(name: str) -> Counter[str]:
    return Counter() if name == "无" else Counter({f"{name}胸腔积液": 1})
