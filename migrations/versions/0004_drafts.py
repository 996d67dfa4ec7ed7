"""What readers get: drafts, findings, flags, reports, deliveries."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "drafts",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("job_id", sa.Uuid(), nullable=False),
        sa.Column("department", sa.Text(), nullable=False),
        sa.Column("findings_text", sa.Text(), nullable=False),
        sa.Column("impression", sa.Text(), nullable=False),
        sa.Column("advice", sa.Text(), nullable=False),
        sa.Column("rung", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("model_digest", sa.Text(), nullable=False),
        sa.Column("phantom_only", sa.Boolean(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("verify_count", sa.BigInteger(), nullable=False),
        sa.Column("accepted_histogram", postgresql.ARRAY(sa.BigInteger()), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("rules_version", sa.BigInteger(), nullable=False),
        sa.Column("watermark", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("watermark <> ''", name=op.f("ck_drafts_watermark")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_drafts_job_id_jobs")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_drafts")),
        sa.UniqueConstraint("job_id", "department", name=op.f("uq_drafts_job_id_department")),
    )
    op.create_table(
        "draft_findings",
        sa.Column("draft_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("candidate", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.Column("lobe", sa.Text(), nullable=True),
        sa.Column("density", sa.Text(), nullable=True),
        sa.Column("size_mm", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_draft_findings_draft_id_drafts"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("draft_id", "position", name=op.f("pk_draft_findings")),
    )
    op.create_table(
        "draft_flags",
        sa.Column("draft_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("section", sa.Text(), nullable=False),
        sa.Column("start_at", sa.BigInteger(), nullable=False),
        sa.Column("end_at", sa.BigInteger(), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("original", sa.Text(), nullable=False),
        sa.CheckConstraint("severity IN ('replaced', 'flag', 'block')", name=op.f("ck_draft_flags_severity")),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_draft_flags_draft_id_drafts"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("draft_id", "position", name=op.f("pk_draft_flags")),
    )
    op.create_table(
        "reports",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("department", sa.Text(), nullable=False),
        sa.Column("draft_id", sa.Uuid(), nullable=False),
        sa.Column("demo_only", sa.Boolean(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reviewed_by", sa.Text(), nullable=True),
        sa.Column("reviewed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("written_by", sa.Text(), nullable=True),
        sa.Column("written_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("signed_by", sa.Text(), nullable=True),
        sa.Column("signed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("state IN ('waiting', 'reviewing', 'written', 'signed', 'amended', 'rejected')", name=op.f("ck_reports_state")),
        sa.CheckConstraint("state NOT IN ('signed', 'amended') OR (signed_by IS NOT NULL AND signed_at IS NOT NULL)", name=op.f("ck_reports_signed")),
        sa.CheckConstraint("NOT (demo_only AND state IN ('signed', 'amended'))", name=op.f("ck_reports_demo_never_signed")),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_reports_draft_id_drafts")),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_reports_study_id_studies")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_reports")),
        sa.UniqueConstraint("draft_id", name=op.f("uq_reports_draft_id")),
        sa.UniqueConstraint("study_id", "revision", "department", name=op.f("uq_reports_study_id_revision_department")),
    )
    op.create_index(
        "ix_reports_open", "reports", ["state", "created_at"], unique=False, postgresql_where=sa.text("state IN ('waiting', 'reviewing', 'written')")
    )
    op.create_table(
        "deliveries",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("draft_id", sa.Uuid(), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("target", sa.Text(), server_default="", nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("done_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('waiting', 'done', 'failed')", name=op.f("ck_deliveries_state")),
        sa.CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name=op.f("ck_deliveries_lease")),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_deliveries_draft_id_drafts")),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_deliveries_study_id_studies")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deliveries")),
        sa.UniqueConstraint("draft_id", "kind", "target", name=op.f("uq_deliveries_draft_id_kind_target")),
    )
    op.create_index("ix_deliveries_claim", "deliveries", ["due_at"], unique=False, postgresql_where=sa.text("state = 'waiting'"))
    op.create_index("ix_deliveries_lease_until", "deliveries", ["lease_until"], unique=False, postgresql_where=sa.text("lease_until IS NOT NULL"))


def downgrade() -> None:
    op.drop_table("deliveries")
    op.drop_table("reports")
    op.drop_table("draft_flags")
    op.drop_table("draft_findings")
    op.drop_table("drafts")
