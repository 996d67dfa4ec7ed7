"""Evidence: what the database knows for and against a study being complete, and when to look again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, Row, func, or_, select, update
from sqlalchemy.orm import Session

from pipeline.evidence import Evidence, Patience, StepEvidence, Verdict
from pipeline.modalities import StepStatus
from pipeline.model import Lease, Study, StudyState
from pipeline.store.rejecting import is_rejected
from pipeline.store.repository import Repository, any_of, fixed, in_seconds, looked_up, plain
from pipeline.store.tables import AssociationRow, InstanceRow, PerformedStepRow, PerformedStepStudyRow, StudyAssociationRow, StudyRow

FREE = {"lease_owner": None, "lease_until": None}
RELEASED, ABORTED, LOST = "released", "aborted", "lost"
Linked = Row[*tuple[Any, ...]]  # calling_aet, host, closed_at, how, with_images


def is_candidate(patience: Patience, late_s: float = 0.0) -> ColumnElement[bool]:
    """A study that may be complete, or must go on in any case, and that nobody assembles now; since `late_s` seconds at least."""
    return (
        (StudyRow.state == fixed(StudyState.RECEIVING))
        & (StudyRow.due_at <= in_seconds(-late_s))
        & or_(StudyRow.lease_until.is_(None), StudyRow.lease_until < func.now())
        & or_(is_settled(patience, late_s), StudyRow.arriving_since <= in_seconds(-patience.force_after_s - late_s))
    )


def is_settled(patience: Patience, late_s: float) -> ColumnElement[bool]:
    """No new image for the shortest time that could do, and no association that brought images is open."""
    settled = StudyRow.last_received <= in_seconds(-min(patience.settle_s, patience.quiet_s) - late_s)
    quiet = StudyRow.last_received <= in_seconds(-patience.quiet_s - late_s)
    return settled & or_(quiet, has_completed_step()) & ~has_open_association()


def has_open_association() -> ColumnElement[bool]:
    """An association that brought images of the study is still open."""
    return looked_up(
        select(AssociationRow.id)
        .join(StudyAssociationRow, StudyAssociationRow.association_id == AssociationRow.id)
        .where(StudyAssociationRow.study_id == StudyRow.id, AssociationRow.closed_at.is_(None))
        .correlate(StudyRow)
    )


def has_completed_step() -> ColumnElement[bool]:
    """An MPPS of the study is completed."""
    return looked_up(
        select(PerformedStepRow.id)
        .join(PerformedStepStudyRow, PerformedStepStudyRow.step_id == PerformedStepRow.id)
        .where(PerformedStepStudyRow.study_uid == StudyRow.study_uid, PerformedStepRow.status == fixed(StepStatus.COMPLETED))
        .correlate(StudyRow)
    )


def look_again(session: Session, study_uids: Sequence[str]) -> None:
    """Judge these studies again at the next bell: their evidence changed without a new image."""
    waiting = (StudyRow.study_uid.in_(study_uids)) & (StudyRow.state == fixed(StudyState.RECEIVING))
    ids = session.scalars(select(StudyRow.id).where(waiting).order_by(StudyRow.study_uid).with_for_update(key_share=True)).all()
    if ids:  # locked in the order in which everybody locks studies
        session.execute(update(StudyRow).where(StudyRow.id.in_(ids)).values(due_at=func.now()), execution_options={"synchronize_session": False})


def as_facts(verdict: Verdict) -> dict[str, object]:
    """The verdict with its evidence, as the study and the revision keep it."""
    return {
        "verdict": verdict.kind.value,
        "forced": verdict.forced,
        "reasons": [plain(reason) for reason in verdict.reasons],
        **{name: value for name, value in asdict(verdict.evidence).items() if name != "gaps"},
        "gaps": [{**asdict(gap), "series": plain(gap.series)} for gap in verdict.evidence.gaps],
    }


class Judging(Repository):
    """What the judge looks at, and the study that he sends away."""

    def evidence(self, study: Study) -> Evidence:
        """What the database knows of the study; see the Studies port."""
        quiet, age = self.session.execute(
            select(func.clock_timestamp() - StudyRow.last_received, func.clock_timestamp() - StudyRow.arriving_since).where(StudyRow.id == study.id)
        ).one()
        held, rejected = self._images(study.id)
        linked = self._linked(study.id)
        ended = [_ended(row, linked) for row in linked if row.closed_at is not None]
        return Evidence(
            quiet_s=_seconds(quiet),
            age_s=_seconds(age),
            images=held,
            rejected=rejected,
            associations_open=len(linked) - len(ended),
            associations_released=ended.count(RELEASED),
            associations_aborted=ended.count(ABORTED),
            associations_lost=ended.count(LOST),
            steps=self._steps(study.study_uid),
        )

    def postpone(self, study: Study, verdict: Verdict, lease: Lease) -> bool:
        """Free the study until the verdict's time; see the Studies port."""
        mine = (StudyRow.id == study.id) & (StudyRow.lease_owner == lease.owner) & (StudyRow.state == StudyState.RECEIVING.value)
        waits = {"due_at": in_seconds(verdict.wait_s), "evidence": as_facts(verdict), "attempts": 0}
        moved = update(StudyRow).where(mine).values(**waits, **FREE).returning(StudyRow.id)
        return self.session.execute(moved, execution_options={"synchronize_session": False}).first() is not None

    def _images(self, study_id: UUID) -> tuple[int, int]:
        """First instances of the study that count, and those that a rejection note took back."""
        query = select(is_rejected().label("rejected"), func.count()).select_from(InstanceRow)
        query = (
            query.join(StudyRow, StudyRow.id == InstanceRow.study_id)
            .where(InstanceRow.study_id == study_id, InstanceRow.is_first)
            .group_by("rejected")
        )
        found = {bool(rejected): n for rejected, n in self.session.execute(query)}
        return found.get(False, 0), found.get(True, 0)

    def _steps(self, study_uid: str) -> tuple[StepEvidence, ...]:
        """What each MPPS of the study says."""
        query = select(PerformedStepRow.status, PerformedStepRow.expected).join(PerformedStepStudyRow).order_by(PerformedStepRow.created_at)
        rows = self.session.execute(query.where(PerformedStepStudyRow.study_uid == study_uid)).all()
        return tuple(
            StepEvidence(status == StepStatus.IN_PROGRESS, status == StepStatus.DISCONTINUED, len(set(expected)), self._not_here(set(expected)))
            for status, expected in rows
        )

    def _not_here(self, sop_uids: set[str]) -> int:
        here = select(func.count()).where(InstanceRow.is_first, InstanceRow.sop_uid == any_of(sop_uids))
        return len(sop_uids) - self.session.execute(here).scalar_one()

    def _linked(self, study_id: UUID) -> Sequence[Linked]:
        query = (
            select(AssociationRow.calling_aet, AssociationRow.host, AssociationRow.closed_at, AssociationRow.how, StudyAssociationRow.with_images)
            .join(StudyAssociationRow, StudyAssociationRow.association_id == AssociationRow.id)
            .where(StudyAssociationRow.study_id == study_id)
        )
        return self.session.execute(query).all()


def _ended(row: Linked, linked: Sequence[Linked]) -> str:
    """How an association ended. A broken one that its sender made good by a later one with images counts as released."""
    later = (one for one in linked if one.closed_at is not None and one.closed_at > row.closed_at)
    made_good = any(one.how == RELEASED and one.with_images and (one.calling_aet, one.host) == (row.calling_aet, row.host) for one in later)
    return RELEASED if made_good else str(row.how)


def _seconds(passed: timedelta) -> float:
    return max(0.0, passed.total_seconds())
