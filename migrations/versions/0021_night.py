"""The night shift: plans as rows, when studies are expected to be read; and incremental work: why a revision was made, what changed in a draft."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.add_column("studies", sa.Column("renewal", sa.Text(), server_default=sa.text("''"), nullable=False))
    op.add_column("jobs", sa.Column("cause", sa.Text(), server_default=sa.text("''"), nullable=False))
    op.add_column("drafts", sa.Column("indication", sa.Text(), nullable=True))
    op.add_column("drafts", sa.Column("rechecked_version", sa.BigInteger(), nullable=True))
    _plans()
    _expected()
    _changes()
    # the morning report asks for what was drafted, arrived, opened and signed in a span of time
    op.create_index("ix_drafts_created_at", "drafts", ["created_at"])
    op.create_index("ix_reports_reviewed_at", "reports", ["reviewed_at"], postgresql_where=sa.text("reviewed_at IS NOT NULL"))


def _plans() -> None:
    op.create_table(
        "night_plans",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("opens_at", TIME, nullable=False),
        sa.Column("closes_at", TIME, nullable=False),
        sa.Column("first_reader_at", TIME, nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("planned_at", TIME, nullable=True),
        sa.Column("ended_at", TIME, nullable=True),
        sa.Column("pace", JSONB(), server_default=sa.text("'{}'::jsonb"), nullable=False),
        sa.CheckConstraint("opens_at < closes_at", name=op.f("ck_night_plans_window")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_night_plans")),
        sa.UniqueConstraint("opens_at", name=op.f("uq_night_plans_opens_at")),
    )
    op.create_table(
        "night_items",
        sa.Column("plan_id", sa.Uuid(), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("reads_at", TIME, nullable=True),
        sa.Column("expected_at", TIME, nullable=False),
        sa.Column("added_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("kind IN ('unread', 'prior', 'backlog')", name=op.f("ck_night_items_kind")),
        sa.ForeignKeyConstraint(["plan_id"], ["night_plans.id"], name=op.f("fk_night_items_plan_id_night_plans"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_night_items_study_id_studies")),
        sa.PrimaryKeyConstraint("plan_id", "study_id", name=op.f("pk_night_items")),
    )


def _expected() -> None:
    op.create_table(
        "expected_readings",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("patient_id", sa.Text(), nullable=False),
        sa.Column("accession", sa.Text(), server_default=sa.text("''"), nullable=False),
        sa.Column("reads_at", TIME, nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.CheckConstraint("patient_id <> '' OR accession <> ''", name=op.f("ck_expected_readings_named")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_expected_readings")),
        sa.UniqueConstraint("patient_id", "accession", "reads_at", name=op.f("uq_expected_readings_patient_id_accession_reads_at")),
    )
    op.create_index("ix_expected_readings_accession", "expected_readings", ["accession", "reads_at"], postgresql_where=sa.text("accession <> ''"))


def _changes() -> None:
    op.create_table(
        "draft_changes",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("draft_id", sa.Uuid(), nullable=False),
        sa.Column("at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("section", sa.Text(), nullable=False),
        sa.Column("before", sa.Text(), nullable=False),
        sa.Column("after", sa.Text(), nullable=False),
        sa.Column("applied", sa.Boolean(), nullable=False),
        sa.CheckConstraint("cause IN ('images', 'order', 'rerun', 'rules')", name=op.f("ck_draft_changes_cause")),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_draft_changes_draft_id_drafts"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_draft_changes")),
    )
    op.create_index("ix_draft_changes_draft_id", "draft_changes", ["draft_id"])


def downgrade() -> None:
    op.drop_index("ix_reports_reviewed_at", table_name="reports")
    op.drop_index("ix_drafts_created_at", table_name="drafts")
    for table in ("draft_changes", "expected_readings", "night_items", "night_plans"):
        op.drop_table(table)
    op.drop_column("drafts", "rechecked_version")
    op.drop_column("drafts", "indication")
    op.drop_column("jobs", "cause")
    op.drop_column("studies", "renewal")
