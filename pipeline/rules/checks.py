"""The registry of rules: pure functions over a report, run in this order. Rules that edit come first, so that offsets stay true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pipeline.model import CheckContext, Checked, Hit, Report, RuleSet
from pipeline.rules import dose, grounding, sections, sides, terms
from pipeline.rules.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Check:
    """One rule: its id and version as they stand in every hit (dose hits carry those of their row), and what it does."""

    id: str
    version: int
    function: Callable[[Report, RuleSet, CheckContext], Outcome]


CHECKS = (
    Check(terms.ID, terms.VERSION, terms.standardise),
    Check(dose.ID, dose.VERSION, dose.warn),
    Check(sections.ID, sections.VERSION, sections.required),
    Check(grounding.ID, grounding.VERSION, grounding.grounded),
    Check(sides.ID, sides.VERSION, sides.agree),
)


def run(report: Report, ruleset: RuleSet, context: CheckContext) -> Checked:
    """The report after every rule, and all hits with offsets into the new text. The same input gives the same answer."""
    hits: list[Hit] = []
    for check in CHECKS:
        outcome = check.function(report, ruleset, context)
        if outcome.advice_shift:
            hits = [_moved(hit, outcome.advice_shift) for hit in hits]
        hits += outcome.hits
        report = outcome.report
    return Checked(report, tuple(hits), ruleset.version)


def _moved(hit: Hit, by: int) -> Hit:
    """The hit where its text stands now; only 建议 moves."""
    in_advice = hit.section == dose.ADVICE and hit.end > 0
    return replace(hit, start=hit.start + by, end=hit.end + by) if in_advice else hit
