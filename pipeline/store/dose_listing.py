"""The read side of doses, for `ctreport dose --patient`: every event of a patient, and the examinations that have none."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import exists, select
from sqlalchemy.orm import Session

from pipeline.errors import BadInput
from pipeline.irradiation import DoseReportState
from pipeline.model import StudyState
from pipeline.store.doses import EXAMINED
from pipeline.store.repository import plain
from pipeline.store.session import PgStore
from pipeline.store.tables import DoseEventRow, DoseReportRow, InstanceRow, PatientRow, SeriesRow, StudyRow

NO_REPORT = "no dose report has come, and the images' headers give no CTDIvol"
AWAITED = "its dose report waits to be read"


def patient_doses(store: PgStore, patient_id: str, issuer: str | None = None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Events, oldest first, and CT examinations without dose, each with the reason. Raises BadInput for an unknown id, or one that several have."""
    with store.begin() as work:
        patient = _patient(work.session, patient_id, issuer)
        query = select(DoseEventRow).where(DoseEventRow.patient_id == patient).order_by(DoseEventRow.exam_date, DoseEventRow.event_uid)
        events = [_event(row) for row in work.session.scalars(query)]
        return events, _missing(work.session, patient)


def _patient(session: Session, patient_id: str, issuer: str | None) -> UUID:
    query = select(PatientRow.id).where(PatientRow.patient_id == plain(patient_id))
    found = session.scalars(query if issuer is None else query.where(PatientRow.issuer == plain(issuer))).all()
    if len(found) > 1:
        raise BadInput(f"{len(found)} patients have this id, of different issuers or birth dates; give --issuer ('' for the one without)")
    if not found:
        raise BadInput("no patient has this id (and issuer); `ctreport status` lists the studies that there are")
    return found[0]


def _event(row: DoseEventRow) -> dict[str, Any]:
    return {
        "source": row.source,
        "region": row.region or None,
        "ctdivol_mgy": row.ctdivol_mgy,
        "dlp_mgy_cm": row.dlp_mgy_cm,
        "k": row.k,
        "msv": row.msv,
        "notes": list(row.notes),
        "event_uid": row.event_uid,
        "date": row.exam_date.isoformat(),
        "phantom_cm": row.phantom_cm,
        "doubt": row.doubt or None,
    }


def _missing(session: Session, patient: UUID) -> list[dict[str, Any]]:
    """CT studies without any event; the reason is that of their dose object where one came."""
    has_ct = exists().where(SeriesRow.study_id == StudyRow.id, SeriesRow.modality == "CT")
    has_dose = exists().where(DoseEventRow.study_id == StudyRow.id)
    query = select(StudyRow.id, EXAMINED).where(StudyRow.patient_id == patient, StudyRow.state != StudyState.WITHDRAWN.value, has_ct, ~has_dose)
    return [{"study": str(one), "date": day.isoformat(), "reason": _reason(session, one)} for one, day in session.execute(query.order_by(EXAMINED))]


def _reason(session: Session, study: UUID) -> str:
    query = select(DoseReportRow.state, DoseReportRow.reason).join(InstanceRow, InstanceRow.id == DoseReportRow.instance_id)
    found = session.execute(query.where(InstanceRow.study_id == study)).all()
    if any(state in (DoseReportState.WAITING.value, DoseReportState.RECHECK.value) for state, _ in found):
        return AWAITED
    return "；".join(dict.fromkeys(reason for _, reason in found if reason)) or NO_REPORT
