"""Persist: one transaction holds draft, findings, flags, generation figures, audit and the job's next state."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from uuid import UUID

from pipeline import metrics
from pipeline.checking import Draft
from pipeline.flow.alert import opened
from pipeline.model import DEMO_WATERMARK, Job, Lease, Step
from pipeline.ports import Store


def persist(store: Store, job: Job, draft: Draft, check_s: float, lease: Lease, deliver_as: Sequence[str] = ()) -> UUID:
    """Save a checked draft and move the job to drafted; returns the draft's id. Raises LeaseLost, then nothing is saved.

    `deliver_as` names the kinds of delivery that the site asked for; a demo model's draft of a real study is never delivered.
    """
    generation, hits = draft.generation, draft.checked.hits
    began = perf_counter()
    with store.begin() as work:
        draft_id = work.studies.save_draft(job, draft, lease)
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
