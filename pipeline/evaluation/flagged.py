"""Would a reader be told? The real rules over a report with a wrong side, beside the same report with the right one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

from pipeline.checking import CheckContext
from pipeline.evaluation.extract import rules
from pipeline.model import Candidate, Report, Side
from pipeline.rules import concluded, grounding, prose, sides
from pipeline.rules.checks import run

DAY = date(2026, 1, 15)  # no rule about sides looks at the date
RULES = frozenset({grounding.ID, prose.ID, sides.ID, concluded.ID})
SIDE = "请核对侧别"  # ends each of their messages about a side, and no other


def side_flagged(report: Report, number: int, right: Side, candidates: Sequence[Candidate]) -> bool:
    """True when some rule says of finding `number` what it would not say, were the list's side `right`; where the list is right and a text is
    wrong, when any rule speaks of a side."""
    wrong = report.findings[number]
    corrected = replace(wrong, side=f"{right}肺")
    before = _messages(report, candidates)
    if corrected == wrong:
        return any(SIDE in message for message in before)
    findings = (*report.findings[:number], corrected, *report.findings[number + 1 :])
    after = _messages(replace(report, findings=findings), candidates)
    # a message that only names the lesion, about its size say, is the same before and after
    return not {one.replace(wrong.side, "") for one in before} <= {one.replace(corrected.side, "") for one in after}


def _messages(report: Report, candidates: Sequence[Candidate]) -> set[str]:
    context = CheckContext(DAY, candidates=tuple(candidates), structured=True)
    return {hit.message for hit in run(report, rules(), context).hits if hit.rule in RULES}
