"""Assemble: is a study complete? Gather the evidence, judge, then freeze its images as a revision and ring for the encoder, or look again later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from uuid import UUID

from pipeline import log, metrics
from pipeline.choosing import ChoiceRule, SeriesChoice
from pipeline.evidence import Evidence, Patience, RequiredSeries, Verdict, VerdictKind
from pipeline.flow.choose import choose_series, unsupported_because
from pipeline.flow.complete import judge, with_series
from pipeline.model import JobState, Lease, Step, Study
from pipeline.nightly import OffPeak
from pipeline.ports import Doorbell, PhantomLedger, Store

logger = log.get(__name__)
WAIT, UNCHANGED, WITHDRAWN = "wait", "unchanged", "withdrawn"
SYSTEM = "system"


@dataclass(frozen=True)
class Assembling:
    """What the step works with."""

    store: Store
    phantoms: PhantomLedger
    bell: Doorbell
    patience: Patience
    min_slices: int
    required: tuple[RequiredSeries, ...] = ()
    off_peak: OffPeak | None = None  # when studies of the night priority are worked on; None: at any time


def assemble(ports: Assembling, limit: int, lease: Lease) -> int:
    """Judge up to `limit` studies that may be complete; returns how many were claimed. Each commits on its own, then each bell rings once."""
    with ports.store.begin() as work:
        studies = work.studies.claim_quiet(ports.patience, limit, lease)
    outcomes = [_assemble_one(ports, study, lease) for study in studies]
    if JobState.READY in outcomes:
        ports.bell.ring(Step.ENCODE)
    if WITHDRAWN in outcomes:
        ports.bell.ring(Step.DELIVER)
    return len(studies)


def _assemble_one(ports: Assembling, study: Study, lease: Lease) -> str:
    """Judge one study and act on it; returns its new job's state, or wait, unchanged (also when a late image arrived) or withdrawn."""
    started = perf_counter()
    with ports.store.begin() as work:
        evidence = with_series(work.studies.evidence(study), study, ports.required, ports.min_slices)
        rules = work.studies.choice_rules()
    verdict = judge(evidence, ports.patience)
    metrics.VERDICTS.labels("forced" if verdict.forced else verdict.kind.value).inc()
    if evidence.rejected and not any(image.rows for series in study.series for image in series.instances):
        outcome = _withdraw(ports, study)
    elif verdict.kind is VerdictKind.WAIT:
        outcome = _postpone(ports, study, verdict, lease)
    else:
        outcome = _freeze(ports, study, verdict, rules)
    seconds = perf_counter() - started
    metrics.STEPS.labels(Step.ASSEMBLE, "done" if outcome == JobState.READY else outcome).inc()
    metrics.STEP_SECONDS.labels(Step.ASSEMBLE).observe(seconds)
    logger.info(Step.ASSEMBLE.value, study_id=str(study.id), outcome=outcome, verdict=verdict.kind.value, seconds=round(seconds, 3))
    return outcome


def _withdraw(ports: Assembling, study: Study) -> str:
    """Rejection notes took back every image before it came."""
    with ports.store.begin() as work:
        return WITHDRAWN if work.studies.withdraw_rejected(study) else UNCHANGED


def _postpone(ports: Assembling, study: Study, verdict: Verdict, lease: Lease) -> str:
    with ports.store.begin() as work:
        if not work.studies.postpone(study, verdict, lease):
            return UNCHANGED
        detail = {"wait_s": f"{verdict.wait_s:.1f}", **counted(verdict.evidence)}
        work.audit.append(f"{Step.ASSEMBLE.value}_wait", study_id=study.id, job_id=None, actor=SYSTEM, **detail)
    return WAIT


def _freeze(ports: Assembling, study: Study, verdict: Verdict, rules: Sequence[ChoiceRule]) -> str:
    choice = choose_series(study, ports.min_slices, rules)
    reason = unsupported_because(choice)
    is_phantom = ports.phantoms.holds_all([i.sop_uid for series in study.series for i in series.instances])
    read = sum(len(series.instances) for series in choice.chosen)
    with ports.store.begin() as work:
        night_in_s = 0.0 if ports.off_peak is None else ports.off_peak.wait_s(work.night.now())
        job_id: UUID | None = work.studies.freeze(study, choice, is_phantom, reason, verdict, night_in_s)
        if job_id is None:
            return UNCHANGED
        detail = {"verdict": verdict.kind.value, "region": choice.region, "read": str(read), "refused": str(len(choice.refused)), **scored(choice)}
        work.audit.append(Step.ASSEMBLE.value, study_id=study.id, job_id=job_id, actor=SYSTEM, **(detail | counted(verdict.evidence)))
        if verdict.forced:
            work.audit.append(f"{Step.ASSEMBLE.value}_forced", study_id=study.id, job_id=job_id)
        if reason is not None:
            work.audit.append(JobState.UNSUPPORTED.value, study_id=study.id, job_id=job_id)
    return (JobState.READY if reason is None else JobState.UNSUPPORTED).value


def scored(choice: SeriesChoice) -> dict[str, str]:
    """Which series won and by which points, as the trail keeps it: numbers, nothing of the patient."""
    best = next((one for one in choice.scores if not one.refusal), None)
    if best is None:
        return {}
    number = {} if best.number is None else {"series": str(best.number)}
    return {**number, "score": str(best.score), "parts": " ".join(f"{part.rule}:{part.points}" for part in best.parts)}


def counted(evidence: Evidence) -> dict[str, str]:
    """The evidence as the trail keeps it: counts and seconds, nothing of the patient."""
    steps = Counter("in_progress" if step.in_progress else "discontinued" if step.discontinued else "completed" for step in evidence.steps)
    return {
        "quiet_s": f"{evidence.quiet_s:.1f}",
        "age_s": f"{evidence.age_s:.1f}",
        "images": str(evidence.images),
        "rejected": str(evidence.rejected),
        "associations_open": str(evidence.associations_open),
        "associations_released": str(evidence.associations_released),
        "associations_aborted": str(evidence.associations_aborted),
        "associations_lost": str(evidence.associations_lost),
        "mpps": " ".join(f"{name}:{n}" for name, n in sorted(steps.items())),
        "mpps_expected": str(sum(step.expected for step in evidence.steps)),
        "mpps_missing": str(sum(step.missing for step in evidence.steps)),
        "slices_missing": str(sum(gap.missing for gap in evidence.gaps)),
        "series_missing": str(len(evidence.missing_series)),
    }
