"""Renew: incremental work by day. What changed decides what is written again or looked at again; what a reader has touched stays as it is, and the
difference is shown.

A late image, a new series or a corrected order makes a revision. Where it finds the same, its texts stay; where only the order is new, what was seen
stays and the answer to the order is written again. Newer rules look at every unsigned draft again, without any model.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from uuid import UUID

from pipeline import log, metrics
from pipeline.checking import Checked, Hit, RuleSet
from pipeline.errors import BadDraft, Permanent, Transient
from pipeline.flow.alert import opened
from pipeline.flow.check import check
from pipeline.model import Features, Found, Report, Severity, Step
from pipeline.ports import Archive, Doorbell, Encoder, Store, Work
from pipeline.renewing import Change, Earlier, Kept, Order, Outdated
from pipeline.rules.dose import without_warnings

logger = log.get(__name__)
FINDINGS, DESCRIPTION, IMPRESSION, ADVICE = "检查所见", "描述", "诊断意见", "建议"
OF_ARRIVAL = frozenset({"completeness", "series", "image"})  # hits that no rule makes: they are of the images, which are the same
WOULD_READ = "规则第 {} 版下此节应为另一表述，医师已打开报告，原文未改；见变更记录"


@dataclass(frozen=True)
class Renewing:
    """What looking again works with."""

    store: Store
    archive: Archive
    encoder: Encoder
    bell: Doorbell


def stays(same_findings: bool, same_order: bool) -> tuple[str, ...]:
    """Sections that a change does not concern: each is written from the findings and those before it, and all but what was seen from the order."""
    if not same_findings:
        return ()
    return (DESCRIPTION, IMPRESSION, ADVICE) if same_order else (DESCRIPTION,)


def kept_of(earlier: Earlier, found: Found, indication: str, ruleset: RuleSet, parse: Callable[[str], Report]) -> Kept | None:
    """What a draft from these findings keeps of an earlier one; None where that is nothing, or is no report any more as reports are written now."""
    if earlier.found is None or not _is_report(earlier, ruleset, parse):
        return None
    names = stays(earlier.found.text == found.text, earlier.indication == indication)
    texts = _texts(earlier, ruleset)
    return Kept({name: texts[name] for name in names}, earlier.source) if names else None


def same_findings(earlier: Earlier, features_path: str | None, ruleset: RuleSet, parse: Callable[[str], Report]) -> Found | None:
    """The earlier findings where they are of the same features: they were seen in the images, whatever the order says."""
    if earlier.found is None or features_path is None or earlier.features_path != features_path:
        return None
    return earlier.found if _is_report(earlier, ruleset, parse) else None


def with_marks(checked: Checked, earlier: Earlier, kept: Kept) -> Checked:
    """With the marks of what earlier rules replaced in sections that are kept, and that reads as it did."""
    names = {DESCRIPTION: FINDINGS, IMPRESSION: IMPRESSION}  # 建议 begins with dose warnings, which come and go
    return _marked(checked, earlier.report, earlier.hits, [names[name] for name in kept.texts if name in names])


def recheck(ports: Renewing, limit: int) -> int:
    """Look again at up to `limit` unsigned drafts that older rules have checked; returns how many there were. Each commits on its own."""
    with ports.store.begin() as work:
        ids = work.renewals.outdated(limit)
    again = [_recheck(ports, report_id) for report_id in ids]
    if any(again):
        ports.bell.ring(Step.DELIVER)
    return len(ids)


def correct(store: Store, study: str, order: Order, actor: str) -> tuple[tuple[str, ...], bool]:
    """Take over a corrected order; returns which fields are new, and whether a revision is made for it. Raises NotFound or NotAllowed."""
    with store.begin() as work:
        study_id, new, revised = work.renewals.correct(study, order, actor)
        if new:  # what it says is of the patient: the trail says only that it is new
            work.audit.append("corrected", study_id=study_id, actor=actor, fields=" ".join(new), revision="yes" if revised else "no")
    return new, revised


@dataclass(frozen=True, slots=True)
class Look:
    """What looking at one draft came to: an outcome for the metric, whether it is to be delivered again, and alerts that are open anew."""

    outcome: str
    again: bool = False
    study_id: UUID | None = None
    raised: tuple[UUID, ...] = ()


def _recheck(ports: Renewing, report_id: UUID) -> bool:
    """True when something is to be delivered again."""
    try:
        with ports.store.begin() as work:
            one = work.renewals.take(report_id)
            look = Look("gone") if one is None else _look(ports, work, one)
    except Transient as error:
        look = Look("transient")
        logger.warning("recheck_transient", report_id=str(report_id), reason=str(error))
    if look.study_id is not None:
        opened(look.raised, look.study_id)
    metrics.RENEWED.labels(look.outcome).inc()
    return look.again


def _look(ports: Renewing, work: Work, one: Outdated) -> Look:
    audit = partial(work.audit.append, study_id=one.job.study_id, job_id=one.job.id)
    ruleset = work.rules.current()
    try:
        features = _features(ports, one)
        checked = check(work.rules, one.report, one.job.study_id, features.candidates, one.job.indication, features, one.department)
    except Permanent as error:
        work.renewals.pass_over(one, ruleset.version)
        audit("recheck_refused", report_id=str(one.report_id), kind=type(error).__name__, rules_version=str(ruleset.version))
        return Look("refused")
    changes, hits = renewed(one, checked)
    again = work.renewals.renew(one, checked, hits, changes)
    raised = work.alerts.suspect(one.job.study_id, one.job.revision, one.draft_id, checked.alerts)
    outcome = ("changed" if one.untouched else "shown") if changes else "same"
    before, now = str(one.rules_version), str(checked.rules_version)
    audit("recheck", report_id=str(one.report_id), text=outcome, hits=str(len(hits)), before=before, rules_version=now)
    for alert_id in raised:
        audit("alert_opened", alert_id=str(alert_id), draft_id=str(one.draft_id))
    return Look(outcome, again and bool(changes), one.job.study_id, raised)


def renewed(one: Outdated, checked: Checked) -> tuple[tuple[Change, ...], tuple[Hit, ...]]:
    """What would read otherwise, and the hits that the report has from now on. In one that somebody has opened no word changes: what the rules would
    replace there is a flag."""
    old, new = one.report.sections(), checked.report.sections()
    changes = tuple(Change(name, old[name], new[name]) for name in old if old[name] != new[name])
    changed = {change.section for change in changes}
    of_images = tuple(hit for hit in one.hits if hit.rule in OF_ARRIVAL)
    if one.untouched:
        marked = _marked(checked, one.report, one.hits, [name for name in old if name not in changed])
        return changes, (*of_images, *marked.hits)
    flags = tuple(Hit("renewal", 1, Severity.FLAG, name, 0, 0, WOULD_READ.format(checked.rules_version)) for name in old if name in changed)
    marked = _marked(replace(checked, report=one.report, hits=()), one.report, one.hits, list(old))
    others = (hit for hit in checked.hits if hit.severity is not Severity.REPLACED)
    return changes, (*of_images, *flags, *marked.hits, *(_placed(hit, hit.section in changed) for hit in others))


def _placed(hit: Hit, moved: bool) -> Hit:
    """Without a place where the text that it is counted in is not the one that stands."""
    return replace(hit, start=0, end=0) if moved else hit


def _marked(checked: Checked, report: Report, hits: Sequence[Hit], names: Sequence[str]) -> Checked:
    """With the earlier marks of replaced terms in these sections, where the text reads as it did."""
    now, then = checked.report.sections(), report.sections()
    same = {name for name in names if now[name] == then[name]}
    marks = tuple(hit for hit in hits if hit.severity is Severity.REPLACED and hit.section in same and hit not in checked.hits)
    return replace(checked, hits=(*checked.hits, *marks))


def _features(ports: Renewing, one: Outdated) -> Features:
    if one.job.features_path is None:
        raise BadDraft("the draft's job has no features any more; `ctreport rerun` writes it anew")
    return ports.encoder.load_features(ports.archive.path(one.job.features_path))


def _texts(earlier: Earlier, ruleset: RuleSet) -> dict[str, str]:
    """The sections as they read, without the dose warnings: these are said anew."""
    report = earlier.report
    return {DESCRIPTION: report.findings_text, IMPRESSION: report.impression, ADVICE: without_warnings(report.advice, ruleset.dose)}


def _is_report(earlier: Earlier, ruleset: RuleSet, parse: Callable[[str], Report]) -> bool:
    """True when the schema of the rules in force still allows what was written: terms may have gone since."""
    if earlier.found is None:
        return False
    texts = _texts(earlier, ruleset)
    described = {**json.loads(earlier.found.text), DESCRIPTION: texts[DESCRIPTION]}
    try:
        parse(json.dumps({FINDINGS: described, IMPRESSION: texts[IMPRESSION], ADVICE: texts[ADVICE]}, ensure_ascii=False))
    except BadDraft:
        return False
    return True
