"""Names and texts whose character set had to be guessed: listed until a person has looked, and confirmed or corrected then."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from pipeline.errors import BadInput
from pipeline.store.repository import plain
from pipeline.store.session import PgStore
from pipeline.store.tables import InstanceRow, PatientRow, StudyRow

NAME_WAITS = PatientRow.name_guess & PatientRow.name_confirmed_at.is_(None)
TEXT_WAITS = StudyRow.text_guess & StudyRow.text_confirmed_at.is_(None)
LONGEST_NAME = 324  # three groups of 64 characters in five parts, as the header reader cuts it
ACTION = "identity_confirmed"


def guesses(store: PgStore, limit: int = 1000) -> list[dict[str, Any]]:
    """Every guess that no person has confirmed, oldest first: `row` is what confirm() takes, `what` is name or text, `file` one image of it."""
    names = select(PatientRow).where(NAME_WAITS).order_by(PatientRow.created_at).limit(limit)
    texts = select(StudyRow).where(TEXT_WAITS).order_by(StudyRow.first_received).limit(limit)
    with store.begin() as work:
        return [
            *(_name(work.session, patient) for patient in work.session.scalars(names)),
            *(_text(work.session, study) for study in work.session.scalars(texts)),
        ]


def waiting(store: PgStore) -> int:
    """How many guesses wait for a person."""
    with store.begin() as work:
        names = select(func.count()).select_from(PatientRow).where(NAME_WAITS)
        texts = select(func.count()).select_from(StudyRow).where(TEXT_WAITS)
        return work.session.execute(names).scalar_one() + work.session.execute(texts).scalar_one()


def confirm(store: PgStore, row: str, by: str, name: str | None = None) -> dict[str, Any]:
    """A person has looked: the guess of a patient's name (right as it is, or `name`) or of a study's texts stands. Audited. Raises BadInput."""
    if not by.strip():
        raise BadInput("a confirmation needs the person who makes it: --by WHO")
    try:
        row_id = UUID(row)
    except ValueError as error:
        raise BadInput("this is no row id; `ctreport identity --guesses` lists them") from error
    with store.begin() as work:
        patient = work.session.get(PatientRow, row_id, with_for_update=True)
        study = work.session.get(StudyRow, row_id, with_for_update={"key_share": True}) if patient is None else None
        if patient is not None:
            answer = _confirm_name(patient, by, name)
            studies = list(work.session.scalars(select(StudyRow.id).where(StudyRow.patient_id == row_id)))
        elif study is not None:
            answer = _confirm_text(study, by, name)
            studies = [study.id]
        else:
            raise BadInput("no patient and no study has this row id; `ctreport identity --guesses` lists them")
        for study_id in studies:  # the trail names neither the old text nor the new one
            work.audit.append(ACTION, study_id=study_id, actor=by, what=answer["what"], changed=str(answer["changed"]).lower())
        return answer


def _confirm_name(patient: PatientRow, by: str, name: str | None) -> dict[str, Any]:
    if not patient.name_guess:
        raise BadInput("this patient's name is no guess: it was right under its label, and is corrected where it comes from")
    before, after = patient.name, plain(name).strip()[:LONGEST_NAME] if name is not None else patient.name
    if not after:
        raise BadInput("a name cannot be empty; leave --name out to confirm the one that is there")
    patient.name, patient.name_confirmed_by = after, plain(by)
    _now(patient, "name_confirmed_at")
    return {"row": str(patient.id), "what": "name", "before": before, "after": after, "changed": after != before, "by": by}


def _confirm_text(study: StudyRow, by: str, name: str | None) -> dict[str, Any]:
    if name is not None:
        raise BadInput("this row is a study whose texts are a guess; --name is for patients")
    if not study.text_guess:
        raise BadInput("the texts of this study are no guess; there is nothing to confirm")
    study.text_confirmed_by = plain(by)
    _now(study, "text_confirmed_at")
    return {"row": str(study.id), "what": "text", "before": study.description, "after": study.description, "changed": False, "by": by}


def _now(row: PatientRow | StudyRow, column: str) -> None:
    """The database's clock."""
    setattr(row, column, func.now())


def _name(session: Session, patient: PatientRow) -> dict[str, Any]:
    studies = session.execute(
        select(StudyRow.id, StudyRow.study_uid).where(StudyRow.patient_id == patient.id).order_by(StudyRow.first_received)
    ).all()
    file = _file(session, studies[0][0]) if studies else None
    seen = {"patient_name": patient.name, "charset": patient.name_charset, "patient_id": patient.patient_id}
    return {"row": str(patient.id), "what": "name", **seen, "study_uids": [uid for _, uid in studies], "file": file}


def _text(session: Session, study: StudyRow) -> dict[str, Any]:
    seen = {"description": study.description, "indication": study.indication}
    return {"row": str(study.id), "what": "text", **seen, "study_uids": [study.study_uid], "file": _file(session, study.id)}


def _file(session: Session, study_id: UUID) -> str | None:
    """Archive-relative path of one image, for whoever wants to see the bytes."""
    return session.scalars(select(InstanceRow.path).where(InstanceRow.study_id == study_id, InstanceRow.is_first).limit(1)).first()
