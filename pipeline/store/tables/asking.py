"""Drafts that somebody asked for."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.model import RequestState
from pipeline.store.tables.base import Base, Id, Now, StudyKey, lease_whole, states

OPEN = "state IN ('waiting', 'drafting')"


class RequestRow(Base):
    """One department's draft of one study that somebody asked for; at most one open request each. `revision` is that of the job it is written for."""

    __tablename__ = "draft_requests"
    __table_args__ = (
        states(RequestState),
        lease_whole(),
        CheckConstraint("attempts >= 0 AND tokens >= 0", name="counts"),
        CheckConstraint("(state = 'drafting') = (lease_owner IS NOT NULL)", name="lease_state"),
        CheckConstraint("(state = 'drafted') = (draft_id IS NOT NULL) AND (state = 'waiting' OR revision IS NOT NULL)", name="draft"),
        Index("uq_draft_requests_open", "study_id", "department", unique=True, postgresql_where=text(OPEN)),
        Index("ix_draft_requests_claim", "due_at", postgresql_where=text("state = 'waiting'")),
        Index("ix_draft_requests_lease_until", "lease_until", postgresql_where=text("lease_until IS NOT NULL")),
        Index("ix_draft_requests_created_at", "created_at"),
    )
    id: Mapped[Id]
    study_id: Mapped[StudyKey]
    department: Mapped[str]
    lengths: Mapped[object | None] = mapped_column(JSONB(none_as_null=True))  # tokens drafted per step: a number, one per section, or null
    state: Mapped[str] = mapped_column(default=RequestState.WAITING.value)
    due_at: Mapped[Now]
    attempts: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    reason: Mapped[str | None]
    revision: Mapped[int | None]
    section: Mapped[str] = mapped_column(default="")  # that is being written
    tokens: Mapped[int] = mapped_column(default=0)  # written so far
    draft_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("drafts.id"))
    created_at: Mapped[Now]
    ended_at: Mapped[datetime | None]
