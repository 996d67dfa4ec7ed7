"""The read side, for commands: where each study stands, what happened to it, and its draft."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, func, or_, select, true

from pipeline.errors import BadInput
from pipeline.model import JobState, StudyState
from pipeline.store.evidence import has_open_association
from pipeline.store.naming import ARRIVED, TOUCHED, step_of, which
from pipeline.store.proof import duplicates, instance_rows, stuck
from pipeline.store.repository import plain
from pipeline.store.session import PgStore
from pipeline.store.shown import series, shown
from pipeline.store.tables import AuditRow, DraftRow, JobRow, QuarantineRow, ReportRow, StudyRow

__all__ = ["duplicates", "instance_rows", "series_read", "show", "stuck", "study_overview", "timeline", "which"]

INCOMPLETE, WAITS, OPEN = "资料不完整：", "等待：", "发送连接未关闭"


def study_overview(store: PgStore, study: str | None = None, limit: int = 10_000) -> list[dict[str, Any]]:
    """The newest `limit` studies: `state` is the job's once all has arrived, `step` where it is, `seconds` since the first image (until its end)."""
    query = (
        select(StudyRow, JobRow, func.now(), has_open_association())
        .outerjoin(JobRow, (JobRow.study_id == StudyRow.id) & (JobRow.revision == StudyRow.revision))
        .order_by(StudyRow.first_received.desc())
        .limit(limit)
    )
    with store.begin() as work:
        rows = work.session.execute(query if study is None else query.where(which(study))).all()
    return [_overview(row) for row in rows]


def timeline(store: PgStore, study: str) -> list[dict[str, Any]]:
    """Every event of one study in order: id, at, action, actor, job_id, detail. Empty for an unknown study."""
    query = select(AuditRow).join(StudyRow, StudyRow.id == AuditRow.study_id).where(which(study)).order_by(AuditRow.id)
    with store.begin() as work:
        rows = work.session.scalars(query).all()
    return [
        {"id": row.id, "at": row.at, "action": row.action, "actor": row.actor, "job_id": row.job_id and str(row.job_id), "detail": row.detail}
        for row in rows
    ]


def series_read(store: PgStore, study: str) -> dict[str, Any] | None:
    """Which series the newest revision of a study reads and why, as `ctreport show` has it; None before it was assembled."""
    query = select(JobRow).join(StudyRow, StudyRow.id == JobRow.study_id).where(which(study)).order_by(JobRow.revision.desc()).limit(1)
    with store.begin() as work:
        job = work.session.scalars(query).one_or_none()
        return None if job is None else series(job)


def show(store: PgStore, study: str, department: str | None = None, first: str = "radiology") -> dict[str, Any]:
    """The draft that `finished_reports` shows of one study, under the keys of `ctreport show`: of one department, else of the `first` that has one.
    Raises BadInput with the reason without one."""
    mine = true() if department is None else DraftRow.department == plain(department)
    query = (
        select(DraftRow.id)
        .join(JobRow, JobRow.id == DraftRow.job_id)
        .join(StudyRow, StudyRow.id == JobRow.study_id)
        .join(ReportRow, ReportRow.draft_id == DraftRow.id)
        .where(which(study), or_(JobRow.state == JobState.DRAFTED.value, ReportRow.state.in_(TOUCHED)), mine)
        .order_by(JobRow.revision.desc(), DraftRow.department != first, DraftRow.department)
        .limit(1)
    )
    with store.begin() as work:
        draft_id = work.session.scalars(query).one_or_none()
        if draft_id is not None:
            return shown(work.session, draft_id)
    raise BadInput(_no_draft(store, study, department))


def quarantined(store: PgStore, limit: int = 100) -> list[dict[str, Any]]:
    """The newest bytes that could not be understood: path in the archive, reason, at."""
    query = select(QuarantineRow).order_by(QuarantineRow.received_at.desc()).limit(limit)
    with store.begin() as work:
        return [{"path": row.path, "reason": row.reason, "at": row.received_at} for row in work.session.scalars(query)]


def _overview(row: Row[StudyRow, JobRow, datetime, bool]) -> dict[str, Any]:
    study, job, now, is_open = row[0], _maybe(row[1]), row[2], row[3]
    state = StudyState(study.state)
    arrived = job is not None and state in ARRIVED
    shown_state = job.state if job is not None and arrived else study.state
    ended = job.ended_at if job is not None and arrived and job.ended_at else now
    return {
        "study_uid": study.study_uid,
        "id": str(study.id),
        "state": shown_state,
        "step": step_of(study, job),
        "revision": study.revision,
        "images": study.images,
        "seconds": round((ended - study.first_received).total_seconds(), 3),
        "reason": (_why(job) if job is not None and arrived else _waits_for(study, now, is_open)) or study.reason,
        "completeness": job.completeness if job is not None and arrived else "",
        "evidence": study.evidence,
        "study_state": study.state,
        "job_state": job.state if job is not None else None,
        "attempts": job.attempts if job is not None and arrived else study.attempts,
    }


def _why(job: JobRow) -> str | None:
    """Why the job stands where it does, and what its images lack."""
    return "；".join(part for part in (job.reason, job.completeness and f"{INCOMPLETE}{job.completeness}") if part) or None


def _waits_for(study: StudyRow, now: datetime, is_open: bool) -> str | None:
    """What a study in receiving waits for, as the last verdict or the open association says."""
    if study.state != StudyState.RECEIVING:
        return None
    reasons = study.evidence.get("reasons")
    if study.due_at > now and isinstance(reasons, list):
        return f"{WAITS}{'；'.join(map(str, reasons))}"
    return f"{WAITS}{OPEN}" if is_open else None


def _maybe(job: JobRow | None) -> JobRow | None:
    """An outer join's right side."""
    return job


def _no_draft(store: PgStore, study: str, department: str | None) -> str:
    known = study_overview(store, study)
    if not known:
        return "no study has this UID or id; `ctreport status` lists them"
    one = known[0]
    if department is not None and one["state"] == JobState.DRAFTED:
        return f"study {one['id']} has no draft for '{department}'; `ctreport draft` asks for one, and says why there is none"
    why = f" ({one['reason']})" if one["reason"] else ""
    return f"study {one['id']} has no draft: it is '{one['state']}'{why}; `ctreport why` tells its story"
