"""The hospital's rules as whole, numbered versions, and the dose that each patient has had."""

from __future__ import annotations

import uuid
from datetime import date

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, UniqueConstraint
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.store.tables.base import Base, Id, Now, PatientKey


class RuleVersionRow(Base):
    """One version of all rules; the highest is in force. A version is never edited: a change is a new one."""

    __tablename__ = "rule_versions"
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    actor: Mapped[str]
    note: Mapped[str]
    created_at: Mapped[Now]


class RuleTermRow(Base):
    """Forbidden form → standard term."""

    __tablename__ = "rule_terms"
    version: Mapped[int] = mapped_column(ForeignKey("rule_versions.version"), primary_key=True)
    forbidden: Mapped[str] = mapped_column(primary_key=True)
    standard: Mapped[str]


class DoseRuleRow(Base):
    """Warn past `threshold_msv` in `window_months` when the text holds a trigger."""

    __tablename__ = "dose_rules"
    __table_args__ = (CheckConstraint("window_months > 0 AND threshold_msv >= 0", name="limits"),)
    version: Mapped[int] = mapped_column(ForeignKey("rule_versions.version"), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    window_months: Mapped[int]
    threshold_msv: Mapped[float]
    triggers: Mapped[list[str]] = mapped_column(ARRAY(Text))
    message: Mapped[str]


class DoseEventRow(Base):
    """One irradiation event of a patient; `study_id` is empty for an examination that never came here."""

    __tablename__ = "dose_events"
    __table_args__ = (
        UniqueConstraint("patient_id", "event_uid"),
        CheckConstraint("dlp_mgy_cm >= 0 AND msv >= 0", name="dose"),
        Index("ix_dose_events_patient_id_exam_date", "patient_id", "exam_date"),
        Index("ix_dose_events_study_id", "study_id"),
    )
    id: Mapped[Id]
    event_uid: Mapped[str]
    patient_id: Mapped[PatientKey]
    study_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("studies.id"))
    exam_date: Mapped[date]
    region: Mapped[str]
    dlp_mgy_cm: Mapped[float]
    msv: Mapped[float]
    source: Mapped[str]
