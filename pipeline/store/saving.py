"""Persist: a draft with its findings, flags and report, in the same transaction as the job's last move."""

from __future__ import annotations

from dataclasses import asdict
from uuid import UUID, uuid4

from sqlalchemy import func, insert, select

from pipeline.checking import Checked, Draft, Elements, Hit
from pipeline.errors import LeaseLost
from pipeline.model import Candidate, Finding, Job, JobState, Lease, ReportState
from pipeline.store.changes import note_since_earlier
from pipeline.store.frozen import lengths_used
from pipeline.store.jobs import Jobs
from pipeline.store.repository import plain
from pipeline.store.tables import DraftCandidateRow, DraftFrameRow, DraftRow, FindingRow, FlagRow, JobRow, ReportRow


class Saving(Jobs):
    """The persist step's rows."""

    def save_draft(self, job: Job, draft: Draft, lease: Lease) -> UUID:
        """drafting → drafted with everything that belongs to it. Raises LeaseLost before anything is written."""
        self.hand_over(job, JobState.DRAFTED, lease, attempts=0, reason=None, ended_at=func.now())
        return self._save(job, draft)

    def save_further(self, job: Job, draft: Draft) -> UUID:
        """One more department's draft of a job that is drafted; the id of the one that is there where there is one. Raises LeaseLost when the
        revision was superseded meanwhile."""
        state = self.session.scalars(select(JobRow.state).where(JobRow.id == job.id).with_for_update()).one()
        if state != JobState.DRAFTED.value:
            raise LeaseLost(f"job {job.id} is '{state}' now, no longer drafted; the text that was written for it is dropped")
        there = self.session.scalars(select(DraftRow.id).filter_by(job_id=job.id, department=draft.department)).one_or_none()
        return there or self._save(job, draft)

    def _save(self, job: Job, draft: Draft) -> UUID:
        """The draft with everything that belongs to it."""
        draft_id = self._add_draft(job, draft)
        findings = findings_values(draft_id, draft.checked)
        flags = [flag_values(draft_id, position, hit) for position, hit in enumerate(draft.checked.hits)]
        if findings:
            self.session.execute(insert(FindingRow), findings)
        if flags:
            self.session.execute(insert(FlagRow), flags)
        self._add_regions(draft_id, draft)
        report: dict[str, object] = {"study_id": job.study_id, "revision": job.revision, "department": draft.department}
        report["demo_only"] = draft.source.phantom_only and not job.is_phantom
        self.session.execute(insert(ReportRow).values(id=uuid4(), draft_id=draft_id, state=ReportState.WAITING.value, **report))
        note_since_earlier(self.session, job, draft_id, draft.department, draft.checked.report)
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
            server=plain(source.server),
            speculation=plain(source.speculation),
            first_token_s=generation.first_token_s,
            indication=plain(job.indication),
            k=lengths_used(generation),
        )
        self.session.add(row)
        self.session.flush()
        return row.id


def findings_values(draft_id: UUID, checked: Checked) -> list[dict[str, object]]:
    """One row for each finding, with its elements; a report that nobody checked has none of these."""
    listed = checked.report.findings
    elements = checked.elements or (Elements(),) * len(listed)
    pairs = enumerate(zip(listed, elements, strict=True))
    return [_finding(draft_id, position, finding) | _elements(more) for position, (finding, more) in pairs]


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


def _elements(more: Elements) -> dict[str, object]:
    return {
        "segment": more.segment,
        "shape": more.shape,
        "enhancement": more.enhancement,
        "advice": plain(more.advice) if more.advice else None,
        "slice_sop_uid": more.slice_sop_uid,
        "slice_frame": more.slice_frame,
        "grading": asdict(more.grading) if more.grading else None,
        "malignancy": asdict(more.malignancy) if more.malignancy else None,
        "sources": dict(more.sources),
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
