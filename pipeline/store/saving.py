"""Persist: a draft with its findings, flags and report, in the same transaction as the job's last move."""

from __future__ import annotations

from uuid import UUID, uuid4

from sqlalchemy import func, insert

from pipeline.checking import Draft, Hit
from pipeline.model import Candidate, Finding, Job, JobState, Lease, ReportState
from pipeline.store.jobs import Jobs
from pipeline.store.repository import plain
from pipeline.store.tables import DraftCandidateRow, DraftFrameRow, DraftRow, FindingRow, FlagRow, ReportRow


class Saving(Jobs):
    """The persist step's rows."""

    def save_draft(self, job: Job, draft: Draft, lease: Lease) -> UUID:
        """drafting → drafted with everything that belongs to it. Raises LeaseLost before anything is written."""
        self.hand_over(job, JobState.DRAFTED, lease, attempts=0, reason=None, ended_at=func.now())
        draft_id = self._add_draft(job, draft)
        findings = [_finding(draft_id, position, finding) for position, finding in enumerate(draft.checked.report.findings)]
        flags = [flag_values(draft_id, position, hit) for position, hit in enumerate(draft.checked.hits)]
        if findings:
            self.session.execute(insert(FindingRow), findings)
        if flags:
            self.session.execute(insert(FlagRow), flags)
        self._add_regions(draft_id, draft)
        report: dict[str, object] = {"study_id": job.study_id, "revision": job.revision, "department": draft.department}
        report["demo_only"] = draft.source.phantom_only and not job.is_phantom
        self.session.execute(insert(ReportRow).values(id=uuid4(), draft_id=draft_id, state=ReportState.WAITING.value, **report))
        return draft_id

    def _add_regions(self, draft_id: UUID, draft: Draft) -> None:
        """Where the regions lie, for the patient's later examinations."""
        stated = {finding.candidate: finding.size_mm for finding in reversed(draft.checked.report.findings)}
        if draft.candidates:
            rows = [_candidate(draft_id, one, stated.get(one.index)) for one in draft.candidates]
            self.session.execute(insert(DraftCandidateRow), rows)
        if draft.frame is not None:
            frame = draft.frame
            place = {"lungs_mm": list(frame.lungs_mm), "midline_mm": frame.midline_mm, "step_mm": frame.step_mm, "thickness_mm": frame.thickness_mm}
            self.session.execute(insert(DraftFrameRow).values(draft_id=draft_id, covers=list(draft.covers), **place))

    def _add_draft(self, job: Job, draft: Draft) -> UUID:
        report, source, generation = draft.checked.report, draft.source, draft.generation
        row = DraftRow(
            id=uuid4(),
            job_id=job.id,
            department=draft.department,
            findings_text=plain(report.findings_text),
            impression=plain(report.impression),
            advice=plain(report.advice),
            rung=source.rung,
            model=source.model,
            model_digest=source.model_digest,
            phantom_only=source.phantom_only,
            tokens=generation.tokens,
            verify_count=generation.verify_count,
            accepted_histogram=list(generation.accepted_histogram),
            seconds=generation.seconds,
            rules_version=draft.checked.rules_version,
            watermark=draft.watermark,
            ood=draft.ood,
            forced=generation.forced,
            positions=[list(pair) for pair in generation.positions],
            sections={name: list(counts) for name, counts in generation.sections.items()},
            sources={name: list(counts) for name, counts in generation.sources.items()},
        )
        self.session.add(row)
        self.session.flush()
        return row.id


def _finding(draft_id: UUID, position: int, finding: Finding) -> dict[str, object]:
    return {
        "draft_id": draft_id,
        "position": position,
        "candidate": finding.candidate,
        "kind": finding.kind,
        "side": finding.side,
        "lobe": finding.lobe,
        "density": finding.density,
        "size_mm": finding.size_mm,
        "margin": finding.margin,
        "internal": finding.internal,
        "surround": finding.surround,
    }


def _candidate(draft_id: UUID, one: Candidate, stated_mm: int | None) -> dict[str, object]:
    return {
        "draft_id": draft_id,
        "index": one.index,
        "kind": one.kind,
        "center_mm": list(one.center_mm),
        "side": one.side.value,
        "lobe": one.lobe or "",
        "density": one.density or "",
        "size_mm": one.size_mm,
        "stated_mm": stated_mm,
        "score": one.score,
        "margin": one.margin,
        "calcified": one.calcified,
        "retraction": one.retraction,
    }


def flag_values(draft_id: UUID, position: int, hit: Hit) -> dict[str, object]:
    """One flag's row."""
    return {
        "draft_id": draft_id,
        "position": position,
        "rule": hit.rule,
        "version": hit.version,
        "severity": hit.severity.value,
        "section": hit.section,
        "start_at": hit.start,
        "end_at": hit.end,
        "message": plain(hit.message),
        "original": plain(hit.original),
    }
