"""What is done with it: one job per study revision, claimed under a lease; when what the whole site does once was done; and the trail that nobody
can rewrite."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, Identity, Index, UniqueConstraint, func, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.model import JobState
from pipeline.store.tables.base import NO_FACTS, Base, FactRows, Facts, Id, Now, Pairs, Strings, StudyKey, lease_whole, states

LIVE = "state IN ('ready', 'encoding', 'encoded', 'drafting')"


class JobRow(Base):
    """The work on one revision of one study; `files` is its frozen list of archive-relative paths."""

    __tablename__ = "jobs"
    __table_args__ = (
        UniqueConstraint("study_id", "revision"),
        states(JobState),
        lease_whole(),
        CheckConstraint("revision >= 1 AND attempts >= 0 AND lost >= 0", name="counts"),
        CheckConstraint("state IN ('encoding', 'drafting') OR lease_owner IS NULL", name="lease_state"),
        Index("ix_jobs_claim", "state", "rank_at", "due_at", postgresql_where=text(f"priority > 0 AND {LIVE}")),
        Index("ix_jobs_claim_urgent", "state", "rank_at", "due_at", postgresql_where=text(f"priority = 0 AND {LIVE}")),
        Index("ix_jobs_live", "state", postgresql_where=text(LIVE)),
        Index("ix_jobs_failed", "ended_at", postgresql_where=text("state = 'failed'")),
        Index("ix_jobs_lease_until", "lease_until", postgresql_where=text("lease_until IS NOT NULL")),
    )
    id: Mapped[Id]
    study_id: Mapped[StudyKey]
    revision: Mapped[int]
    state: Mapped[str]
    priority: Mapped[int]
    rank_at: Mapped[Now]  # place in its lane, see `urgency.rank`
    due_at: Mapped[Now]
    attempts: Mapped[int] = mapped_column(default=0)
    lost: Mapped[int] = mapped_column(default=0, server_default=text("0"))  # claims of this step whose lease ran out
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    reason: Mapped[str | None]
    series_chosen: Mapped[Strings]
    series_refused: Mapped[Pairs]
    series_scores: Mapped[FactRows] = mapped_column(server_default=text("'[]'::jsonb"))  # what each rule said of each stack
    series_ranked: Mapped[FactRows] = mapped_column(server_default=text("'[]'::jsonb"))  # see `store/ranking.py`
    files: Mapped[Strings]
    region: Mapped[str]
    is_phantom: Mapped[bool]
    completeness: Mapped[str] = mapped_column(default="", server_default="")  # empty when complete, else why not
    evidence: Mapped[Facts] = mapped_column(server_default=NO_FACTS)
    cause: Mapped[str] = mapped_column(default="", server_default="")  # why this revision was made, see `pipeline.renewing.Cause`
    features_path: Mapped[str | None]
    encoder: Mapped[str | None]
    encoder_version: Mapped[str | None]
    created_at: Mapped[Now]
    encoding_at: Mapped[datetime | None]
    encoded_at: Mapped[datetime | None]
    drafting_at: Mapped[datetime | None]
    ended_at: Mapped[datetime | None]


class RoundRow(Base):
    """When something that the whole site does once per period was last done, whoever did it."""

    __tablename__ = "rounds"
    name: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[Now]


class AuditRow(Base):
    """One event. A trigger forbids changing or removing rows; no foreign keys, so that the trail outlives what it tells of."""

    __tablename__ = "audit"
    __table_args__ = (
        Index("ix_audit_study_id_id", "study_id", "id"),
        Index("ix_audit_at", "at"),
    )
    id: Mapped[int] = mapped_column(BigInteger, Identity(always=True), primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    actor: Mapped[str]
    action: Mapped[str]
    study_id: Mapped[uuid.UUID | None]
    job_id: Mapped[uuid.UUID | None]
    detail: Mapped[dict[str, str]]
