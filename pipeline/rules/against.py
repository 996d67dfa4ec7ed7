"""A text against the frozen findings that it was written from: what it says and they do not say. What it leaves out is not looked at here."""

from __future__ import annotations

from dataclasses import replace

from pipeline.checking import CheckContext, Hit, RuleSet
from pipeline.model import Report
from pipeline.rules import concluded, look, prose, spread
from pipeline.rules.analysis import analysed

LISTED = (prose.agree, look.agree, *(one.agree for one in spread.SPREADS), concluded.agree, concluded.advised)


def differences(report: Report, ruleset: RuleSet, context: CheckContext) -> tuple[Hit, ...]:
    """Hits whose span says otherwise than the report's own list: another side, lobe, size, density, kind, margin, or a lesion that is not listed.
    Candidates and images say nothing here: the list stands for them."""
    unseen = replace(context, candidates=(), effusion=None, emphysema=None, fibrosis=None, structured=True)
    analysis = analysed(report, ruleset, unseen)
    return tuple(hit for compare in LISTED for hit in compare(analysis) if hit.end > 0)
