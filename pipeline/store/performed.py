"""Performed procedure steps as rows: created once, changed until they are final."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert

from pipeline.modalities import PerformedStep, StepAnswer, StepChange, StepStatus
from pipeline.store.evidence import look_again
from pipeline.store.repository import Repository, plain, plain_list
from pipeline.store.tables import PerformedStepRow, PerformedStepStudyRow


class PgPerformed(Repository):
    """Performed port on PostgreSQL."""

    def create(self, step: PerformedStep) -> StepAnswer:
        """A new step with its studies. DUPLICATE changes nothing."""
        values: dict[str, Any] = {
            "id": uuid4(),
            "sop_uid": plain(step.sop_uid),
            "status": step.status.value,
            "calling_aet": plain(step.calling_aet),
            "modality": plain(step.modality),
            "started_at": step.started_at,
            "ended_at": step.ended_at,
            "expected": plain_list(step.expected),
        }
        created = self.session.execute(insert(PerformedStepRow).values(**values).on_conflict_do_nothing().returning(PerformedStepRow.id)).first()
        if created is None:
            return StepAnswer.DUPLICATE
        study_uids = list(dict.fromkeys(plain_list(step.study_uids)))
        for study_uid in study_uids:
            self.session.execute(insert(PerformedStepStudyRow).values(step_id=created[0], study_uid=study_uid))
        look_again(self.session, study_uids)
        return StepAnswer.DONE

    def change(self, sop_uid: str, change: StepChange) -> StepAnswer:
        """Put what the change mentions into the locked row; a final one stays as it is."""
        query = select(PerformedStepRow).where(PerformedStepRow.sop_uid == plain(sop_uid)).with_for_update()
        row = self.session.scalars(query, execution_options={"populate_existing": True}).one_or_none()
        if row is None:
            return StepAnswer.UNKNOWN
        if StepStatus(row.status).is_final:
            return StepAnswer.FINAL
        if change.status is not None:
            row.status = change.status.value
        if change.expected is not None:
            row.expected = plain_list(change.expected)
        if change.ended_at is not None:
            row.ended_at = change.ended_at
        row.updated_at = func.now()
        self.session.flush()
        look_again(self.session, self.session.scalars(select(PerformedStepStudyRow.study_uid).where(PerformedStepStudyRow.step_id == row.id)).all())
        return StepAnswer.DONE
