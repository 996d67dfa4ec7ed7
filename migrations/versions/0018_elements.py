"""What a report holds of each finding besides its drafter's words: segment, shape, enhancement, advice, grading, probability, slice, and sources."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

TEXTS = ("segment", "shape", "enhancement", "advice", "slice_sop_uid")
ANSWERS = ("grading", "malignancy")


def upgrade() -> None:
    for column in TEXTS:
        op.add_column("draft_findings", sa.Column(column, sa.Text(), nullable=True))
    op.add_column("draft_findings", sa.Column("slice_frame", sa.BigInteger(), nullable=True))
    for column in ANSWERS:
        op.add_column("draft_findings", sa.Column(column, JSONB(none_as_null=True), nullable=True))
    op.add_column("draft_findings", sa.Column("sources", JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False))


def downgrade() -> None:
    for column in ("sources", *reversed(ANSWERS), "slice_frame", *reversed(TEXTS)):
        op.drop_column("draft_findings", column)
