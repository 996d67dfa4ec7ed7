"""Rules of a site about which series is read; they stand beside the built-in ones."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import CheckConstraint, Index, text
from sqlalchemy.orm import Mapped, mapped_column

from pipeline.choosing import RuleEffect
from pipeline.store.tables.base import Base, Now

EFFECTS = ", ".join(f"'{effect.value}'" for effect in RuleEffect)


class SeriesRuleRow(Base):
    """One rule of one version. Rules are never edited: a new version retires those in force, which are the ones with an empty `retired_at`."""

    __tablename__ = "series_rules"
    __table_args__ = (
        CheckConstraint(f"effect IN ({EFFECTS})", name="effect"),
        CheckConstraint("station <> '' OR study <> '' OR series <> ''", name="fits_something"),
        CheckConstraint("reason <> ''", name="reason"),
        Index("ix_series_rules_current", "version", "position", postgresql_where=text("retired_at IS NULL")),
    )
    version: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    effect: Mapped[str]
    station: Mapped[str]  # regular expressions, as in model.ChoiceRule
    study: Mapped[str]
    series: Mapped[str]
    points: Mapped[int]
    reason: Mapped[str]
    created_at: Mapped[Now]
    retired_at: Mapped[datetime | None]
