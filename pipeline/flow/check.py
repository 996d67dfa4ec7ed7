"""Check: the rules over a draft: replace, flag, warn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from pipeline import metrics
from pipeline.checking import CheckContext, Checked, RuleSet
from pipeline.model import Candidate, Features, Report
from pipeline.ports import Rules
from pipeline.rules.against import differences
from pipeline.rules.checks import run
from pipeline.rules.dose import months_before
from pipeline.rules.elements import elements


def check(
    rules: Rules,
    report: Report,
    study_id: UUID,
    candidates: Sequence[Candidate],
    indication: str,
    features: Features | None = None,
    department: str = "radiology",
) -> Checked:
    """The report of a drafter under the rules in force, with what the store knows of the patient (doses of the longest window before the examination,
    earlier examinations, age, sex) and what the images show; with the elements of each finding."""
    ruleset = rules.current()
    context = replace(dose_context(rules, ruleset, study_id), candidates=tuple(candidates), indication=indication)
    context = replace(context, sex=rules.sex(study_id), structured=True, department=department)
    context = with_priors(rules, _with_features(context, features), study_id)
    checked = run(report, ruleset, context)
    checked = replace(checked, elements=elements(checked.report, ruleset, context), differs=differences(checked.report, ruleset, context))
    for hit in checked.hits:
        metrics.RULE_HITS.labels(hit.rule, hit.severity).inc()
    return checked


def with_priors(rules: Rules, context: CheckContext, study_id: UUID) -> CheckContext:
    """What is known of the patient's earlier examinations."""
    priors = rules.priors(study_id, context.study_date)
    return replace(context, priors=priors, has_prior=bool(priors))


def _with_features(context: CheckContext, features: Features | None) -> CheckContext:
    """What the images themselves show."""
    if features is None:
        return context
    context = replace(context, effusion=features.effusion, emphysema=features.emphysema, fibrosis=features.fibrosis)
    return replace(context, covers=features.covers, contrast=features.contrast, frame=features.frame)


def dose_context(rules: Rules, ruleset: RuleSet, study_id: UUID) -> CheckContext:
    """What the dose rules look at: the examination's date, the patient's age, and the doses of the longest window before it."""
    day, age = rules.study_date(study_id), rules.age_years(study_id)
    if not ruleset.dose:
        return CheckContext(day, age_years=age)
    since = months_before(day, max(rule.window_months for rule in ruleset.dose))
    missing = rules.studies_without_dose(study_id, since, day)
    doses = rules.doses(study_id, since, day)
    return CheckContext(day, doses=doses, doses_missing=len(missing), missing_dates=missing, age_years=age)
