"""Nightly quality samples: each night, what was measured of its drafts, and what drifted."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "samples",
        sa.Column("night", sa.Date(), nullable=False),
        sa.Column("since", TIME, nullable=False),
        sa.Column("until", TIME, nullable=False),
        sa.Column("share", sa.Double(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("strata", JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column("learning", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("anew", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("since < until AND share > 0 AND share <= 1 AND learning >= 0", name=op.f("ck_samples_sound")),
        sa.PrimaryKeyConstraint("night", name=op.f("pk_samples")),
    )
    op.create_table(
        "sampled_drafts",
        sa.Column("night", sa.Date(), nullable=False),
        sa.Column("draft_id", sa.Uuid(), nullable=False),
        sa.Column("department", sa.Text(), nullable=False),
        sa.Column("scanner", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("rules_version", sa.BigInteger(), nullable=False),
        sa.Column("figures", JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.ForeignKeyConstraint(["night"], ["samples.night"], name=op.f("fk_sampled_drafts_night_samples"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("night", "draft_id", name=op.f("pk_sampled_drafts")),
    )
    op.create_table(
        "sample_alarms",
        sa.Column("night", sa.Date(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("figure", sa.Text(), nullable=False),
        sa.Column("chart", sa.Text(), nullable=False),
        sa.Column("scanners", ARRAY(sa.Text()), nullable=False),
        sa.Column("departments", ARRAY(sa.Text()), nullable=False),
        sa.Column("models", ARRAY(sa.Text()), nullable=False),
        sa.Column("rules_versions", ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.Column("expected", sa.Double(), nullable=False),
        sa.Column("limit_at", sa.Double(), nullable=False),
        sa.Column("drafts", sa.BigInteger(), nullable=False),
        sa.Column("baseline_drafts", sa.BigInteger(), nullable=False),
        sa.Column("fresh", ARRAY(sa.Text()), nullable=False),
        sa.CheckConstraint("chart IN ('jump', 'trend')", name=op.f("ck_sample_alarms_chart")),
        sa.ForeignKeyConstraint(["night"], ["samples.night"], name=op.f("fk_sample_alarms_night_samples"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("night", "position", name=op.f("pk_sample_alarms")),
    )


def downgrade() -> None:
    for table in ("sample_alarms", "sampled_drafts", "samples"):
        op.drop_table(table)
