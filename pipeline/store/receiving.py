"""Receive: file one instance. Every association locks the study's row first, so that any number of them cannot deadlock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid4

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.errors import BadInput
from pipeline.model import Header, Stored, StudyState
from pipeline.ports import Filing, Registered
from pipeline.store.repository import Repository, plain, plain_list
from pipeline.store.tables import AssociationRow, InstanceRow, PatientRow, QuarantineRow, SeriesRow, StudyAssociationRow, StudyRow

CONFLICTING = "conflicting-bytes"
PATIENT_DIFFERS = "patient-id-differs"
CONFLICT_REASON = "other bytes arrived under a known SOPInstanceUID; they are kept beside the first, which is the one that is read"
PATIENT_REASON = "an image names another PatientID than the first one of the study; look whether two patients are mixed, then go on or withdraw"
REOPENED = frozenset({StudyState.COMPLETE, StudyState.PARTIAL})


class Receiving(Repository):
    """The receive step's rows."""

    def register(self, header: Header, association: UUID | None) -> Registered:
        """File one instance; see the Studies port."""
        study, patient_id = self._study(header)
        differs = plain(header.patient.patient_id) != patient_id
        series_id = self._series_id(study.id, header)
        filing = self._file(study.id, series_id, header, association, (PATIENT_DIFFERS,) if differs else ())
        if filing is Filing.NEW:
            self._restart_clock(study, header)
            self._link(study.id, association)
        elif filing is Filing.CONFLICT and study.state != StudyState.HELD:
            self.session.execute(update(StudyRow).where(StudyRow.id == study.id).values(reason=CONFLICT_REASON))
        if differs and filing is not Filing.SAME and study.state != StudyState.HELD:
            self.session.execute(update(StudyRow).where(StudyRow.id == study.id).values(reason=PATIENT_REASON))
        return Registered(study.id, filing, differs)

    def quarantined(self, stored: Stored, reason: str, association: UUID | None) -> None:
        """Note bytes that could not be understood."""
        values = {"path": stored.path, "sha256": stored.sha256, "size_bytes": stored.size_bytes, "reason": plain(reason)}
        self.session.execute(insert(QuarantineRow).values(**values, id=uuid4(), association_id=association))

    def open_association(self, association: UUID, listener: str, calling_aet: str, host: str) -> None:
        """Note that an association began. Idempotent."""
        values = {"id": association, "listener": plain(listener), "calling_aet": plain(calling_aet), "host": plain(host)}
        self.session.execute(insert(AssociationRow).values(**values).on_conflict_do_nothing())

    def close_association(self, association: UUID, how: str) -> None:
        """Note how it ended: released, aborted or lost. The first word stands."""
        open_one = (AssociationRow.id == association) & AssociationRow.closed_at.is_(None)
        self.session.execute(update(AssociationRow).where(open_one).values(closed_at=func.now(), how=how))

    def close_orphans(self, listener: str) -> int:
        """Close as lost what an earlier process of this listener left open; returns how many."""
        orphans = (AssociationRow.listener == listener) & AssociationRow.closed_at.is_(None)
        closed = self.session.execute(update(AssociationRow).where(orphans).values(closed_at=func.now(), how="lost").returning(AssociationRow.id))
        return len(closed.all())

    def _study(self, header: Header) -> tuple[StudyRow, str]:
        """The study's row, locked until the end of the transaction, and its patient's PatientID."""
        found = self._locked(header)
        if found is None:
            self._create(header)
            found = self._locked(header)
        if found is None:
            raise BadInput("a study vanished while its image was registered; send the image again")
        return found

    def _locked(self, header: Header) -> tuple[StudyRow, str] | None:
        query = (
            select(StudyRow, PatientRow.patient_id)
            .join(PatientRow, PatientRow.id == StudyRow.patient_id)
            .where(StudyRow.study_uid == plain(header.instance.study_uid))
            .with_for_update(of=StudyRow, key_share=True)
            .execution_options(populate_existing=True)
        )
        found = self.session.execute(query).one_or_none()
        return None if found is None else (found[0], found[1])

    def _create(self, header: Header) -> None:
        """Patient and study, unless another association was faster."""
        values = {
            "study_uid": plain(header.instance.study_uid),
            "patient_id": self._patient(header),
            "accession": plain(header.accession),
            "study_date": header.study_date,
            "description": plain(header.study_description),
            "indication": plain(header.indication),
            "station": plain(header.station),
            "priority": int(header.priority),
        }
        self.session.execute(insert(StudyRow).values(**values).on_conflict_do_nothing())

    def _patient(self, header: Header) -> UUID:
        patient = header.patient
        key = {"patient_id": plain(patient.patient_id), "issuer": plain(patient.issuer)}
        if not key["patient_id"]:  # two strangers without an id are not one patient
            key["issuer"] = plain(header.instance.study_uid)
        rest = {"name": plain(patient.name), "name_guess": patient.name_guess, "birth_date": patient.birth_date, "sex": plain(patient.sex)}
        self.session.execute(insert(PatientRow).values(**key, **rest).on_conflict_do_nothing())
        return self.session.execute(select(PatientRow.id).filter_by(**key)).scalar_one()

    def _series_id(self, study_id: UUID, header: Header) -> UUID:
        key = {"study_id": study_id, "series_uid": plain(header.instance.series_uid)}
        known = self.session.execute(select(SeriesRow.id).filter_by(**key)).scalar_one_or_none()
        if known is not None:
            return known
        values = {
            "modality": plain(header.instance.modality),
            "description": plain(header.series_description),
            "body_part": plain(header.body_part),
            "kernel": plain(header.kernel),
            "thickness_mm": header.thickness_mm,
        }
        return self.session.execute(insert(SeriesRow).values(**key, **values).returning(SeriesRow.id)).scalar_one()

    def _file(self, study_id: UUID, series_id: UUID, header: Header, association: UUID | None, flags: tuple[str, ...]) -> Filing:
        """Insert the instance. The second look is for another *study's* association that inserted the same SOPInstanceUID meanwhile."""
        instance = header.instance
        for _ in range(3):
            known = set(self.session.scalars(select(InstanceRow.sha256).where(InstanceRow.sop_uid == plain(instance.sop_uid))))
            if instance.sha256 in known:
                return Filing.SAME
            marks = (*instance.flags, *flags, CONFLICTING) if known else (*instance.flags, *flags)
            values = _instance_values(header) | {"study_id": study_id, "series_id": series_id, "association_id": association}
            values |= {"is_first": not known, "flags": plain_list(marks)}
            if self.session.execute(insert(InstanceRow).values(**values).on_conflict_do_nothing().returning(InstanceRow.id)).first():
                return Filing.CONFLICT if known else Filing.NEW
        raise BadInput("the same SOPInstanceUID arrived three times at once with different bytes; send the image again")

    def _restart_clock(self, study: StudyRow, header: Header) -> None:
        """A new image: count it, take the study back from whoever assembles it, and reopen it unless an operator holds it."""
        state = StudyState(study.state)
        values: dict[str, Any] = {
            "images": StudyRow.images + 1,
            "last_received": func.clock_timestamp(),  # not now(): that is when the transaction began, before it waited for the lock
            "due_at": func.now(),
            "attempts": 0,
            "lease_owner": None,
            "lease_until": None,
            "priority": min(study.priority, int(header.priority)),
            "state": state.move(StudyState.RECEIVING) if state in REOPENED else state,
        }
        self.session.execute(update(StudyRow).where(StudyRow.id == study.id).values(**values, **_missing(study, header)))

    def _link(self, study_id: UUID, association: UUID | None) -> None:
        if association is not None:
            self.session.execute(insert(StudyAssociationRow).values(study_id=study_id, association_id=association).on_conflict_do_nothing())


def _missing(study: StudyRow, header: Header) -> Mapping[str, object]:
    """What an earlier object of the study (a dose report, a localizer) did not say and this one does."""
    said = {
        "accession": plain(header.accession),
        "study_date": header.study_date,
        "description": plain(header.study_description),
        "indication": plain(header.indication),
        "station": plain(header.station),
    }
    return {name: value for name, value in said.items() if value and not getattr(study, name)}


def _instance_values(header: Header) -> dict[str, Any]:
    instance = header.instance
    return {
        "sop_uid": plain(instance.sop_uid),
        "sop_class": plain(instance.sop_class),
        "transfer_syntax": plain(instance.transfer_syntax),
        "modality": plain(instance.modality),
        "sha256": instance.sha256,
        "size_bytes": instance.size_bytes,
        "path": plain(instance.path),
        "instance_number": instance.instance_number,
        "rows": instance.rows,
        "columns": instance.columns,
        "position_mm": None if instance.position_mm is None else list(instance.position_mm),
        "orientation": None if instance.orientation is None else list(instance.orientation),
        "image_type": plain_list(instance.image_type),
    }
