"""What `ctreport show` prints of one draft: DESIGN section 7's keys, and how the report stands."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.orm import Session

from pipeline.errors import BadInput
from pipeline.model import ReportState, StudyState
from pipeline.store.changes import changes_of
from pipeline.store.described import findings, section_sources
from pipeline.store.tables import DraftRow, FlagRow, FrozenFindingsRow, JobRow, ReportRow, StudyRow

STATUS = {
    ReportState.WAITING: "待审",
    ReportState.REVIEWING: "审阅中",
    ReportState.WRITTEN: "已书写，待审核",
    ReportState.SIGNED: "已签发",
    ReportState.AMENDED: "已修订",
    ReportState.REJECTED: "已弃用，人工书写",
}
SIGNED = frozenset({ReportState.SIGNED, ReportState.AMENDED})


def shown(session: Session, draft_id: UUID) -> dict[str, Any]:
    """One draft under the keys of `ctreport show`; `watermark` is empty once a doctor has signed. Raises BadInput for an unknown id."""
    query = (
        select(DraftRow, JobRow, StudyRow, ReportRow)
        .join(JobRow, JobRow.id == DraftRow.job_id)
        .join(StudyRow, StudyRow.id == JobRow.study_id)
        .join(ReportRow, ReportRow.draft_id == DraftRow.id)
        .where(DraftRow.id == draft_id)
    )
    found = session.execute(query).one_or_none()
    if found is None:
        raise BadInput(f"there is no draft {draft_id}; `ctreport status` lists what there is")
    draft, job, study, report = found
    state = ReportState(report.state)
    return {
        "study_uid": study.study_uid,
        "id": str(study.id),
        "accession": study.accession,
        "study_date": study.study_date.isoformat() if study.study_date else None,
        "department": draft.department,
        "draft_id": str(draft.id),
        "report_id": str(report.id),
        "state": state.value,
        "status": STATUS[state],
        "signed_by": report.signed_by,
        "signed_at": report.signed_at.isoformat() if report.signed_at else None,
        "watermark": "" if state in SIGNED else draft.watermark,
        "created_at": draft.created_at.isoformat(),
        "revision": job.revision,
        "completeness": job.completeness,
        "withdrawn": study.reason if study.state == StudyState.WITHDRAWN else None,
        "draft": _draft(session, draft),
        "departments": _departments(session, job),
        "cause": job.cause,
        "changes": changes_of(session, draft.id),
        "series": series(job),
    }


def series(job: JobRow) -> dict[str, Any]:
    """Which series a job reads, why not the others, and what each rule said of each (best first)."""
    refused = [{"uid": uid, "reason": reason} for uid, reason in job.series_refused]
    return {"chosen": list(job.series_chosen), "refused": refused, "scores": list(job.series_scores)}


def _draft(session: Session, draft: DraftRow) -> dict[str, Any]:
    sections, flags = {"检查所见": draft.findings_text, "诊断意见": draft.impression, "建议": draft.advice}, _flags(session, draft.id)
    return {
        "sections": sections,
        "section_sources": section_sources(sections, flags),
        "findings": findings(session, draft.id),
        "flags": flags,
        "source": {
            "rung": draft.rung,
            "model": draft.model,
            "model_digest": draft.model_digest,
            "phantom_only": draft.phantom_only,
            "server": draft.server,
            "speculation": draft.speculation,
            "rules_version": draft.rules_version,
        },
        "generation": {
            "tokens": draft.tokens,
            "verify_count": draft.verify_count,
            "accepted_histogram": list(draft.accepted_histogram),
            "seconds": draft.seconds,
            "forced": draft.forced,
            "positions": draft.positions,
            "sections": draft.sections,
            "sources": draft.sources,
            "first_token_s": draft.first_token_s,
            "k": draft.k,
        },
        "frozen": _frozen(session, draft.job_id),
        "ood": draft.ood,
    }


def _frozen(session: Session, job_id: UUID) -> dict[str, Any] | None:
    """The findings that every department's text of this revision is written from; None of a draft that is older than they are."""
    row = session.get(FrozenFindingsRow, job_id)
    return None if row is None else {"text": row.text, "source": row.source, "generation": row.generation}


def _departments(session: Session, job: JobRow) -> list[dict[str, Any]]:
    """The reports of the same revision, in the order of their departments' names."""
    rows = session.scalars(select(ReportRow).filter_by(study_id=job.study_id, revision=job.revision).order_by(ReportRow.department))
    return [{"department": row.department, "draft_id": str(row.draft_id), "report_id": str(row.id), "state": row.state} for row in rows]


def _flags(session: Session, draft_id: UUID) -> list[dict[str, Any]]:
    rows = session.scalars(select(FlagRow).where(FlagRow.draft_id == draft_id).order_by(FlagRow.position))
    names = ("rule", "version", "severity", "section", "message", "original")
    return [{name: getattr(row, name) for name in names} | {"start": row.start_at, "end": row.end_at} | _resolution(row) for row in rows]


def _resolution(row: FlagRow) -> dict[str, Any]:
    """Who answered for a hit that blocks; nothing while nobody has."""
    if row.resolved_at is None:
        return {}
    return {"resolved_by": row.resolved_by, "resolved_at": row.resolved_at.isoformat(), "resolution": row.resolution}
