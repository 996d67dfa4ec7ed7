"""Drafts that somebody asked for: which department's text of which study, how many tokens are drafted per step, and how far it is."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "draft_requests",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("department", sa.Text(), nullable=False),
        sa.Column("lengths", JSONB(none_as_null=True), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("due_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", TIME, nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=True),
        sa.Column("section", sa.Text(), nullable=False),
        sa.Column("tokens", sa.BigInteger(), nullable=False),
        sa.Column("draft_id", sa.Uuid(), nullable=True),
        sa.Column("created_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", TIME, nullable=True),
        sa.CheckConstraint("state IN ('waiting', 'drafting', 'drafted', 'failed')", name=op.f("ck_draft_requests_state")),
        sa.CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name=op.f("ck_draft_requests_lease")),
        sa.CheckConstraint("attempts >= 0 AND tokens >= 0", name=op.f("ck_draft_requests_counts")),
        sa.CheckConstraint("(state = 'drafting') = (lease_owner IS NOT NULL)", name=op.f("ck_draft_requests_lease_state")),
        sa.CheckConstraint(
            "(state = 'drafted') = (draft_id IS NOT NULL) AND (state = 'waiting' OR revision IS NOT NULL)", name=op.f("ck_draft_requests_draft")
        ),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_draft_requests_study_id_studies")),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_draft_requests_draft_id_drafts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_draft_requests")),
    )
    is_open, waiting = sa.text("state IN ('waiting', 'drafting')"), sa.text("state = 'waiting'")
    op.create_index("uq_draft_requests_open", "draft_requests", ["study_id", "department"], unique=True, postgresql_where=is_open)
    op.create_index("ix_draft_requests_claim", "draft_requests", ["due_at"], postgresql_where=waiting)
    op.create_index("ix_draft_requests_lease_until", "draft_requests", ["lease_until"], postgresql_where=sa.text("lease_until IS NOT NULL"))
    op.create_index("ix_draft_requests_created_at", "draft_requests", ["created_at"])


def downgrade() -> None:
    op.drop_table("draft_requests")
