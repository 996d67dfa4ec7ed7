"""Which drafts are sampled, and what is measured of each. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from hashlib import sha256

from pipeline.checking import RuleSet
from pipeline.model import Candidate, Finding, Report, Side
from pipeline.rules.terms import off_list
from pipeline.sampling import Drafted, Figures, Measured, Sampled, Stratum

WITH_SIZE = frozenset({"结节", "实变", "淋巴结", "肝囊肿", "肝血管瘤", "肝低密度灶"})
WITH_LOBE = frozenset({"结节", "实变"})
WITH_MARGIN = frozenset({"结节"})
SIDED = {"左": Side.LEFT, "右": Side.RIGHT}  # first character of a finding's side; 纵隔, 肝脏 and 双侧 have none
_END = re.compile(r"[。；;\n]+")
_NUMBERING = " \t（(0123456789）).、"


def picked(drafts: Iterable[Drafted], share: float, seed: int, night: date) -> tuple[tuple[Stratum, ...], tuple[Drafted, ...]]:
    """A share of each department's and scanner's drafts, at least one of each. Seed and night decide, not the order in which drafts are given."""
    strata: defaultdict[tuple[str, str], list[Drafted]] = defaultdict(list)
    for draft in drafts:
        strata[draft.department, draft.scanner].append(draft)
    told, chosen = [], []
    for (department, scanner), members in sorted(strata.items()):
        wanted = max(1, int(share * len(members) + 0.5))
        drawn = sorted(members, key=lambda one: sha256(f"{seed}/{night.isoformat()}/{one.id}".encode()).digest())[:wanted]
        told.append(Stratum(department, scanner, len(members), len(drawn)))
        chosen += drawn
    return tuple(told), tuple(chosen)


def measured(draft: Sampled, ruleset: RuleSet, night: date) -> Measured:
    """One draft's figures, see `sampling.FIGURES`."""
    texts = tuple(draft.report.sections().values())
    unlisted = sum(len(off_list(text, ruleset, draft.indication)) for text in texts)
    figures: Figures = {
        "fields": _share(_fields(draft.report)),
        "terms": float(draft.replaced + unlisted),
        "sides": _share(_sides(draft.report.findings, draft.candidates, draft.midline_mm)),
        "repetition": repetition(texts),
        "length": float(sum(map(len, texts))),
        "acceptance": draft.acceptance,
    }
    return Measured(draft.id, night, draft.department, draft.scanner, draft.model, draft.rules_version, figures)


def repetition(texts: Sequence[str]) -> float:
    """Share of sentences that stand in the same text already; numbering does not make a sentence another one."""
    sentences = [[one for part in _END.split(text) if (one := part.strip(_NUMBERING))] for text in texts]
    total = sum(map(len, sentences))
    return (total - sum(len(set(each)) for each in sentences)) / total if total else 0.0


def _fields(report: Report) -> Iterator[bool]:
    yield from (bool(text.strip()) for text in report.sections().values())
    for finding in report.findings:
        yield bool(finding.side)
        if finding.kind in WITH_LOBE:
            yield finding.lobe is not None
        if finding.kind in WITH_SIZE:
            yield finding.size_mm is not None
        if finding.kind in WITH_MARGIN:
            yield finding.margin is not None and finding.density is not None


def _sides(findings: Iterable[Finding], candidates: Iterable[Candidate], midline_mm: float | None) -> Iterator[bool]:
    """Of each finding that names a side and a region: whether that is the region's. Patient LPS: left lies beyond the midline."""
    regions = {candidate.index: candidate for candidate in candidates}
    for finding in findings:
        region = regions.get(finding.candidate or 0)
        stated = SIDED.get(finding.side[:1])
        if region is not None and stated is not None:
            yield stated is (region.side if midline_mm is None else Side.LEFT if region.center_mm[0] > midline_mm else Side.RIGHT)


def _share(answers: Iterable[bool]) -> float | None:
    told = list(answers)
    return sum(told) / len(told) if told else None
