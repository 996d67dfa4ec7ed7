"""The dead-letter list: what failed and waits for a person, each with its reason and what to do next."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from pipeline.model import JobState, RequestState
from pipeline.store.repository import fixed
from pipeline.store.session import PgStore
from pipeline.store.tables import DeliveryRow, DeliveryState, JobRow, RequestRow, StudyRow

RETRY, ASK, FOLDER = "ctreport retry", "ctreport draft", "look at the delivery folder, then `ctreport rerun`"


def dead_letters(store: PgStore, limit: int = 1000) -> list[dict[str, Any]]:
    """The newest `limit` failures of each kind, newest first: kind (encode, draft, request, deliver), study_uid, id, at, attempts, reason, next."""
    with store.begin() as work:
        session = work.session
        current = (StudyRow.id == JobRow.study_id) & (StudyRow.revision == JobRow.revision)
        jobs = select(JobRow, StudyRow.study_uid).join(StudyRow, current).where(JobRow.state == fixed(JobState.FAILED))
        asked = select(RequestRow, StudyRow.study_uid).join(
            StudyRow, (StudyRow.id == RequestRow.study_id) & (StudyRow.revision == RequestRow.revision)
        )
        undelivered = select(DeliveryRow, StudyRow.study_uid).join(StudyRow, StudyRow.id == DeliveryRow.study_id)
        found = [_job(job, uid) for job, uid in session.execute(jobs.order_by(JobRow.ended_at.desc()).limit(limit))]
        unwritten = asked.where(RequestRow.state == RequestState.FAILED.value).order_by(RequestRow.ended_at.desc()).limit(limit)
        found += [
            _letter("request", uid, row.ended_at, row.attempts, f"{row.department}: {row.reason}", ASK) for row, uid in session.execute(unwritten)
        ]
        failed = undelivered.where(DeliveryRow.state == DeliveryState.FAILED.value, DeliveryRow.attempts > 0)
        for row, uid in session.execute(failed.order_by(DeliveryRow.created_at.desc()).limit(limit)):
            found.append(_letter("deliver", uid, row.created_at, row.attempts, row.reason, FOLDER))
    return sorted(found, key=lambda letter: letter["at"], reverse=True)


def _job(job: JobRow, study_uid: str) -> dict[str, Any]:
    return _letter("encode" if job.features_path is None else "draft", study_uid, job.ended_at, job.attempts, job.reason, RETRY)


def _letter(kind: str, study_uid: str, at: Any, attempts: int, reason: str | None, after: str) -> dict[str, Any]:
    return {"kind": kind, "study_uid": study_uid, "at": at, "attempts": attempts, "reason": reason or "", "next": after}
