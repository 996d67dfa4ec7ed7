"""What modalities tell beside images: performed procedure steps (MPPS, PS3.4 Annex F) and storage commitments (PS3.4 Annex J)."""

from __future__ import annotations

import enum
import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.modalities import StepStatus
from pipeline.store.tables.base import Base, Id, Now, Pairs, Strings, lease_whole, states


class CommitmentState(enum.StrEnum):
    """Where one storage commitment stands."""

    WAITING = "waiting"
    REPORTED = "reported"
    FAILED = "failed"


STATUSES = ", ".join(f"'{status.value}'" for status in StepStatus)


class PerformedStepRow(Base):
    """One Modality Performed Procedure Step. `expected` lists the SOPInstanceUIDs that its Performed Series Sequence names; started_at and
    ended_at are the modality's word, created_at and updated_at are ours."""

    __tablename__ = "performed_steps"
    __table_args__ = (
        UniqueConstraint("sop_uid"),
        CheckConstraint(f"status IN ({STATUSES})", name="status"),
        Index("ix_performed_steps_updated_at", "updated_at"),
    )
    id: Mapped[Id]
    sop_uid: Mapped[str]
    status: Mapped[str]
    calling_aet: Mapped[str]
    modality: Mapped[str]
    started_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]
    created_at: Mapped[Now]
    updated_at: Mapped[Now]
    expected: Mapped[Strings]


class PerformedStepStudyRow(Base):
    """Which studies a step belongs to. The study may not have arrived yet, so there is no foreign key to it."""

    __tablename__ = "performed_step_studies"
    __table_args__ = (Index("ix_performed_step_studies_study_uid", "study_uid"),)
    step_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("performed_steps.id"), primary_key=True)
    study_uid: Mapped[str] = mapped_column(primary_key=True)


class CommitmentRow(Base):
    """One storage commitment that a peer asked for; `requested` lists (SOP class, SOP instance), `failures` how many of them were refused.
    `association_id` is the association that asked last; it may have no row of its own."""

    __tablename__ = "commitments"
    __table_args__ = (
        UniqueConstraint("transaction_uid", "calling_aet"),
        states(CommitmentState),
        lease_whole(),
        CheckConstraint("(state = 'reported') = (reported_at IS NOT NULL)", name="reported"),
        CheckConstraint("attempts >= 0", name="counts"),
        Index("ix_commitments_created_at", "created_at"),
        Index("ix_commitments_due", "due_at", postgresql_where=text("state = 'waiting'")),
    )
    id: Mapped[Id]
    transaction_uid: Mapped[str]
    calling_aet: Mapped[str]
    host: Mapped[str]
    association_id: Mapped[uuid.UUID | None]
    requested: Mapped[Pairs]
    state: Mapped[str] = mapped_column(default=CommitmentState.WAITING.value)
    attempts: Mapped[int] = mapped_column(default=0)
    due_at: Mapped[Now]
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    failures: Mapped[int | None]
    reason: Mapped[str | None]
    created_at: Mapped[Now]
    reported_at: Mapped[datetime | None]
