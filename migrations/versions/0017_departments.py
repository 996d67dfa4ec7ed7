"""Which department asked for an examination, the findings of each revision that every department's text is written from, and who drafted how."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

DRAFT = (("server", "''"), ("speculation", "''"))


def upgrade() -> None:
    op.add_column("studies", sa.Column("requesting_service", sa.Text(), server_default="", nullable=False))
    for column, nothing in DRAFT:
        op.add_column("drafts", sa.Column(column, sa.Text(), server_default=sa.text(nothing), nullable=False))
    op.add_column("drafts", sa.Column("first_token_s", sa.Double(), nullable=True))
    op.add_column("drafts", sa.Column("k", postgresql.JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False))
    op.create_table(
        "frozen_findings",
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("source", postgresql.JSONB(), nullable=False),
        sa.Column("generation", postgresql.JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_frozen_findings_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_frozen_findings")),
    )


def downgrade() -> None:
    op.drop_table("frozen_findings")
    for column in ("k", "first_token_s", "speculation", "server"):
        op.drop_column("drafts", column)
    op.drop_column("studies", "requesting_service")
