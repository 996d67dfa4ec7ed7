"""Persist: one transaction holds draft, findings, flags, generation figures, audit and the job's next state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from uuid import UUID

from pipeline import metrics
from pipeline.checking import Draft
from pipeline.flow.alert import opened
from pipeline.model import DEMO_WATERMARK, Job, Lease, Step
from pipeline.ports import Store, Work


def persist(store: Store, job: Job, draft: Draft, check_s: float, lease: Lease, deliver_as: Sequence[str] = (), asked_by: str | None = None) -> UUID:
    """Save a checked draft and move the job to drafted; returns the draft's id. Raises LeaseLost, then nothing is saved.

    `deliver_as` names the kinds of delivery that the site asked for; a demo model's draft of a real study is never delivered. `asked_by`: the
    department that asked for the examination, whose own text is then asked for, as is that of every department that asked for an older revision.
    """

    def save(work: Work) -> UUID:
        draft_id = work.studies.save_draft(job, draft, lease)
        if asked_by is not None:
            work.requests.ask(job.study_id, job.revision, asked_by)
        work.requests.carry(job.study_id, job.revision)
        return draft_id

    return _commit(store, job, draft, check_s, deliver_as, save)


def persist_further(store: Store, job: Job, draft: Draft, check_s: float, deliver_as: Sequence[str] = ()) -> UUID:
    """Save one more department's draft of a drafted job, as `persist`. Raises LeaseLost when the revision was superseded meanwhile."""
    return _commit(store, job, draft, check_s, deliver_as, lambda work: work.studies.save_further(job, draft))


def _commit(store: Store, job: Job, draft: Draft, check_s: float, deliver_as: Sequence[str], save: Callable[[Work], UUID]) -> UUID:
    generation, hits = draft.generation, draft.checked.hits
    began = perf_counter()
    with store.begin() as work:
        draft_id = save(work)
        alerts = work.alerts.suspect(job.study_id, job.revision, draft_id, draft.checked.alerts)
        for kind in () if draft.watermark.startswith(DEMO_WATERMARK) else deliver_as:
            work.deliveries.ask(draft_id, kind)
        audit = partial(work.audit.append, study_id=job.study_id, job_id=job.id)
        audit(
            Step.DRAFT.value,
            seconds=f"{generation.seconds:.3f}",
            tokens=str(generation.tokens),
            verify_count=str(generation.verify_count),
            rung=draft.source.rung,
            department=draft.department,
        )
        for alert_id in alerts:
            audit("alert_opened", alert_id=str(alert_id), draft_id=str(draft_id))
        audit(Step.CHECK.value, seconds=f"{check_s:.4f}", hits=str(len(hits)), rules_version=str(draft.checked.rules_version))
        audit(Step.PERSIST.value, seconds=f"{perf_counter() - began:.4f}", draft_id=str(draft_id), findings=str(len(draft.checked.report.findings)))
    opened(alerts, job.study_id)
    metrics.TOKENS.labels(draft.source.rung).inc(generation.tokens)
    metrics.VERIFY_STEPS.labels(draft.source.rung).inc(generation.verify_count)
    metrics.ACCEPTANCE.labels(draft.source.rung).set(generation.acceptance)
    return draft_id
