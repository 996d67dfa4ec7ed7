"""Dose: each dose report that arrived is read once, and the patient's unsigned drafts are checked again. Runs inside the `assemble` task, before
studies are frozen, as `check` and `persist` run inside `draft`: the listener rings it when an association ends, the sweeper while rows wait.

Nothing is lost by a kill: a row is claimed for the length of a lease; its events are committed together with its move to `recheck`, and only when the
drafts have been checked does it end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from time import perf_counter
from uuid import UUID

from pipeline import log, metrics
from pipeline.checking import RuleSet
from pipeline.errors import BadInput, LeaseLost, Permanent, Transient, Unsupported
from pipeline.flow.check import dose_context
from pipeline.irradiation import DoseReading, DoseReportState
from pipeline.model import Job, Lease, Patient, Step
from pipeline.ports import Archive, Doorbell, DoseReport, OpenReport, Store, Work
from pipeline.rules.dose import warn_again
from pipeline.rules.factors import weigh, years_between
from pipeline.rules.same_patient import OTHER_ID, differs

logger = log.get(__name__)
AGAIN_S = 5.0  # until drafts that were being written are looked at again
SCREEN = "dose-screen"
UNREAD_SCREEN = "剂量截图（图像），保留未读；其数值以剂量报告（RDSR）为准"


@dataclass(frozen=True)
class Dosing:
    """What the step works with. `read` raises Permanent with the reason where a file holds no dose."""

    store: Store
    archive: Archive
    bell: Doorbell
    read: Callable[[Path], DoseReading]
    max_attempts: int


@dataclass(frozen=True)
class Estimating:
    """What an estimate from image headers works with."""

    store: Store
    archive: Archive
    read: Callable[[Sequence[Path]], DoseReading | None]


def dose(ports: Dosing, limit: int, lease: Lease) -> int:
    """Read up to `limit` dose objects; returns how many were claimed. One that cannot be read now comes back when its lease is over."""
    with ports.store.begin() as work:
        claimed = work.doses.claim(limit, lease, ports.max_attempts)
    rings = False
    for report in claimed:
        started = perf_counter()
        try:
            outcome, ring = _dose_one(ports, report)
            rings = rings or ring
        except Transient as error:
            outcome = "transient"
            logger.warning("dose_transient", study_id=str(report.study_id), reason=str(error))
        metrics.STEPS.labels(Step.DOSE, outcome).inc()
        metrics.STEP_SECONDS.labels(Step.DOSE).observe(perf_counter() - started)
        logger.info(Step.DOSE.value, study_id=str(report.study_id), outcome=outcome, seconds=round(perf_counter() - started, 3))
    if rings:
        ports.bell.ring(Step.DELIVER)
    return len(claimed)


def estimate(ports: Estimating, job: Job) -> None:
    """Before a study is checked: where no dose report of it has come, note what the headers of its images say, until one comes. It keeps no study
    from its draft. Raises Transient."""
    try:
        with ports.store.begin() as work:
            needed = work.doses.needs_estimate(job.study_id)
        reading = ports.read(ports.archive.paths(job.files)) if needed else None
        if reading is None:
            return
        with ports.store.begin() as work:
            if work.doses.needs_estimate(job.study_id):
                _record(work, job.study_id, None, reading)
    except Permanent as error:
        logger.warning("dose_estimate_refused", study_id=str(job.study_id), reason=str(error))


def _dose_one(ports: Dosing, report: DoseReport) -> tuple[str, bool]:
    """Returns the outcome, and whether a report is to be delivered again."""
    if report.state is DoseReportState.WAITING and not _read_one(ports, report):
        return "unread", False
    with ports.store.begin() as work:
        busy = work.doses.drafting(report.study_id)  # first: a draft that ends meanwhile is looked at twice, never not at all
        ring = _check_again(work, report)
        _move(work, report, DoseReportState.RECHECK if busy else DoseReportState.READ, due_s=AGAIN_S if busy else 0.0)
    return "recheck" if busy else "done", ring


def _read_one(ports: Dosing, report: DoseReport) -> bool:
    """Read the file and store its events; False, with the reason on the row, where it gives none. Raises Transient."""
    try:
        if report.content == SCREEN:
            raise Unsupported(UNREAD_SCREEN)
        reading = ports.read(ports.archive.path(report.path))
        with ports.store.begin() as work:
            changed = _record(work, report.study_id, report.instance_id, reading)
            notes = dict.fromkeys((*reading.notes, *(note for event in reading.events for note in event.notes)))
            _move(work, report, DoseReportState.RECHECK, events=len(reading.events), reason="；".join(notes))
            audit = partial(work.audit.append, study_id=report.study_id, instance_id=str(report.instance_id))
            audit(Step.DOSE.value, source=reading.source.value, events=str(len(reading.events)), changed=str(changed))
    except Permanent as error:
        with ports.store.begin() as work:
            _move(work, report, DoseReportState.UNREAD, reason=str(error))
            work.audit.append("dose_unread", study_id=report.study_id, instance_id=str(report.instance_id), kind=type(error).__name__)
        return False
    return True


def _record(work: Work, study_id: UUID, instance_id: UUID | None, reading: DoseReading) -> int:
    """Weigh the events and store them for the study's patient. Raises BadInput for a report of somebody else."""
    known = work.doses.patient(study_id)
    doubt = differs(reading.patient, known)
    if doubt == OTHER_ID:
        raise BadInput(f"{OTHER_ID}：剂量未计入任何人；请核对后让设备重发")
    age_years = _age(reading, known, work.rules.study_date(study_id))
    factors = work.doses.factors()
    weighed = [weigh(event, age_years, factors) for event in reading.events]
    return work.doses.record(study_id, reading.study_uid, instance_id, weighed, doubt)


def _age(reading: DoseReading, known: Patient, day: date) -> float | None:
    """Age at the examination by the birth date, else as the object says."""
    by_birth = years_between(known.birth_date or reading.patient.birth_date, day)
    return reading.age_years if by_birth is None else by_birth


def _check_again(work: Work, report: DoseReport) -> bool:
    """The dose rules over the patient's unsigned reports. True when one that was handed out has changed."""
    ruleset = work.rules.current()
    reports = work.doses.open_reports(report.study_id) if ruleset.dose else ()
    changed = [_renew(work, one, ruleset) for one in reports]
    return any(changed)


def _renew(work: Work, one: OpenReport, ruleset: RuleSet) -> bool:
    context = dose_context(work.rules, ruleset, one.study_id)
    new, hits = warn_again(one.report, one.hits, ruleset, context, untouched=one.untouched)
    if (new, hits) == (one.report, one.hits):
        return False
    ring = work.doses.renew(one, new.advice, hits)
    audit = partial(work.audit.append, study_id=one.study_id, job_id=one.job_id, report_id=str(one.id))
    text = "changed" if new != one.report else "kept"
    audit("dose_recheck", text=text, touched=str(not one.untouched).lower(), hits=str(len(hits)), rules_version=str(ruleset.version))
    return ring


def _move(work: Work, report: DoseReport, to: DoseReportState, *, events: int | None = None, reason: str | None = None, due_s: float = 0.0) -> None:
    if not work.doses.move(report, to, events=events, reason=reason, due_s=due_s):
        raise LeaseLost(f"dose object {report.instance_id} was claimed by another worker meanwhile; the holder goes on")
