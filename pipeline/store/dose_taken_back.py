"""Dose reports that a rejection note takes back: what was read from them counts no more, and the drafts that it concerned are checked again."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from pipeline.irradiation import DoseReportState
from pipeline.store.repository import any_of
from pipeline.store.tables import DoseEventRow, DoseReportRow, InstanceRow, StudyRow

REJECTED = "拒绝说明（IOCM）撤回了此剂量报告，其剂量不计入"


def take_back_doses(session: Session, study_ids: Sequence[UUID], sop_uids: Sequence[str]) -> None:
    """Remove the events of these objects, and let the dose step look at the patients' drafts once more. The patients' other dose reports are read
    again: of an event that two reports tell only one had its row. Idempotent."""
    taken = select(InstanceRow.id).where(InstanceRow.study_id.in_(study_ids), InstanceRow.sop_uid == any_of(sop_uids), InstanceRow.content != "")
    silent = {"synchronize_session": False}
    gone = session.scalars(
        delete(DoseEventRow).where(DoseEventRow.instance_id.in_(taken)).returning(DoseEventRow.patient_id), execution_options=silent
    ).all()
    counted = DoseReportRow.state.in_((DoseReportState.READ.value, DoseReportState.RECHECK.value))
    again = {"state": DoseReportState.RECHECK.value, "due_at": func.now(), "attempts": 0, "events": 0, "reason": REJECTED, "ended_at": None}
    session.execute(update(DoseReportRow).where(DoseReportRow.instance_id.in_(taken), counted).values(**again), execution_options=silent)
    if gone:
        theirs = select(InstanceRow.id).join(StudyRow, StudyRow.id == InstanceRow.study_id)
        others = theirs.where(StudyRow.patient_id.in_(set(gone)), InstanceRow.content != "", InstanceRow.id.not_in(taken))
        reread = {"state": DoseReportState.WAITING.value, "due_at": func.now(), "attempts": 0, "ended_at": None}
        session.execute(update(DoseReportRow).where(DoseReportRow.instance_id.in_(others), counted).values(**reread), execution_options=silent)
