"""Margin, inner structure and surroundings of a finding, how a text was generated in full, and how far its images lie from what was validated."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

FINDING = ("margin", "internal", "surround")
CANDIDATE = (("margin", sa.Text()), ("calcified", sa.Boolean()), ("retraction", sa.Boolean()))
GENERATION = (("positions", "'[]'::jsonb"), ("sections", "'{}'::jsonb"), ("sources", "'{}'::jsonb"))


def upgrade() -> None:
    for column in FINDING:
        op.add_column("draft_findings", sa.Column(column, sa.Text(), nullable=True))
    for column, kind in CANDIDATE:
        op.add_column("draft_candidates", sa.Column(column, kind, nullable=True))
    op.add_column("drafts", sa.Column("forced", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    for column, nothing in GENERATION:
        op.add_column("drafts", sa.Column(column, postgresql.JSONB(), server_default=sa.text(nothing), nullable=False))
    op.add_column("drafts", sa.Column("ood", sa.Double(), nullable=True))


def downgrade() -> None:
    for column in ("ood", *(name for name, _ in reversed(GENERATION)), "forced"):
        op.drop_column("drafts", column)
    for column, _ in reversed(CANDIDATE):
        op.drop_column("draft_candidates", column)
    for column in reversed(FINDING):
        op.drop_column("draft_findings", column)
