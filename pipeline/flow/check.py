"""Check: the rules over a draft: replace, flag, warn."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from pipeline import metrics
from pipeline.model import Candidate, CheckContext, Checked, Report
from pipeline.ports import Rules
from pipeline.rules.checks import run
from pipeline.rules.dose import months_before


def check(rules: Rules, report: Report, study_id: UUID, candidates: Sequence[Candidate], indication: str) -> Checked:
    """The report under the rules in force, with the patient's doses of the longest window before the examination."""
    ruleset = rules.current()
    day = rules.study_date(study_id)
    since = months_before(day, max((rule.window_months for rule in ruleset.dose), default=0))
    context = CheckContext(
        study_date=day,
        doses=rules.doses(study_id, since, day) if ruleset.dose else (),
        doses_missing=rules.studies_without_dose(study_id, since, day) if ruleset.dose else 0,
        candidates=tuple(candidates),
        indication=indication,
    )
    checked = run(report, ruleset, context)
    for hit in checked.hits:
        metrics.RULE_HITS.labels(hit.rule, hit.severity).inc()
    return checked
