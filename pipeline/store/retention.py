"""What only tells how work went is removed once it is old: a table and its condition a line. Studies, images, drafts, reports, doses, deliveries,
requests and the trail are never touched: they are the record, and a late withdrawal must still find who was given what."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sqlalchemy import ColumnElement, delete, select
from sqlalchemy.orm import InstrumentedAttribute

from pipeline.modalities import StepStatus
from pipeline.store.repository import Repository, fixed, in_seconds
from pipeline.store.tables import (
    AssociationRow,
    Base,
    CommitmentRow,
    CommitmentState,
    ExpectedReadingRow,
    NightPlanRow,
    PerformedStepRow,
    PerformedStepStudyRow,
    SampleRow,
    StudyAssociationRow,
)

DAY_S = 86_400.0
Aged = tuple[
    type[Base], InstrumentedAttribute[Any], InstrumentedAttribute[Any], ColumnElement[bool]
]  # table, key, time that counts, what else must hold
OVER: Mapping[str, Aged] = MappingProxyType(
    {
        "associations": (AssociationRow, AssociationRow.id, AssociationRow.closed_at, AssociationRow.closed_at.is_not(None)),
        "performed_steps": (
            PerformedStepRow,
            PerformedStepRow.id,
            PerformedStepRow.updated_at,
            PerformedStepRow.status != fixed(StepStatus.IN_PROGRESS),
        ),
        "commitments": (CommitmentRow, CommitmentRow.id, CommitmentRow.created_at, CommitmentRow.state != fixed(CommitmentState.WAITING)),
        "expected_readings": (ExpectedReadingRow, ExpectedReadingRow.id, ExpectedReadingRow.reads_at, ExpectedReadingRow.reads_at.is_not(None)),
        "night_plans": (NightPlanRow, NightPlanRow.id, NightPlanRow.closes_at, NightPlanRow.ended_at.is_not(None)),  # with their items
        "samples": (SampleRow, SampleRow.night, SampleRow.until, SampleRow.until.is_not(None)),  # with their drafts and alarms
    }
)
# rows that point at those of a table, by the column that does
BELONGING = MappingProxyType({"associations": StudyAssociationRow.association_id, "performed_steps": PerformedStepStudyRow.step_id})


class Retention(Repository):
    """The part of the Studies port that forgets."""

    def forget(self, days: float, limit: int) -> Mapping[str, int]:
        """Remove up to `limit` rows of each table that are older, the oldest first; how many of each. See the Studies port."""
        return {name: self._forget(name, aged, days, limit) for name, aged in OVER.items()}

    def _forget(self, name: str, aged: Aged, days: float, limit: int) -> int:
        table, key, moment, over = aged
        old = select(key).where(over, moment < in_seconds(-days * DAY_S)).order_by(moment).limit(limit).with_for_update(skip_locked=True)
        keys = self.session.scalars(old).all()
        if not keys:
            return 0
        pointing = BELONGING.get(name)
        if pointing is not None:
            self.session.execute(delete(pointing.class_).where(pointing.in_(keys)), execution_options={"synchronize_session": False})
        gone = delete(table).where(key.in_(keys)).returning(key)
        return len(self.session.execute(gone, execution_options={"synchronize_session": False}).all())
