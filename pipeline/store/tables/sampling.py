"""The nightly quality samples: each night, the drafts that were measured, and what drifted."""

from __future__ import annotations

import uuid
from datetime import date, datetime

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Text, false
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.sampling import Chart
from pipeline.store.tables.base import NO_FACTS, NO_ROWS, Base, FactRows, Now, Readings

CHARTS = ", ".join(f"'{chart.value}'" for chart in Chart)


class SampleRow(Base):
    """One night. `anew`: the baseline begins with it."""

    __tablename__ = "samples"
    __table_args__ = (CheckConstraint("since < until AND share > 0 AND share <= 1 AND learning >= 0", name="sound"),)
    night: Mapped[date] = mapped_column(primary_key=True)
    since: Mapped[datetime]
    until: Mapped[datetime]
    share: Mapped[float]
    seed: Mapped[int]
    strata: Mapped[FactRows] = mapped_column(server_default=NO_ROWS)  # department, scanner, drafts, sampled
    learning: Mapped[int] = mapped_column(server_default="0")
    anew: Mapped[bool] = mapped_column(server_default=false())
    created_at: Mapped[Now]


class SampledDraftRow(Base):
    """The figures of one draft. They outlive a draft that is removed: no foreign key to it."""

    __tablename__ = "sampled_drafts"
    night: Mapped[date] = mapped_column(ForeignKey("samples.night", ondelete="CASCADE"), primary_key=True)
    draft_id: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    department: Mapped[str]
    scanner: Mapped[str]
    model: Mapped[str]
    rules_version: Mapped[int]
    figures: Mapped[Readings] = mapped_column(server_default=NO_FACTS)  # see sampling.FIGURES; null: nothing to measure


class SampleAlarmRow(Base):
    """One figure of one group of drafts that left its limits. The first is the worst."""

    __tablename__ = "sample_alarms"
    __table_args__ = (CheckConstraint(f"chart IN ({CHARTS})", name="chart"),)
    night: Mapped[date] = mapped_column(ForeignKey("samples.night", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    figure: Mapped[str]
    chart: Mapped[str]
    scanners: Mapped[list[str]] = mapped_column(ARRAY(Text))
    departments: Mapped[list[str]] = mapped_column(ARRAY(Text))
    models: Mapped[list[str]] = mapped_column(ARRAY(Text))
    rules_versions: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))
    value: Mapped[float]
    expected: Mapped[float]
    limit_at: Mapped[float]
    drafts: Mapped[int]
    baseline_drafts: Mapped[int]
    fresh: Mapped[list[str]] = mapped_column(ARRAY(Text))
