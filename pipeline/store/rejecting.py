"""Rejection notes (IHE IOCM): which images they take back, and what that does to their studies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import aliased

from pipeline.model import Rejection, ReportState, Study, StudyState
from pipeline.ports import Rejected
from pipeline.store.audit import PgAudit
from pipeline.store.barring import OPEN_REPORTS, bar, withdraw
from pipeline.store.dose_taken_back import take_back_doses
from pipeline.store.repository import Repository, any_of, plain
from pipeline.store.tables import InstanceRow, JobRow, RejectionRow, StudyRow

ACTION = "reject"
SUPERSEDED = "a rejection note took back images that were read"
WITHDRAWN = "拒绝说明（IOCM）撤回了本检查的全部图像：{meanings}"
OF_STUDY = 1_000  # images of a note inserted per statement


def is_rejected() -> ColumnElement[bool]:
    """The instance (of the study's row beside it) is taken back by a note of its own study, or by one of another study of the same patient."""
    other = aliased(StudyRow)
    same_patient = exists().where(other.id == RejectionRow.ko_study_id, other.patient_id == StudyRow.patient_id).correlate(RejectionRow, StudyRow)
    return (
        exists()
        .where(RejectionRow.sop_uid == InstanceRow.sop_uid, RejectionRow.study_uid == StudyRow.study_uid)
        .where(or_(RejectionRow.ko_study_id == StudyRow.id, same_patient))
        .correlate(InstanceRow, StudyRow)
    )


class Rejecting(Repository):
    """The rows of rejection notes."""

    def reject(self, note_study_uid: str, rejection: Rejection) -> tuple[Rejected, ...]:
        """Bar what the note names; see the Studies port."""
        note_study = self.session.execute(select(StudyRow.id).where(StudyRow.study_uid == plain(note_study_uid))).scalar_one()
        if not rejection.bars:
            PgAudit(self.session).append(ACTION, study_id=note_study, code=rejection.code, images=str(len(rejection.images)), bars="no")
            return ()
        new = self._note(note_study, rejection)
        taken = self._taken(new)
        rows = self._studies_locked(list(taken))
        rejected = tuple(self._take_back(row, sop_uids, rejection) for row in rows if (sop_uids := taken[row.id]))
        # last: the dose step too locks studies, then reports, then events, then its own rows
        take_back_doses(self.session, list(taken), [uid for uids in taken.values() for uid in uids])
        return rejected

    def withdraw_rejected(self, study: Study) -> bool:
        """A claimed study of which every image is rejected → withdrawn; see the Studies port."""
        (row,) = self._studies_locked([study.id])
        changed = (row.state, row.last_received, row.images) != (StudyState.RECEIVING.value, study.last_received, study.images)
        if changed or self._left(row.id):
            return False
        self._withdraw(row)
        PgAudit(self.session).append("withdraw", study_id=row.id, before=StudyState.RECEIVING.value, after=row.state, by="rejection note")
        return True

    def _note(self, note_study: UUID, rejection: Rejection) -> list[str]:
        """Keep what the note names, once; returns the images that this note had not named before."""
        found: list[str] = []
        same = {"ko_sop_uid": plain(rejection.ko_sop_uid), "ko_study_id": note_study, "code": rejection.code, "meaning": plain(rejection.meaning)}
        named = {plain(image.sop_uid): plain(image.study_uid) for image in rejection.images}
        values = [{"sop_uid": sop_uid, "study_uid": study_uid, **same} for sop_uid, study_uid in sorted(named.items())]
        for start in range(0, len(values), OF_STUDY):
            made = insert(RejectionRow).values(values[start : start + OF_STUDY]).on_conflict_do_nothing().returning(RejectionRow.sop_uid)
            found += self.session.scalars(made).all()
        return found

    def _taken(self, sop_uids: Sequence[str]) -> dict[UUID, list[str]]:
        """Those that are here and count as rejected, by study."""
        query = select(InstanceRow.study_id, InstanceRow.sop_uid).join(StudyRow, StudyRow.id == InstanceRow.study_id)
        query = query.where(InstanceRow.sop_uid == any_of(sop_uids), InstanceRow.is_first, is_rejected())
        found: dict[UUID, list[str]] = defaultdict(list)
        for study_id, sop_uid in self.session.execute(query):
            found[study_id].append(sop_uid)
        return found

    def _studies_locked(self, study_ids: Sequence[UUID]) -> Sequence[StudyRow]:
        """Study rows, locked in the order in which the listener locks them."""
        query = select(StudyRow).where(StudyRow.id.in_(study_ids)).order_by(StudyRow.study_uid).with_for_update(key_share=True)
        return self.session.scalars(query, execution_options={"populate_existing": True}).all()

    def _take_back(self, row: StudyRow, sop_uids: Sequence[str], rejection: Rejection) -> Rejected:
        before = StudyState(row.state)
        if before is not StudyState.WITHDRAWN:
            if self._left(row.id):
                self._assemble_again(row, sop_uids)
            else:
                self._withdraw(row)
        after = StudyState(row.state)
        PgAudit(self.session).append(ACTION, study_id=row.id, code=rejection.code, images=str(len(sop_uids)), before=before.value, after=after.value)
        self.session.flush()
        return Rejected(row.id, len(sop_uids), before, after)

    def _left(self, study_id: UUID) -> bool:
        """True when an image of the study is not rejected."""
        query = select(InstanceRow.id).join(StudyRow, StudyRow.id == InstanceRow.study_id)
        still = and_(InstanceRow.study_id == study_id, InstanceRow.is_first, InstanceRow.rows.is_not(None), ~is_rejected())
        return self.session.execute(query.where(still).limit(1)).first() is not None

    def _assemble_again(self, row: StudyRow, sop_uids: Sequence[str]) -> None:
        """The study goes on without the images. A report that was made from one of them is barred now, not when its successor is ready."""
        read = self._files_of(row)
        paths = self.session.scalars(select(InstanceRow.path).where(InstanceRow.study_id == row.id, InstanceRow.sop_uid == any_of(sop_uids)))
        if read.intersection(paths):
            bar(self.session, row.id, (ReportState.WAITING,), SUPERSEDED, every_delivery=False)
        row.lease_owner = row.lease_until = None
        row.due_at, row.attempts = func.now(), 0
        row.last_received = func.clock_timestamp()  # whoever assembles it now with these images finds it changed
        if row.state in (StudyState.COMPLETE, StudyState.PARTIAL):
            row.state, row.reason, row.arriving_since = StudyState(row.state).move(StudyState.RECEIVING).value, None, func.now()

    def _files_of(self, row: StudyRow) -> frozenset[str]:
        """What the current revision reads."""
        files = self.session.scalars(select(JobRow.files).filter_by(study_id=row.id, revision=row.revision)).one_or_none()
        return frozenset(files or ())

    def _withdraw(self, row: StudyRow) -> None:
        meanings = select(RejectionRow.code, RejectionRow.meaning).where(RejectionRow.study_uid == row.study_uid).distinct()
        told = "、".join(sorted(f"{code} {meaning}".strip() for code, meaning in self.session.execute(meanings)))
        withdraw(self.session, row, WITHDRAWN.format(meanings=told), OPEN_REPORTS)
        row.rejected_at = func.now()
