"""What follows from a finding: critical findings and guidelines as rows of a rule version, alerts, and where a draft's regions lie."""

from __future__ import annotations

import uuid
from datetime import datetime

from sqlalchemy import CheckConstraint, Double, ForeignKey, Index, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.model import AlertState
from pipeline.store.tables.base import Base, Id, Now, StudyKey, states

RULE_VERSION = "rule_versions.version"
TOLD = "told_by IS NOT NULL AND received_by IS NOT NULL AND received_at IS NOT NULL AND method IS NOT NULL AND read_back IS NOT NULL"


class CriticalRuleRow(Base):
    """One finding that somebody must be told of at once; fields as in `pipeline.guidance.CriticalRule`."""

    __tablename__ = "critical_rules"
    __table_args__ = (
        CheckConstraint(
            "minutes BETWEEN 1 AND 1440 AND levels BETWEEN 1 AND 9 AND severity IN ('immediate', 'urgent') AND source <> ''", name="rule"
        ),
    )
    version: Mapped[int] = mapped_column(ForeignKey(RULE_VERSION), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    finding: Mapped[str]
    words: Mapped[list[str]] = mapped_column(ARRAY(Text))
    severity: Mapped[str]
    minutes: Mapped[int]
    source: Mapped[str]
    qualifiers: Mapped[list[str]] = mapped_column(ARRAY(Text))
    unless: Mapped[list[str]] = mapped_column(ARRAY(Text))
    percent: Mapped[int | None]
    levels: Mapped[int]


class GuidelineTableRow(Base):
    """One published table; its rows stand in `guideline_rows`."""

    __tablename__ = "guidelines"
    __table_args__ = (CheckConstraint("round_mm > 0 AND source <> ''", name="guideline"),)
    version: Mapped[int] = mapped_column(ForeignKey(RULE_VERSION), primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    name: Mapped[str]
    source: Mapped[str]
    enabled: Mapped[bool]
    population: Mapped[str | None]
    round_mm: Mapped[float]
    min_age_years: Mapped[float | None]
    excludes: Mapped[list[str]] = mapped_column(ARRAY(Text))
    growth_mm: Mapped[float | None]
    first_only: Mapped[bool]


class GuidelineLineRow(Base):
    """One row of a published table."""

    __tablename__ = "guideline_rows"
    __table_args__ = (CheckConstraint("source <> '' AND advice <> ''", name="row"),)
    version: Mapped[int] = mapped_column(ForeignKey(RULE_VERSION), primary_key=True)
    guideline: Mapped[str] = mapped_column(primary_key=True)
    id: Mapped[str] = mapped_column(primary_key=True)
    position: Mapped[int]
    source: Mapped[str]
    advice: Mapped[str]
    densities: Mapped[list[str]] = mapped_column(ARRAY(Text))
    count: Mapped[str | None]
    risk: Mapped[str | None]
    courses: Mapped[list[str]] = mapped_column(ARRAY(Text))
    from_mm: Mapped[float | None]
    below_mm: Mapped[float | None]
    solid_from_mm: Mapped[float | None]
    solid_below_mm: Mapped[float | None]
    category: Mapped[str]


class HistoryCueRow(Base):
    """Words of an indication that tell something of the patient."""

    __tablename__ = "history_cues"
    version: Mapped[int] = mapped_column(ForeignKey(RULE_VERSION), primary_key=True)
    input: Mapped[str] = mapped_column(primary_key=True)
    answer: Mapped[str] = mapped_column(primary_key=True)
    words: Mapped[list[str]] = mapped_column(ARRAY(Text))


class GrowthRuleRow(Base):
    """What counts as growth: one row per version."""

    __tablename__ = "growth_rules"
    __table_args__ = (CheckConstraint("min_growth_mm >= 0 AND thickness_factor >= 1 AND source <> ''", name="rule"),)
    version: Mapped[int] = mapped_column(ForeignKey(RULE_VERSION), primary_key=True)
    id: Mapped[str]
    source: Mapped[str]
    min_growth_mm: Mapped[float]
    repeatability_mm: Mapped[float]
    thickness_factor: Mapped[float]
    match_mm: Mapped[float]
    place_mm: Mapped[float]
    clear_ratio: Mapped[float]


class AlertRow(Base):
    """One suspected critical finding of one study: a later draft of it raises no second one. `level` climbs while nobody was told."""

    __tablename__ = "alerts"
    __table_args__ = (
        UniqueConstraint("study_id", "rule"),
        states(AlertState),
        CheckConstraint("severity IN ('immediate', 'urgent') AND minutes > 0 AND levels > 0 AND level BETWEEN 0 AND levels", name="level"),
        CheckConstraint(f"state <> 'acknowledged' OR ({TOLD})", name="told"),
        CheckConstraint("method IN ('电话', '当面', '系统')", name="method"),
        CheckConstraint("state <> 'waived' OR (waived_by <> '' AND waived_reason <> '' AND waived_at IS NOT NULL)", name="waived"),
        Index("ix_alerts_open", "due_at", postgresql_where=text("state = 'open'")),
    )
    id: Mapped[Id]
    study_id: Mapped[StudyKey]
    revision: Mapped[int]  # of the newest draft that speaks of it
    draft_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("drafts.id"))
    rule: Mapped[str]
    rules_version: Mapped[int]
    finding: Mapped[str]
    severity: Mapped[str]
    certain: Mapped[bool]  # False: the draft itself has doubts
    minutes: Mapped[int]
    levels: Mapped[int]
    state: Mapped[str] = mapped_column(default=AlertState.OPEN.value)
    seen_at: Mapped[Now]  # when the first draft that speaks of it was stored
    due_at: Mapped[datetime]
    level: Mapped[int] = mapped_column(default=0)
    escalated_at: Mapped[datetime | None]
    told_by: Mapped[str | None]
    received_by: Mapped[str | None]
    received_at: Mapped[datetime | None]
    method: Mapped[str | None]
    read_back: Mapped[bool | None]
    acknowledged_at: Mapped[datetime | None]  # when that was noted
    waived_by: Mapped[str | None]
    waived_reason: Mapped[str | None]
    waived_at: Mapped[datetime | None]


class DraftFrameRow(Base):
    """What makes the positions of a draft's regions comparable with another examination's: mm of patient LPS."""

    __tablename__ = "draft_frames"
    draft_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("drafts.id", ondelete="CASCADE"), primary_key=True)
    lungs_mm: Mapped[list[float]] = mapped_column(ARRAY(Double))  # x, y, z low, then high
    midline_mm: Mapped[float]
    step_mm: Mapped[float]
    thickness_mm: Mapped[float]
    covers: Mapped[list[str]] = mapped_column(ARRAY(Text))


class DraftCandidateRow(Base):
    """One region that the encoder proposed, and the size that the draft gives it where it speaks of it."""

    __tablename__ = "draft_candidates"
    draft_id: Mapped[uuid.UUID] = mapped_column(ForeignKey("drafts.id", ondelete="CASCADE"), primary_key=True)
    index: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    kind: Mapped[str]
    center_mm: Mapped[list[float]] = mapped_column(ARRAY(Double))  # patient LPS
    side: Mapped[str]
    lobe: Mapped[str]
    density: Mapped[str]
    size_mm: Mapped[float]
    stated_mm: Mapped[int | None]
    score: Mapped[float]
    margin: Mapped[str | None]
    calcified: Mapped[bool | None]
    retraction: Mapped[bool | None]
