"""What readers get: drafts with their findings and flags, the reports that readers move, and deliveries."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.model import ReportState, Severity
from pipeline.store.tables.base import (
    NO_FACTS,
    NO_ROWS,
    Base,
    CountRows,
    Counts,
    DeliveryState,
    Facts,
    Id,
    Now,
    Optionals,
    StudyKey,
    lease_whole,
    states,
)

RESOLVED = "resolved_at IS NOT NULL AND resolved_by IS NOT NULL AND resolution IS NOT NULL AND resolved_by <> '' AND resolution <> ''"
SEVERITIES = ", ".join(f"'{severity.value}'" for severity in Severity)


class DraftRow(Base):
    """A checked draft: its text, where it came from, how it was generated. Once written, only a dose warning may still join or leave 建议, while
    nobody has touched the report."""

    __tablename__ = "drafts"
    __table_args__ = (
        UniqueConstraint("job_id", "department"),
        CheckConstraint("watermark <> ''", name="watermark"),
        Index("ix_drafts_created_at", "created_at"),
    )
    id: Mapped[Id]
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id"))
    department: Mapped[str]
    findings_text: Mapped[str]
    impression: Mapped[str]
    advice: Mapped[str]
    rung: Mapped[str]
    model: Mapped[str]
    model_digest: Mapped[str]
    phantom_only: Mapped[bool]
    tokens: Mapped[int]
    verify_count: Mapped[int]
    accepted_histogram: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    seconds: Mapped[float]
    rules_version: Mapped[int]
    watermark: Mapped[str]
    created_at: Mapped[Now]
    forced: Mapped[int] = mapped_column(default=0, server_default=text("0"))  # tokens that the grammar left no choice about
    positions: Mapped[CountRows] = mapped_column(server_default=NO_ROWS)  # drafted and accepted at position 1, 2, … of a draft
    sections: Mapped[Counts] = mapped_column(server_default=NO_FACTS)  # section → tokens, drafted, accepted
    sources: Mapped[Counts] = mapped_column(server_default=NO_FACTS)  # mtp, lookup → drafted, accepted
    ood: Mapped[float | None]  # distance of the images from those that the encoder was validated on; null where nobody measured
    server: Mapped[str] = mapped_column(default="", server_default=text("''"))  # name and version; empty: embedded
    speculation: Mapped[str] = mapped_column(default="", server_default=text("''"))  # how the server drafts, as it reports it
    first_token_s: Mapped[float | None]
    indication: Mapped[str | None]  # what the order said when it was written; null where nobody noted it
    rechecked_version: Mapped[int | None]  # of the rules that could not look at it again
    k: Mapped[Optionals] = mapped_column(server_default=NO_FACTS)  # section (empty: the whole report) → drafted per step; null: as it paid


class FrozenFindingsRow(Base):
    """The findings of one revision, made once; every department's text is written from them. `source` and `generation`: as in `model`."""

    __tablename__ = "frozen_findings"
    job_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("jobs.id"), primary_key=True)
    text: Mapped[str]
    source: Mapped[Facts]
    generation: Mapped[Facts]
    created_at: Mapped[Now]


class FindingRow(Base):
    """One structured finding of a draft, in its order."""

    __tablename__ = "draft_findings"
    draft_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("drafts.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    candidate: Mapped[int | None]
    kind: Mapped[str]
    side: Mapped[str]
    lobe: Mapped[str | None]
    density: Mapped[str | None]
    size_mm: Mapped[int | None]
    margin: Mapped[str | None]
    internal: Mapped[str | None]
    surround: Mapped[str | None]
    segment: Mapped[str | None]  # from here on: what the drafter did not write, see `checking.Elements`
    shape: Mapped[str | None]
    enhancement: Mapped[str | None]
    advice: Mapped[str | None]
    slice_sop_uid: Mapped[str | None]
    slice_frame: Mapped[int | None]
    grading: Mapped[Facts | None] = mapped_column(JSONB(none_as_null=True))
    malignancy: Mapped[Facts | None] = mapped_column(JSONB(none_as_null=True))
    sources: Mapped[dict[str, str]] = mapped_column(server_default=NO_FACTS)  # element → measured, draft, text, guideline or formula


class FlagRow(Base):
    """One rule hit of a draft; `start_at:end_at` are character offsets into the section's own text."""

    __tablename__ = "draft_flags"
    __table_args__ = (
        CheckConstraint(f"severity IN ({SEVERITIES})", name="severity"),
        CheckConstraint(f"resolved_at IS NULL AND resolved_by IS NULL AND resolution IS NULL OR {RESOLVED}", name="resolved"),
    )
    draft_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("drafts.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    rule: Mapped[str]
    version: Mapped[int]
    severity: Mapped[str]
    section: Mapped[str]
    start_at: Mapped[int]
    end_at: Mapped[int]
    message: Mapped[str]
    original: Mapped[str]
    resolved_by: Mapped[str | None]  # of a blocking one: who answers for it, when, and why
    resolved_at: Mapped[datetime | None]
    resolution: Mapped[str | None]


class ReportRow(Base):
    """One revision's report of one department, as readers move it."""

    __tablename__ = "reports"
    __table_args__ = (
        UniqueConstraint("study_id", "revision", "department"),
        UniqueConstraint("draft_id"),
        states(ReportState),
        CheckConstraint("state NOT IN ('signed', 'amended') OR (signed_by IS NOT NULL AND signed_at IS NOT NULL)", name="signed"),
        CheckConstraint("NOT (demo_only AND state IN ('signed', 'amended'))", name="demo_never_signed"),
        Index("ix_reports_reviewed_at", "reviewed_at", postgresql_where=text("reviewed_at IS NOT NULL")),
        Index("ix_reports_open", "state", "created_at", postgresql_where=text("state IN ('waiting', 'reviewing', 'written')")),
    )
    id: Mapped[Id]
    study_id: Mapped[StudyKey]
    revision: Mapped[int]
    department: Mapped[str]
    draft_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("drafts.id"))
    demo_only: Mapped[bool]  # a phantom-only model wrote it for a real study
    state: Mapped[str] = mapped_column(default=ReportState.WAITING.value)
    reviewed_by: Mapped[str | None]
    reviewed_at: Mapped[datetime | None]
    written_by: Mapped[str | None]
    written_at: Mapped[datetime | None]
    signed_by: Mapped[str | None]
    signed_at: Mapped[datetime | None]
    created_at: Mapped[Now]


class DeliveryRow(Base):
    """One draft that somebody asked for, on its way there under a lease."""

    __tablename__ = "deliveries"
    __table_args__ = (
        UniqueConstraint("draft_id", "kind", "target"),
        states(DeliveryState),
        lease_whole(),
        Index("ix_deliveries_claim", "due_at", postgresql_where=text("state = 'waiting'")),
        Index("ix_deliveries_lease_until", "lease_until", postgresql_where=text("lease_until IS NOT NULL")),
    )
    id: Mapped[Id]
    draft_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("drafts.id"))
    study_id: Mapped[StudyKey]
    kind: Mapped[str]
    target: Mapped[str] = mapped_column(default="", server_default="")
    state: Mapped[str] = mapped_column(default=DeliveryState.WAITING.value)
    due_at: Mapped[Now]
    attempts: Mapped[int] = mapped_column(default=0)
    lease_owner: Mapped[str | None]
    lease_until: Mapped[datetime | None]
    reason: Mapped[str | None]
    created_at: Mapped[Now]
    done_at: Mapped[datetime | None]
