"""Thin tasks: each hears a bell, calls one step of `flow` and rings again while rows may be left. Each can run twice."""

from __future__ import annotations

from celery import shared_task

from pipeline.flow.assemble import assemble as assemble_studies
from pipeline.flow.deliver import deliver as deliver_reports
from pipeline.flow.dose import dose as read_doses
from pipeline.flow.draft import draft as draft_jobs
from pipeline.flow.encode import encode as encode_jobs
from pipeline.flow.sweep import sweep
from pipeline.model import Step
from workers import wiring


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
    """Draft encoded jobs."""
    site = wiring.site()
    again(Step.DRAFT, draft_jobs(wiring.drafting(), site.batch, site.lease()))


@shared_task(name=Step.DELIVER.value)
def deliver() -> None:
    """Hand finished reports to those who asked."""
    site = wiring.site()
    again(Step.DELIVER, deliver_reports(wiring.delivering(), site.batch, site.lease()))


@shared_task(name=Step.MAINTENANCE.value)
def maintenance() -> None:
    """Hand back what is lost and ring for what waits."""
    sweep(wiring.sweeping())


def again(step: Step, claimed: int) -> None:
    """A full batch may have left rows behind: ring once more."""
    if claimed >= wiring.site().batch:
        wiring.bell().ring(step)
