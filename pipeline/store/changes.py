"""Differences between a draft and the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import Select, insert, select
from sqlalchemy.orm import Session

from pipeline.model import Job, Report
from pipeline.renewing import NOTED, Cause, Change
from pipeline.store.repository import plain
from pipeline.store.tables import ChangeRow, DraftRow, JobRow

SECTIONS = {"检查所见": "findings_text", "诊断意见": "impression", "建议": "advice"}


def note(session: Session, draft_id: UUID, cause: Cause, changes: Sequence[Change], *, applied: bool) -> None:
    """Keep the differences, to be shown."""
    if changes:
        shared = {"draft_id": draft_id, "cause": cause.value, "applied": applied}
        rows = [{**shared, "section": one.section, "before": plain(one.before), "after": plain(one.after)} for one in changes]
        session.execute(insert(ChangeRow), rows)


def note_since_earlier(session: Session, job: Job, draft_id: UUID, department: str, report: Report) -> None:
    """Keep what is new in a draft against the one of the revision before."""
    if job.cause not in NOTED:
        return
    found = session.execute(before(job.study_id, job.revision, department)).one_or_none()
    if found is not None:
        old = {section: getattr(found[0], column) for section, column in SECTIONS.items()}
        changes = [Change(name, old[name], text) for name, text in report.sections().items() if old[name] != plain(text)]
        note(session, draft_id, Cause(job.cause), changes, applied=True)


def before(study_id: UUID, revision: int, department: str) -> Select[DraftRow, JobRow]:
    """The department's newest draft of an earlier revision, with its job."""
    query = select(DraftRow, JobRow).join(JobRow, JobRow.id == DraftRow.job_id)
    mine = (JobRow.study_id == study_id) & (JobRow.revision < revision) & (DraftRow.department == department)
    return query.where(mine).order_by(JobRow.revision.desc()).limit(1)


def changes_of(session: Session, draft_id: UUID) -> list[dict[str, object]]:
    """As `ctreport show` gives them, the oldest first."""
    rows = session.scalars(select(ChangeRow).where(ChangeRow.draft_id == draft_id).order_by(ChangeRow.id))
    names = ("cause", "section", "before", "after", "applied")
    return [{"at": row.at.isoformat(), **{name: getattr(row, name) for name in names}} for row in rows]
