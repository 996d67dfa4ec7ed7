"""The night shift: one plan per off-peak window, the studies in it, and when patients are expected to be read."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.nightly import Kind
from pipeline.store.tables.base import NO_FACTS, Base, Facts, Id, Now

KINDS = ", ".join(f"'{kind.value}'" for kind in Kind)


class NightPlanRow(Base):
    """What one off-peak window is for; `pace` holds the measured seconds that its estimates rest on."""

    __tablename__ = "night_plans"
    __table_args__ = (UniqueConstraint("opens_at"), CheckConstraint("opens_at < closes_at", name="window"))
    id: Mapped[Id]
    opens_at: Mapped[datetime]
    closes_at: Mapped[datetime]
    first_reader_at: Mapped[datetime]
    created_at: Mapped[Now]
    planned_at: Mapped[datetime | None]  # when its order was last made
    ended_at: Mapped[datetime | None]
    pace: Mapped[Facts] = mapped_column(server_default=NO_FACTS)


class NightItemRow(Base):
    """One study of a plan, in its place; `expected_at` is when its draft should be there."""

    __tablename__ = "night_items"
    __table_args__ = (CheckConstraint(f"kind IN ({KINDS})", name="kind"),)
    plan_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("night_plans.id", ondelete="CASCADE"), primary_key=True)
    study_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("studies.id"), primary_key=True)
    position: Mapped[int]
    kind: Mapped[str]
    priority: Mapped[int]
    reads_at: Mapped[datetime | None]
    expected_at: Mapped[datetime]
    added_at: Mapped[Now]


class ExpectedReadingRow(Base):
    """When a patient, or the examination with an accession number, is expected to be read; as an appointment list says."""

    __tablename__ = "expected_readings"
    __table_args__ = (
        UniqueConstraint("patient_id", "accession", "reads_at"),
        CheckConstraint("patient_id <> '' OR accession <> ''", name="named"),
        Index("ix_expected_readings_reads_at", "reads_at"),
        Index("ix_expected_readings_accession", "accession", "reads_at", postgresql_where=text("accession <> ''")),
    )
    id: Mapped[Id]
    patient_id: Mapped[str]
    accession: Mapped[str] = mapped_column(server_default=text("''"))
    reads_at: Mapped[datetime]
    source: Mapped[str]
    created_at: Mapped[Now]
