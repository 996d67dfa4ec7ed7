"""The hospital's rules as whole, numbered versions, and the dose that each patient has had."""

from __future__ import annotations

import uuid
from datetime import date, datetime

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.irradiation import DoseReportState
from pipeline.store.tables.base import Base, Id, Now, PatientKey, Strings, states

NOTHING = text("'[]'::jsonb")
WINDOW = ["event_uid", "region", "dlp_mgy_cm", "msv", "k", "source", "doubt", "study_id"]


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


class LexiconEntryRow(Base):
    """One term of the lexicon; fields as in `pipeline.entry.Entry`."""

    __tablename__ = "lexicon_entries"
    __table_args__ = (CheckConstraint("term <> '' AND source <> '' AND side IN ('', '左', '右', '双')", name="entry"),)
    version: Mapped[int] = mapped_column(ForeignKey("rule_versions.version"), primary_key=True)
    term: Mapped[str] = mapped_column(primary_key=True)
    kind: Mapped[str]
    source: Mapped[str]
    synonyms: Mapped[list[str]] = mapped_column(ARRAY(Text))
    forbidden: Mapped[list[str]] = mapped_column(ARRAY(Text))
    side: Mapped[str]
    parent: Mapped[str]
    organ: Mapped[str]
    level: Mapped[str | None]
    scope: Mapped[str | None]
    tags: Mapped[list[str]] = mapped_column(ARRAY(Text))
    english: Mapped[str]


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
    region: Mapped[str] = mapped_column(server_default="")  # only events of this region count; empty: all
    min_age_years: Mapped[float | None]
    max_age_years: Mapped[float | None]


class DoseFactorRow(Base):
    """Effective dose per DLP of one region, age group and dosimetry phantom, with where it is published."""

    __tablename__ = "dose_factors"
    __table_args__ = (CheckConstraint("k > 0 AND k < 1 AND age_years >= 0 AND phantom_cm IN (16, 32) AND source <> ''", name="factor"),)
    version: Mapped[int] = mapped_column(ForeignKey("rule_versions.version"), primary_key=True)
    region: Mapped[str] = mapped_column(primary_key=True)
    age_years: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    phantom_cm: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    k: Mapped[float]  # mSv per mGy cm
    source: Mapped[str]


class DoseEventRow(Base):
    """One irradiation event of a patient; `study_id` is empty for an examination that never came here. Without a dose `msv` is empty, and
    it counts as missing."""

    __tablename__ = "dose_events"
    __table_args__ = (
        UniqueConstraint("patient_id", "event_uid"),
        CheckConstraint("dlp_mgy_cm >= 0 AND msv >= 0", name="dose"),
        # all that the dose warning reads of a patient's year stands in the index
        Index("ix_dose_events_window", "patient_id", "exam_date", postgresql_include=WINDOW),
        Index("ix_dose_events_study_id", "study_id"),
        Index("ix_dose_events_event_uid", "event_uid"),
        Index("ix_dose_events_instance_id", "instance_id", postgresql_where=text("instance_id IS NOT NULL")),
    )
    id: Mapped[Id]
    event_uid: Mapped[str]
    patient_id: Mapped[PatientKey]
    study_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("studies.id"))
    instance_id: Mapped[uuid.UUID | None] = mapped_column(ForeignKey("instances.id"))  # the dose report; empty for headers of images
    exam_date: Mapped[date]
    region: Mapped[str]
    ctdivol_mgy: Mapped[float | None]
    phantom_cm: Mapped[int | None]
    dlp_mgy_cm: Mapped[float | None]
    k: Mapped[float | None]
    msv: Mapped[float | None]
    source: Mapped[str]
    strength: Mapped[int] = mapped_column(server_default="0")  # of the source: a stronger one takes a weaker one's place
    doubt: Mapped[str] = mapped_column(server_default="")  # why it may not be this patient's; then it does not count, and is told
    notes: Mapped[Strings] = mapped_column(server_default=NOTHING)
    recorded_at: Mapped[Now]


class DoseReportRow(Base):
    """One dose object that arrived: a trigger on `instances` writes its row in the same transaction. waiting → recheck → read, or → unread."""

    __tablename__ = "dose_reports"
    __table_args__ = (
        states(DoseReportState),
        CheckConstraint("attempts >= 0 AND events >= 0", name="counts"),
        CheckConstraint("state <> 'unread' OR reason <> ''", name="reason"),
        Index("ix_dose_reports_due", "due_at", postgresql_where=text("state IN ('waiting', 'recheck')")),
    )
    instance_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("instances.id"), primary_key=True)
    state: Mapped[str] = mapped_column(server_default=DoseReportState.WAITING.value)
    due_at: Mapped[Now]
    attempts: Mapped[int] = mapped_column(server_default="0")
    events: Mapped[int] = mapped_column(server_default="0")
    reason: Mapped[str] = mapped_column(server_default="")  # why nothing was read; or what is odd about what was
    ended_at: Mapped[datetime | None]
