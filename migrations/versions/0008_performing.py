"""What modalities tell beside images: performed procedure steps (MPPS), and storage commitments that they asked for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "performed_steps",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("sop_uid", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("calling_aet", sa.Text(), nullable=False),
        sa.Column("modality", sa.Text(), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("expected", postgresql.JSONB(), nullable=False),
        sa.CheckConstraint("status IN ('IN PROGRESS', 'COMPLETED', 'DISCONTINUED')", name=op.f("ck_performed_steps_status")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_performed_steps")),
        sa.UniqueConstraint("sop_uid", name=op.f("uq_performed_steps_sop_uid")),
    )
    op.create_table(
        "performed_step_studies",
        sa.Column("step_id", sa.Uuid(), nullable=False),
        sa.Column("study_uid", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["step_id"], ["performed_steps.id"], name=op.f("fk_performed_step_studies_step_id_performed_steps")),
        sa.PrimaryKeyConstraint("step_id", "study_uid", name=op.f("pk_performed_step_studies")),
    )
    op.create_index("ix_performed_step_studies_study_uid", "performed_step_studies", ["study_uid"], unique=False)
    op.create_table(
        "commitments",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("transaction_uid", sa.Text(), nullable=False),
        sa.Column("calling_aet", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("association_id", sa.Uuid(), nullable=True),
        sa.Column("requested", postgresql.JSONB(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("failures", sa.BigInteger(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("reported_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name=op.f("ck_commitments_lease")),
        sa.CheckConstraint("(state = 'reported') = (reported_at IS NOT NULL)", name=op.f("ck_commitments_reported")),
        sa.CheckConstraint("attempts >= 0", name=op.f("ck_commitments_counts")),
        sa.CheckConstraint("state IN ('waiting', 'reported', 'failed')", name=op.f("ck_commitments_state")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_commitments")),
        sa.UniqueConstraint("transaction_uid", "calling_aet", name=op.f("uq_commitments_transaction_uid_calling_aet")),
    )
    op.create_index("ix_commitments_due", "commitments", ["due_at"], unique=False, postgresql_where=sa.text("state = 'waiting'"))


def downgrade() -> None:
    op.drop_table("commitments")
    op.drop_table("performed_step_studies")
    op.drop_table("performed_steps")
