"""Thin tasks: each hears a bell, calls one step of `flow` and rings again while rows may be left. Each can run twice."""

from __future__ import annotations

from celery import shared_task

from pipeline import log
from pipeline.flow.asked import draft_asked
from pipeline.flow.assemble import assemble as assemble_studies
from pipeline.flow.deliver import deliver as deliver_reports
from pipeline.flow.dose import dose as read_doses
from pipeline.flow.draft import draft as draft_jobs
from pipeline.flow.encode import encode as encode_jobs
from pipeline.flow.night import night as plan_night
from pipeline.flow.renew import recheck
from pipeline.flow.retain import retain
from pipeline.flow.sample import sample_due
from pipeline.flow.sweep import sweep
from pipeline.model import Step
from workers import wiring, wiring_drafts
from workers.abreast import side_by_side

logger = log.get(__name__)
RECHECKS = 20  # drafts that one round of maintenance looks at again


@shared_task(name=Step.ASSEMBLE.value)
def assemble() -> None:
    """Read the dose reports that have come, then freeze the studies that have gone quiet."""
    site = wiring.site()
    try:
        again(Step.ASSEMBLE, read_doses(wiring.dosing(), site.batch, site.lease()))
    finally:  # no dose report keeps a study from its draft
        again(Step.ASSEMBLE, assemble_studies(wiring.assembling(), site.batch, site.lease()))


@shared_task(name=Step.ENCODE.value)
def encode() -> None:
    """Encode ready jobs."""
    site = wiring.site()
    again(Step.ENCODE, encode_jobs(wiring.encoding(), site.batch, site.lease()))


@shared_task(name=Step.DRAFT.value)
def draft() -> None:
    """Draft encoded jobs, then what was asked for beside them."""
    if (reason := wiring_drafts.draft_refusal()) is not None:  # nothing is claimed: a job that waits costs no attempt, and the sweeper rings again
        logger.warning("draft_refused", reason=reason)
        return
    site, ports, width = wiring.site(), wiring_drafts.drafting(), wiring.site().drafting_width
    limit, most = (site.batch, site.batch) if width == 1 else (1, width - 1)  # one each, so that the task's deadline is one draft's

    def urgent() -> int:
        return draft_jobs(ports, 1, site.lease(), urgent=True)

    again(Step.DRAFT, side_by_side(width, lambda: draft_jobs(ports, limit, site.lease()), urgent), most)
    again(Step.DRAFT, side_by_side(width, lambda: draft_asked(ports, limit, site.lease()), urgent), most)


@shared_task(name=Step.DELIVER.value)
def deliver() -> None:
    """Hand finished reports to those who asked."""
    site = wiring.site()
    again(Step.DELIVER, deliver_reports(wiring.delivering(), site.batch, site.lease()))


@shared_task(name=Step.MAINTENANCE.value)
def maintenance() -> None:
    """Hand back what is lost and ring for what waits, keep the night's plan, look again at drafts that older rules have checked, sample the
    nights that are over, and forget what is old."""
    sweep(wiring.sweeping())
    plan_night(wiring.night_shift())
    if recheck(wiring.renewing(), RECHECKS) == RECHECKS:
        wiring.bell().ring(Step.MAINTENANCE)
    sample_due(wiring.sampling())
    retain(wiring.retaining())


def again(step: Step, claimed: int, most: int | None = None) -> None:
    """As many as could be claimed (a batch, or `most`) may have left rows behind: ring once more."""
    if claimed >= (wiring.site().batch if most is None else most):
        wiring.bell().ring(step)
