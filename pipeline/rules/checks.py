"""The registry of rules. First those that edit the text, in this order; then the report is read once, and every other rule looks at what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pipeline.checking import CheckContext, Checked, Hit, RuleSet
from pipeline.model import Report
from pipeline.rules import (
    concluded,
    contrast,
    counts,
    critical,
    dose,
    generalities,
    grounding,
    growth,
    guidelines_check,
    length,
    look,
    margins,
    orphans,
    places,
    presence,
    priors,
    prose,
    regions,
    repetition,
    sections,
    sides,
    sizes,
    spread,
    terms,
    truncation,
)
from pipeline.rules.analysis import Analysis, analysed
from pipeline.rules.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Edit:
    """A rule that may change the text: its id and version as they stand in every hit (dose hits carry those of their row), and what it does."""

    id: str
    version: int
    function: Callable[[Report, RuleSet, CheckContext], Outcome]


@dataclass(frozen=True, slots=True)
class Check:
    """A rule that only looks: what it says of a report that has been read."""

    id: str
    version: int
    function: Callable[[Analysis], tuple[Hit, ...]]
    also: tuple[str, ...] = ()  # ids of hits that it makes besides


def _looking(function: Callable[[Report, RuleSet, CheckContext], Outcome]) -> Callable[[Analysis], tuple[Hit, ...]]:
    """A rule over the plain text as one over the analysis."""
    return lambda analysis: function(analysis.report, analysis.ruleset, analysis.context).hits


EDITS = (
    Edit(generalities.ID, generalities.VERSION, generalities.drop),
    Edit(terms.ID, terms.VERSION, terms.standardise),
    Edit(dose.ID, dose.VERSION, dose.warn),
)
CHECKS = (
    Check(sections.ID, sections.VERSION, _looking(sections.required)),
    Check(grounding.ID, grounding.VERSION, _looking(grounding.grounded)),
    Check(prose.ID, prose.VERSION, prose.agree),
    Check(look.ID, look.VERSION, look.agree),
    Check(spread.EFFUSION.id, spread.EFFUSION.version, spread.EFFUSION.agree),
    Check(spread.EMPHYSEMA.id, spread.EMPHYSEMA.version, spread.EMPHYSEMA.agree),
    Check(spread.FIBROSIS.id, spread.FIBROSIS.version, spread.FIBROSIS.agree),
    Check(concluded.ID, concluded.VERSION, concluded.agree),
    Check(concluded.ADVICE_ID, concluded.ADVICE_VERSION, concluded.advised),
    Check(sides.ID, sides.VERSION, sides.agree),
    Check(places.ID, places.VERSION, places.impossible),
    Check(presence.ID, presence.VERSION, presence.contradictions),
    Check(sizes.ID, sizes.VERSION, sizes.agree),
    Check(counts.ID, counts.VERSION, counts.mismatches),
    Check(orphans.ID, orphans.VERSION, orphans.unfounded),
    Check(orphans.MISSED_ID, orphans.MISSED_VERSION, orphans.unconcluded),
    Check(margins.ID, margins.VERSION, margins.blurred),
    Check(regions.ID, regions.VERSION, regions.unseen),
    Check(regions.SEX_ID, regions.SEX_VERSION, regions.other_sex),
    Check(contrast.ID, contrast.VERSION, contrast.missing),
    Check(priors.ID, priors.VERSION, priors.missing),
    Check(repetition.ID, repetition.VERSION, repetition.repeated),
    Check(truncation.ID, truncation.VERSION, truncation.truncated),
    Check(generalities.STATED_ID, generalities.STATED_VERSION, generalities.stated),
    Check(length.ID, length.VERSION, length.too_long),
    Check(terms.UNLISTED_ID, terms.UNLISTED_VERSION, terms.unlisted),
    Check(critical.ID, critical.VERSION, critical.critical),
    Check(growth.ID, growth.VERSION, growth.growth),
    Check(guidelines_check.ID, guidelines_check.VERSION, guidelines_check.asked, (guidelines_check.REFUSED_ID,)),
)


def run(report: Report, ruleset: RuleSet, context: CheckContext) -> Checked:
    """The report after every rule, and all hits with offsets into the new text. The same input gives the same answer."""
    report, hits = edited(report, ruleset, context)
    analysis = analysed(report, ruleset, context)
    for check in CHECKS:
        hits += check.function(analysis)
    alerts = critical.suspected(analysis) if any(hit.rule == critical.ID for hit in hits) else ()
    return Checked(report, tuple(hits), ruleset.version, alerts)


def edited(report: Report, ruleset: RuleSet, context: CheckContext) -> tuple[Report, list[Hit]]:
    """The report after the rules that edit, and their hits."""
    hits: list[Hit] = []
    for edit in EDITS:
        outcome = edit.function(report, ruleset, context)
        if outcome.advice_shift:
            hits = [_moved(hit, outcome.advice_shift) for hit in hits]
        hits += outcome.hits
        report = outcome.report
    return report, hits


def _moved(hit: Hit, by: int) -> Hit:
    """The hit where its text stands now; only 建议 moves."""
    in_advice = hit.section == dose.ADVICE and hit.end > 0
    return replace(hit, start=hit.start + by, end=hit.end + by) if in_advice else hit
