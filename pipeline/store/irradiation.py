"""Irradiation events as rows, each once: of two with one UID the stronger source stands, then the larger dose, whatever the order of arrival."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import and_, delete, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.irradiation import DoseFactor, DoseSource, WeighedDose
from pipeline.store.doses import EXAMINED, DoseHistory, patient_of
from pipeline.store.repository import Repository, any_of, plain, plain_list
from pipeline.store.tables import DoseEventRow, StudyRow

EVENT_BY_EVENT = DoseSource.ENHANCED_SR.strength  # and above: such sources agree on UIDs, the weaker ones only on the study
TWO_PATIENTS = "同一照射事件也记在另一患者名下"


class Irradiations(Repository):
    """The rows of irradiation events."""

    def factors(self) -> tuple[DoseFactor, ...]:
        """The factors k in force."""
        return DoseHistory(self.session).factors()

    def record(self, study_id: UUID, study_uid: str, instance_id: UUID | None, events: Sequence[WeighedDose], doubt: str = "") -> int:
        """Store events; see the Doses port."""
        study = self._locked(study_id, study_uid)
        if not events or not self._give_way(study.id, events):
            return 0
        rows = [_values(one, study, instance_id, doubt) for one in sorted(events, key=lambda one: one.event.event_uid)]
        changed = sum(self._upsert(row) for row in rows)
        self._doubt_shared([str(row["event_uid"]) for row in rows], study.patient_id)
        return changed

    def _locked(self, study_id: UUID, study_uid: str) -> StudyRow:
        """The patient's study that the report sums up, where it is here; else the one that it came under. Locked: one at a time records for it."""
        theirs = and_(StudyRow.study_uid == plain(study_uid), StudyRow.patient_id == patient_of(study_id))
        query = select(StudyRow).where(or_(StudyRow.id == study_id, theirs)).order_by(StudyRow.id).with_for_update(key_share=True)
        rows = self.session.scalars(query, execution_options={"populate_existing": True}).all()
        return next((row for row in rows if row.study_uid == plain(study_uid)), rows[0])

    def _give_way(self, study_id: UUID, events: Sequence[WeighedDose]) -> bool:
        """A report with events drives out sums and estimates of the same study; those give way to what is stronger. False when these must."""
        of_study, strength = DoseEventRow.study_id == study_id, min(one.event.source.strength for one in events)
        if strength < EVENT_BY_EVENT:
            stronger = exists().where(of_study, DoseEventRow.strength > strength)
            if self.session.execute(select(stronger)).scalar_one():
                return False
        if any(one.msv is not None for one in events):  # figures that nobody can use drive out nothing
            weaker = delete(DoseEventRow).where(of_study, DoseEventRow.strength.between(1, min(strength, EVENT_BY_EVENT) - 1))
            self.session.execute(weaker, execution_options={"synchronize_session": False})
        return True

    def _upsert(self, values: dict[str, Any]) -> int:
        """1 when the row is new or took the place of a weaker one."""
        row = insert(DoseEventRow).values(id=uuid4(), **values)
        new, old = row.excluded, DoseEventRow
        larger = func.coalesce(new.dlp_mgy_cm, -1.0) > func.coalesce(old.dlp_mgy_cm, -1.0)
        better = or_(new.strength > old.strength, and_(new.strength == old.strength, larger))
        taken = {name: getattr(new, name) for name in values if name not in ("patient_id", "event_uid")} | {"recorded_at": func.now()}
        stored = row.on_conflict_do_update(index_elements=["patient_id", "event_uid"], set_=taken, where=better).returning(DoseEventRow.id)
        return int(self.session.execute(stored).first() is not None)

    def _doubt_shared(self, uids: Sequence[str], patient_id: UUID) -> None:
        """An event that two patients are said to have had is doubtful for both: one of them did not."""
        shared = select(DoseEventRow.event_uid).where(DoseEventRow.event_uid == any_of(uids), DoseEventRow.patient_id != patient_id)
        both = update(DoseEventRow).where(DoseEventRow.event_uid.in_(shared), DoseEventRow.doubt == "").values(doubt=TWO_PATIENTS)
        self.session.execute(both, execution_options={"synchronize_session": False})


def _values(one: WeighedDose, study: StudyRow, instance_id: UUID | None, doubt: str) -> dict[str, Any]:
    """The event's row. It counts on the day of its examination; a study without a date takes that of the irradiation."""
    event = one.event
    irradiated = event.started.date() if event.started is not None else None
    examined = select(func.coalesce(StudyRow.study_date, irradiated, EXAMINED)).where(StudyRow.id == study.id).correlate(None).scalar_subquery()
    return {
        "event_uid": plain(event.event_uid),
        "patient_id": study.patient_id,
        "study_id": study.id,
        "instance_id": instance_id,
        "exam_date": examined,
        "region": event.region,
        "ctdivol_mgy": event.ctdivol_mgy,
        "phantom_cm": event.phantom_cm,
        "dlp_mgy_cm": event.dlp_mgy_cm,
        "k": one.k,
        "msv": one.msv,
        "source": event.source.value,
        "strength": event.source.strength,
        "doubt": plain(doubt),
        "notes": plain_list(one.notes),
    }
