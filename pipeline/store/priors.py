"""The patient's earlier examinations as their reports have them: one query, by the index of the patient's studies."""

from __future__ import annotations

from datetime import date
from itertools import groupby
from typing import Any
from uuid import UUID

from sqlalchemy import Select, and_, or_, select

from pipeline.checking import Prior, Spot
from pipeline.model import Frame, JobState, ReportState, Side, StudyState
from pipeline.store.doses import EXAMINED, patient_of
from pipeline.store.repository import Repository
from pipeline.store.tables import DraftCandidateRow, DraftFrameRow, JobRow, ReportRow, StudyRow

SIGNED = (ReportState.SIGNED.value, ReportState.AMENDED.value)


class Priors(Repository):
    """The part of the Rules port that reads earlier examinations."""

    def priors(self, study_id: UUID, before: date) -> tuple[Prior, ...]:
        """Examinations of the study's patient on days before `before`, the newest first: each with its signed report, else its newest draft."""
        rows = self.session.execute(priors_query(study_id, before)).all()
        reports = [list(group) for _, group in groupby(rows, key=lambda row: row.report)]
        best: dict[UUID, Prior] = {}
        for found in reports:
            best.setdefault(found[0].study, _prior(found))
        return tuple(best.values())


def priors_query(study_id: UUID, before: date) -> Select[Any]:
    """Examination by examination, its best report first; one row per region of a report."""
    signed = ReportRow.state.in_(SIGNED)
    stands = or_(signed, and_(JobRow.state == JobState.DRAFTED.value, ReportRow.state != ReportState.REJECTED.value))
    region = (DraftCandidateRow.index, DraftCandidateRow.kind, DraftCandidateRow.center_mm, DraftCandidateRow.side, DraftCandidateRow.lobe)
    frame = (DraftFrameRow.lungs_mm, DraftFrameRow.midline_mm, DraftFrameRow.step_mm, DraftFrameRow.thickness_mm, DraftFrameRow.covers)
    return (
        select(StudyRow.id.label("study"), ReportRow.id.label("report"), EXAMINED.label("day"), signed.label("signed"), *frame, *region)
        .add_columns(DraftCandidateRow.size_mm, DraftCandidateRow.stated_mm)
        .join(ReportRow, ReportRow.study_id == StudyRow.id)
        .join(JobRow, and_(JobRow.study_id == StudyRow.id, JobRow.revision == ReportRow.revision))
        .outerjoin(DraftFrameRow, DraftFrameRow.draft_id == ReportRow.draft_id)
        .outerjoin(DraftCandidateRow, DraftCandidateRow.draft_id == ReportRow.draft_id)
        .where(StudyRow.patient_id == patient_of(study_id), StudyRow.state != StudyState.WITHDRAWN.value, before > EXAMINED, stands)
        .order_by(EXAMINED.desc(), StudyRow.id, signed.desc(), ReportRow.revision.desc(), ReportRow.id, DraftCandidateRow.index)
    )


def _prior(rows: list[Any]) -> Prior:
    first = rows[0]
    frame = None
    if first.lungs_mm is not None:
        x0, y0, z0, x1, y1, z1 = first.lungs_mm
        frame = Frame((x0, y0, z0, x1, y1, z1), first.midline_mm, first.step_mm, first.thickness_mm)
    return Prior(first.day, first.signed, tuple(_spot(row) for row in rows if row.index is not None), frame, tuple(first.covers or ()))


def _spot(row: Any) -> Spot:
    x, y, z = row.center_mm
    return Spot(row.index, row.kind, (x, y, z), Side(row.side), row.lobe, row.size_mm, row.stated_mm)
