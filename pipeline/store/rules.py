"""Rules and doses as rows."""

from __future__ import annotations

from datetime import date
from types import MappingProxyType
from uuid import UUID

from sqlalchemy import Date, ScalarSelect, cast, exists, func, select

from pipeline.errors import BadInput
from pipeline.model import DoseEvent, DoseRule, RuleSet, StudyState
from pipeline.store.repository import Repository
from pipeline.store.tables import DoseEventRow, DoseRuleRow, RuleTermRow, RuleVersionRow, SeriesRow, StudyRow

# the examination's date, else the day (UTC) on which it arrived
EXAMINED = func.coalesce(StudyRow.study_date, cast(func.timezone("UTC", StudyRow.first_received), Date))


class PgRules(Repository):
    """Rules port on PostgreSQL."""

    def current(self) -> RuleSet:
        """The newest version of all rules; version 0 without any rule where none was ever seeded."""
        version = self.session.scalar(select(func.max(RuleVersionRow.version))) or 0
        terms = select(RuleTermRow.forbidden, RuleTermRow.standard).where(RuleTermRow.version == version).order_by(RuleTermRow.forbidden)
        dose = select(DoseRuleRow).where(DoseRuleRow.version == version).order_by(DoseRuleRow.id)
        return RuleSet(
            version=version,
            terms=MappingProxyType({row.forbidden: row.standard for row in self.session.execute(terms)}),
            dose=tuple(_dose_rule(row) for row in self.session.scalars(dose)),
        )

    def doses(self, study_id: UUID, since: date, until: date) -> tuple[DoseEvent, ...]:
        """Irradiation events of the study's patient with `since` < date <= `until`, oldest first, each once."""
        query = (
            select(DoseEventRow)
            .where(DoseEventRow.patient_id == _patient(study_id), DoseEventRow.exam_date > since, DoseEventRow.exam_date <= until)
            .order_by(DoseEventRow.exam_date, DoseEventRow.event_uid)
        )
        return tuple(DoseEvent(row.event_uid, row.exam_date, row.region, row.dlp_mgy_cm, row.msv) for row in self.session.scalars(query))

    def studies_without_dose(self, study_id: UUID, since: date, until: date) -> int:
        """The patient's CT studies in the same window without any dose event; withdrawn ones do not count."""
        has_ct = exists().where(SeriesRow.study_id == StudyRow.id, SeriesRow.modality == "CT")
        has_dose = exists().where(DoseEventRow.study_id == StudyRow.id)
        query = (
            select(func.count())
            .select_from(StudyRow)
            .where(StudyRow.patient_id == _patient(study_id), StudyRow.state != StudyState.WITHDRAWN.value)
            .where(since < EXAMINED, until >= EXAMINED, has_ct, ~has_dose)
        )
        return self.session.execute(query).scalar_one()

    def study_date(self, study_id: UUID) -> date:
        """Examination date; the day of arrival (UTC) where the header has none. Raises BadInput for an unknown study."""
        found = self.session.execute(select(EXAMINED).where(StudyRow.id == study_id)).scalar_one_or_none()
        if not isinstance(found, date):
            raise BadInput(f"there is no study {study_id}; `ctreport status` lists what there is")
        return found


def _patient(study_id: UUID) -> ScalarSelect[UUID]:
    return select(StudyRow.patient_id).where(StudyRow.id == study_id).correlate(None).scalar_subquery()


def _dose_rule(row: DoseRuleRow) -> DoseRule:
    return DoseRule(row.id, row.version, row.window_months, row.threshold_msv, tuple(row.triggers), row.message)
