"""Receive: file instances, one or a group in one transaction. The studies' rows are locked first and in one order, so that any number of
associations cannot deadlock."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import date
from uuid import UUID, uuid4

from sqlalchemy import func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from pipeline.errors import BadInput
from pipeline.model import Header, Stored, StudyState
from pipeline.ports import Filing, Registered
from pipeline.store.arriving import (
    CONFLICTING,
    FILE_ONE,
    FIND_SERIES,
    INSERT_INSTANCE,
    INSERT_LINK,
    INSERT_SERIES,
    KNOWN,
    LOCK,
    PATIENT_DIFFERS,
    RESTART,
    Arriving,
    Seen,
    StudyFacts,
    file_one_values,
    restart_values,
    tells_more,
)
from pipeline.store.evidence import look_again
from pipeline.store.repository import Repository, plain
from pipeline.store.tables import AssociationRow, InstanceRow, PatientRow, QuarantineRow, StudyAssociationRow, StudyRow

__all__ = ["CONFLICTING", "PATIENT_DIFFERS", "Receiving"]

CONFLICT_REASON = "other bytes arrived under a known SOPInstanceUID; they are kept beside the first, which is the one that is read"
PATIENT_REASON = "an image names another PatientID than the first one of the study; look whether two patients are mixed, then go on or withdraw"
REOPENED = frozenset({StudyState.COMPLETE, StudyState.PARTIAL})
HOLDABLE = frozenset({StudyState.RECEIVING, *REOPENED})
SEEN = Seen()


class Receiving(Repository):
    """The receive step's rows."""

    def register(self, filed: Sequence[tuple[Header, UUID | None]]) -> tuple[Registered, ...]:
        """File instances; see the Studies port."""
        if len(filed) == 1 and (found := self._file_one(*filed[0])) is not None:
            return (found,)
        studies = self._needed([header for header, _ in filed], sorted({one for _, one in filed if one is not None}))
        arriving = [Arriving(header, association, studies[plain(header.instance.study_uid)]) for header, association in filed]
        self._find_series(arriving)
        self._file(sorted(arriving, key=lambda one: one.sop_uid))  # everybody inserts in this order: nobody deadlocks
        for study in studies.values():
            self._restart_clock(study, [one for one in arriving if one.study is study])
        self._link(arriving)
        return tuple(Registered(one.study.id, one.filing, one.patient_differs) for one in arriving)

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
        uids = select(StudyRow.study_uid).join(StudyAssociationRow, StudyAssociationRow.study_id == StudyRow.id)
        look_again(self.session, self.session.scalars(uids.where(StudyAssociationRow.association_id == association)).all())

    def close_orphans(self, listener: str) -> int:
        """Close as lost what an earlier process of this listener left open; returns how many."""
        orphans = (AssociationRow.listener == listener) & AssociationRow.closed_at.is_(None)
        closed = self.session.execute(update(AssociationRow).where(orphans).values(closed_at=func.now(), how="lost").returning(AssociationRow.id))
        return len(closed.all())

    def _needed(self, headers: Sequence[Header], associations: Sequence[UUID]) -> dict[str, StudyFacts]:
        """The studies' rows by StudyInstanceUID, locked until the end of the transaction in the order of their UIDs."""
        needed = {plain(header.instance.study_uid): header for header in reversed(headers)}
        found = self._locked(needed, associations)
        SEEN.remember(found)
        SEEN.remember({(study.id, one): True for study in found.values() for one in study.linked})
        if missing := sorted(needed.keys() - found.keys()):
            for header in sorted((needed[uid] for uid in missing), key=lambda one: (one.patient.patient_id, one.patient.issuer)):
                self._patient(header)  # first all patients and in one order, then the studies: nobody deadlocks
            for uid in missing:
                self._create(needed[uid])
            found = self._locked(needed, associations)  # in order again: others may have come between
        if needed.keys() - found.keys():
            raise BadInput("a study vanished while its image was registered; send the image again")
        return found

    def _locked(self, uids: Iterable[str], associations: Sequence[UUID]) -> dict[str, StudyFacts]:
        rows = self.session.connection().execute(LOCK, {"uids": sorted(uids), "associations": associations})
        return {row.study_uid: row for row in rows}

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
            "requesting_service": plain(header.requesting_service),
            "priority": int(header.priority),
            "text_guess": header.text_guess,
        }
        self.session.execute(insert(StudyRow).values(**values).on_conflict_do_nothing())

    def _patient(self, header: Header) -> UUID:
        """The row of this PatientID and issuer; one for the study alone where there is no id (two strangers without an id are not one patient), or
        where the id belongs to somebody born on another day."""
        patient, own = header.patient, plain(header.instance.study_uid)
        patient_id, issuer = plain(patient.patient_id), plain(patient.issuer)
        row_id, born = self._patient_row(header, patient_id, issuer if patient_id else own)
        if born is not None and patient.birth_date is not None and born != patient.birth_date:
            row_id, _ = self._patient_row(header, patient_id, own)
        return row_id

    def _patient_row(self, header: Header, patient_id: str, issuer: str) -> tuple[UUID, date | None]:
        """Id and birth date of a patient's row, made if it is not there. A rightly labelled name takes the place of a guess."""
        patient = header.patient
        named = {"name": plain(patient.name), "name_charset": plain(patient.name_charset), "name_guess": patient.name_guess}
        rest = {"birth_date": patient.birth_date, "sex": plain(patient.sex)}
        row = insert(PatientRow).values(patient_id=patient_id, issuer=issuer, **named, **rest)
        guessed = PatientRow.name_guess & PatientRow.name_confirmed_at.is_(None) & ~row.excluded.name_guess
        guessed &= or_(PatientRow.birth_date.is_(None), row.excluded.birth_date.is_(None), PatientRow.birth_date == row.excluded.birth_date)
        better = {name: getattr(row.excluded, name) for name in named}
        self.session.execute(row.on_conflict_do_update(index_elements=["patient_id", "issuer"], set_=better, where=guessed))
        query = select(PatientRow.id, PatientRow.birth_date).filter_by(patient_id=patient_id, issuer=issuer)
        row_id, born = self.session.execute(query).one()
        return row_id, born

    def _find_series(self, arriving: Sequence[Arriving]) -> None:
        """Give each its series row's id; the lock on the study keeps others from making the same series."""
        known: dict[tuple[UUID, str], UUID | None] = {key: SEEN.get(key) for key in (one.series_key for one in arriving)}
        if None in known.values():
            keys = {"studies": sorted({study for study, _ in known}), "uids": sorted({uid for _, uid in known})}
            found = {(study, uid): series_id for study, uid, series_id in self.session.connection().execute(FIND_SERIES, keys)}
            SEEN.remember(found)
            known |= found
        for one in arriving:
            if known[one.series_key] is None:
                known[one.series_key] = self.session.connection().execute(INSERT_SERIES, one.series_values()).scalar_one()
            one.series_id = known[one.series_key]

    def _file(self, arriving: Sequence[Arriving]) -> None:
        """Insert the instances: first as new, which most are; then, with a look at what is there, those that were not taken. The further looks are
        for *another study's* association that inserted the same SOPInstanceUID meanwhile."""
        firsts = {one.sop_uid: one for one in reversed(arriving)}
        left = self._insert([one for one in arriving if firsts[one.sop_uid] is one]) + [one for one in arriving if firsts[one.sop_uid] is not one]
        for _ in range(3):
            if not left:
                return
            left = self._insert(self._unknown(left))
        if left:
            raise BadInput("the same SOPInstanceUID arrived three times at once with different bytes; send the image again")

    def _file_one(self, header: Header, association: UUID | None) -> Registered | None:
        """One image that is new, with its study's clock, in one statement; None when it is not as simple as that, and nothing was done."""
        study = SEEN.get(plain(header.instance.study_uid))
        if study is None or (association is not None and SEEN.get((study.id, association)) is None):
            return None
        one = Arriving(header, association, study)
        one.series_id = SEEN.get(one.series_key)
        if one.series_id is None or one.patient_differs or tells_more(header, study):
            return None
        filed = self.session.connection().execute(FILE_ONE, file_one_values(one)).first()
        return None if filed is None else Registered(study.id, Filing.NEW)

    def _insert(self, new: Sequence[Arriving]) -> list[Arriving]:
        """Those whose rows the database did not take."""
        if not new:
            return []
        made = {tuple(row) for row in self.session.connection().execute(INSERT_INSTANCE, [one.values() for one in new])}
        return [one for one in new if (one.sop_uid, one.sha256) not in made]

    def _unknown(self, arriving: Sequence[Arriving]) -> list[Arriving]:
        """Those whose bytes are not there yet; each learns what it is beside those that are."""
        known: dict[str, set[str]] = defaultdict(set)
        for sop_uid, sha256 in self.session.connection().execute(KNOWN, {"uids": sorted({one.sop_uid for one in arriving})}):
            known[sop_uid].add(sha256)
        new = []
        for one in arriving:
            hashes = known[one.sop_uid]
            one.filing = Filing.SAME if one.sha256 in hashes else Filing.CONFLICT if hashes else Filing.NEW
            if one.filing is not Filing.SAME:
                new.append(one)
                hashes.add(one.sha256)
        return new

    def _restart_clock(self, study: StudyFacts, arrived: Sequence[Arriving]) -> None:
        """New images: count them, take the study back from whoever assembles it, and reopen it unless an operator holds or withdrew it."""
        fresh = [one for one in arrived if one.filing is not Filing.SAME]
        new = [one.header for one in fresh if one.filing is Filing.NEW]
        state, reason, reopens = self._next(study, fresh)
        if new:
            self.session.connection().execute(RESTART, restart_values(study, new, state, reason, reopens))
        elif reason:
            changed = update(StudyRow).where(StudyRow.id == study.id).values(state=state.value, reason=reason)
            self.session.execute(changed if state.value == study.state else changed.values(lease_owner=None, lease_until=None))

    def _next(self, study: StudyFacts, fresh: Sequence[Arriving]) -> tuple[StudyState, str | None, bool]:
        """The study's next state with these images, what a person should read about it, and whether a new arrival begins."""
        state, reason = StudyState(study.state), None
        reopens = any(one.filing is Filing.NEW for one in fresh) and (state in REOPENED or study.rejected_at is not None)
        if reopens:
            state = state.move(StudyState.RECEIVING)
        if any(one.filing is Filing.CONFLICT for one in fresh) and state is not StudyState.HELD:
            reason = CONFLICT_REASON
        if state in HOLDABLE and self._is_mixed(study, fresh):
            state, reason = state.move(StudyState.HELD), PATIENT_REASON
        return state, reason, reopens

    def _is_mixed(self, study: StudyFacts, fresh: Sequence[Arriving]) -> bool:
        """True when an image names a patient and no earlier one of the study named another than the first: a person must look, once."""
        if not any(one.patient_differs and one.header.patient.patient_id for one in fresh):
            return False
        seen = select(InstanceRow.id).where(InstanceRow.study_id == study.id, InstanceRow.flags.contains([PATIENT_DIFFERS]))
        mine = InstanceRow.sop_uid.not_in([one.sop_uid for one in fresh])
        return self.session.execute(seen.where(mine).limit(1)).first() is None

    def _link(self, arriving: Sequence[Arriving]) -> None:
        """Note which association brought images of which study. One that only repeats what is here counts for a study that still waits: a sender that
        was cut off sends all of it again, and then nothing is missing."""
        links: dict[tuple[UUID, UUID], bool] = defaultdict(bool)
        for one in arriving:
            counts = one.filing is Filing.NEW or (one.filing is Filing.SAME and one.study.state == StudyState.RECEIVING.value)
            if counts and one.association is not None and one.association not in one.study.linked:
                links[one.study.id, one.association] |= one.header.instance.rows is not None
        if links:
            rows = [{"study_id": study, "association_id": one, "with_images": images} for (study, one), images in sorted(links.items())]
            self.session.connection().execute(INSERT_LINK, rows)
            if repeated := {one.study.study_uid for one in arriving if one.filing is Filing.SAME}:
                look_again(self.session, sorted(repeated))
