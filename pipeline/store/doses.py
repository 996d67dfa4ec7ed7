"""What a patient has had: the events of a window, the studies without any, and the rules and factors as rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date
from uuid import UUID

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Date,
    ScalarSelect,
    Select,
    Uuid,
    bindparam,
    cast,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
)
from sqlalchemy.orm import Session, aliased

from pipeline.errors import BadInput
from pipeline.irradiation import DoseEvent, DoseFactor, DoseRule
from pipeline.model import StudyState
from pipeline.store.repository import Repository, plain
from pipeline.store.tables import DoseEventRow, DoseFactorRow, DoseRuleRow, PatientRow, RuleVersionRow, SeriesRow, StudyRow

# the examination's date, else the day (UTC) on which it arrived
EXAMINED = func.coalesce(StudyRow.study_date, cast(func.timezone("UTC", StudyRow.first_received), Date))
DAYS_PER_YEAR = 365.2425
SPLIT = "同一患者号下有出生日期不同的记录"
IN_WINDOW = (
    DoseEventRow.event_uid,
    DoseEventRow.exam_date,
    DoseEventRow.region,
    DoseEventRow.dlp_mgy_cm,
    DoseEventRow.msv,
    DoseEventRow.k,
    DoseEventRow.doubt,
    DoseEventRow.source,
)


def window(
    patient: ColumnElement[UUID] | ScalarSelect[UUID], since: date | BindParameter[date], until: date | BindParameter[date]
) -> Select[str, date, str, float | None, float | None, float | None, str, str]:
    """One patient's events with `since` < date <= `until`: all of it stands in one index."""
    inside = (DoseEventRow.patient_id == patient, DoseEventRow.exam_date > since, DoseEventRow.exam_date <= until)
    return select(*IN_WINDOW).where(*inside)


class DoseHistory(Repository):
    """The part of the Rules port that reads doses."""

    def doses(self, study_id: UUID, since: date, until: date) -> tuple[DoseEvent, ...]:
        """Irradiation events of the study's patient with `since` < date <= `until`, oldest first, each once; with them, in doubt, those of patients
        that the register keeps apart under the same id for another birth date."""
        of_study = {"study": study_id, "since": since, "until": until}
        events = [_event(*row) for row in self.session.execute(OF_STUDY, of_study)]
        for other in self.session.scalars(NAMESAKES, {"study": study_id}).all():
            events += [_event(*row, parted=SPLIT) for row in self.session.execute(window(literal(other), since, until))]
        return tuple(sorted(events, key=lambda event: (event.when, event.event_uid)))

    def studies_without_dose(self, study_id: UUID, since: date, until: date) -> tuple[date, ...]:
        """Dates of the patient's CT studies in the same window without any dose event; withdrawn ones do not count."""
        has_ct = exists().where(SeriesRow.study_id == StudyRow.id, SeriesRow.modality == "CT")
        has_dose = exists().where(DoseEventRow.study_id == StudyRow.id)
        query = (
            select(EXAMINED)
            .where(StudyRow.patient_id == patient_of(study_id), StudyRow.state != StudyState.WITHDRAWN.value)
            .where(since < EXAMINED, until >= EXAMINED, has_ct, ~has_dose)
            .order_by(EXAMINED)
        )
        return tuple(self.session.scalars(query))

    def study_date(self, study_id: UUID) -> date:
        """Examination date; the day of arrival (UTC) where the header has none. Raises BadInput for an unknown study."""
        found = self.session.execute(select(EXAMINED).where(StudyRow.id == study_id)).scalar_one_or_none()
        if not isinstance(found, date):
            raise BadInput(f"there is no study {study_id}; `ctreport status` lists what there is")
        return found

    def age_years(self, study_id: UUID) -> float | None:
        """Age at the examination; None without a birth date, or with one after it."""
        query = select(PatientRow.birth_date, EXAMINED).join(StudyRow, StudyRow.patient_id == PatientRow.id).where(StudyRow.id == study_id)
        born, day = self.session.execute(query).one_or_none() or (None, None)
        return None if born is None or day is None or day < born else (day - born).days / DAYS_PER_YEAR

    def sex(self, study_id: UUID) -> str:
        """PatientSex as the header says it; empty where it does not."""
        query = select(PatientRow.sex).join(StudyRow, StudyRow.patient_id == PatientRow.id).where(StudyRow.id == study_id)
        return self.session.scalars(query).one_or_none() or ""

    def factors(self) -> tuple[DoseFactor, ...]:
        """The factors k of the newest version of the rules."""
        newest = select(func.max(RuleVersionRow.version)).scalar_subquery()
        rows = self.session.scalars(select(DoseFactorRow).where(DoseFactorRow.version == newest))
        return tuple(DoseFactor(row.region, row.age_years, row.phantom_cm, row.k, row.source) for row in rows)


def set_dose(session: Session, rows: Sequence[DoseRule], version: int) -> None:
    """Make `rows` the dose rules of a version that is being written, in place of those copied into it."""
    session.execute(delete(DoseRuleRow).where(DoseRuleRow.version == version))
    if rows:
        session.execute(insert(DoseRuleRow), [_rule_values(rule, version) for rule in rows])


def set_factors(session: Session, rows: Sequence[DoseFactor], version: int) -> None:
    """Make `rows` the dose factors of a version that is being written. Events that were read before keep the k they were read with."""
    session.execute(delete(DoseFactorRow).where(DoseFactorRow.version == version))
    if rows:
        session.execute(insert(DoseFactorRow), [_factor_values(row, version) for row in rows])


def dose_rules(session: Session, version: int) -> tuple[DoseRule, ...]:
    """The dose rules of one version, by id."""
    rows = session.scalars(select(DoseRuleRow).where(DoseRuleRow.version == version).order_by(DoseRuleRow.id))
    return tuple(map(_dose_rule, rows))


def _dose_rule(row: DoseRuleRow) -> DoseRule:
    limits = {"min_age_years": row.min_age_years, "max_age_years": row.max_age_years}
    return DoseRule(row.id, row.version, row.window_months, row.threshold_msv, tuple(row.triggers), row.message, row.region, **limits)


def patient_of(study_id: UUID | BindParameter[UUID]) -> ScalarSelect[UUID]:
    """The patient row of a study."""
    return select(StudyRow.patient_id).where(StudyRow.id == study_id).correlate(None).scalar_subquery()


def _namesakes(study_id: BindParameter[UUID]) -> Select[UUID]:
    """Patients of the same id whom only the birth date parted (the receive step then puts the study's UID in the issuer's place)."""
    mine, other = aliased(PatientRow), aliased(PatientRow)
    parted = or_(*(exists().where(StudyRow.patient_id == one.id, StudyRow.study_uid == one.issuer).correlate(one) for one in (mine, other)))
    same_id = (mine.id == patient_of(study_id)) & (mine.patient_id != "") & (other.patient_id == mine.patient_id) & (other.id != mine.id)
    return select(other.id).select_from(mine).join(other, same_id).where(parted)


def _event(
    uid: str, when: date, region: str, dlp: float | None, msv: float | None, k: float | None, doubt: str, source: str, parted: str = ""
) -> DoseEvent:
    return DoseEvent(uid, when, region, _or_nan(dlp), _or_nan(msv), k, doubt or parted, source)


def _or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def _rule_values(rule: DoseRule, version: int) -> dict[str, object]:
    return {
        "version": version,
        "id": plain(rule.id),
        "window_months": rule.window_months,
        "threshold_msv": rule.threshold_msv,
        "triggers": [plain(trigger) for trigger in rule.triggers],
        "message": plain(rule.message),
        "region": plain(rule.region),
        "min_age_years": rule.min_age_years,
        "max_age_years": rule.max_age_years,
    }


def _factor_values(row: DoseFactor, version: int) -> dict[str, object]:
    return {
        "version": version,
        "region": plain(row.region),
        "age_years": row.age_years,
        "phantom_cm": row.phantom_cm,
        "k": row.k,
        "source": plain(row.source),
    }


# built once: making such statements takes longer than running them
_STUDY = bindparam("study", type_=Uuid())
OF_STUDY = window(patient_of(_STUDY), bindparam("since", type_=Date()), bindparam("until", type_=Date()))
NAMESAKES = _namesakes(_STUDY)
