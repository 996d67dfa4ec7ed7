"""Work: one job per study revision."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("series_chosen", postgresql.JSONB(), nullable=False),
        sa.Column("series_refused", postgresql.JSONB(), nullable=False),
        sa.Column("files", postgresql.JSONB(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("is_phantom", sa.Boolean(), nullable=False),
        sa.Column("features_path", sa.Text(), nullable=True),
        sa.Column("encoder", sa.Text(), nullable=True),
        sa.Column("encoder_version", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("encoding_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("encoded_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("drafting_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('encoding', 'drafting') OR lease_owner IS NULL", name=op.f("ck_jobs_lease_state")),
        sa.CheckConstraint(
            "state IN ('ready', 'encoding', 'encoded', 'drafting', 'drafted', 'failed', 'superseded', 'unsupported')", name=op.f("ck_jobs_state")
        ),
        sa.CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name=op.f("ck_jobs_lease")),
        sa.CheckConstraint("revision >= 1 AND attempts >= 0", name=op.f("ck_jobs_counts")),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_jobs_study_id_studies")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint("study_id", "revision", name=op.f("uq_jobs_study_id_revision")),
    )
    op.create_index(
        "ix_jobs_claim",
        "jobs",
        ["state", "priority", "due_at"],
        unique=False,
        postgresql_where=sa.text("state IN ('ready', 'encoding', 'encoded', 'drafting')"),
    )
    op.create_index("ix_jobs_lease_until", "jobs", ["lease_until"], unique=False, postgresql_where=sa.text("lease_until IS NOT NULL"))


def downgrade() -> None:
    op.drop_table("jobs")
