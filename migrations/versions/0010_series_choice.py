"""Why each series was read or not, with its score; rules that a site puts before the built-in ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("instances", sa.Column("frames", sa.BigInteger(), server_default="1", nullable=False))
    op.add_column("instances", sa.Column("acquisition", sa.BigInteger(), nullable=True))
    op.add_column("instances", sa.Column("temporal", sa.BigInteger(), nullable=True))
    op.add_column("series", sa.Column("number", sa.BigInteger(), nullable=True))
    op.add_column("series", sa.Column("kvp", sa.Double(), nullable=True))
    op.add_column("series", sa.Column("contrast_agent", sa.Text(), server_default="", nullable=False))
    op.add_column("series", sa.Column("protocol", sa.Text(), server_default="", nullable=False))
    op.add_column("jobs", sa.Column("series_scores", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False))
    op.create_table(
        "series_rules",
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("effect", sa.Text(), nullable=False),
        sa.Column("station", sa.Text(), nullable=False),
        sa.Column("study", sa.Text(), nullable=False),
        sa.Column("series", sa.Text(), nullable=False),
        sa.Column("points", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("retired_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("effect IN ('prefer', 'refuse', 'points')", name=op.f("ck_series_rules_effect")),
        sa.CheckConstraint("station <> '' OR study <> '' OR series <> ''", name=op.f("ck_series_rules_fits_something")),
        sa.CheckConstraint("reason <> ''", name=op.f("ck_series_rules_reason")),
        sa.PrimaryKeyConstraint("version", "position", name=op.f("pk_series_rules")),
    )
    op.create_index("ix_series_rules_current", "series_rules", ["version", "position"], postgresql_where=sa.text("retired_at IS NULL"))


def downgrade() -> None:
    op.drop_table("series_rules")
    op.drop_column("jobs", "series_scores")
    for column in ("protocol", "contrast_agent", "kvp", "number"):
        op.drop_column("series", column)
    for column in ("temporal", "acquisition", "frames"):
        op.drop_column("instances", column)
