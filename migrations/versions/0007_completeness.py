"""Completeness as evidence: what a study's verdict rests on, frozen with each revision; and images that a rejection note took back."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

EMPTY = sa.text("'{}'::jsonb")


def upgrade() -> None:
    op.add_column("studies", sa.Column("arriving_since", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False))
    op.add_column("studies", sa.Column("evidence", postgresql.JSONB(), server_default=EMPTY, nullable=False))
    op.add_column("studies", sa.Column("rejected_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("jobs", sa.Column("completeness", sa.Text(), server_default="", nullable=False))
    op.add_column("jobs", sa.Column("evidence", postgresql.JSONB(), server_default=EMPTY, nullable=False))
    op.add_column("study_associations", sa.Column("with_images", sa.Boolean(), server_default=sa.false(), nullable=False))
    op.create_table(
        "rejections",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("sop_uid", sa.Text(), nullable=False),
        sa.Column("study_uid", sa.Text(), nullable=False),
        sa.Column("ko_sop_uid", sa.Text(), nullable=False),
        sa.Column("ko_study_id", sa.Uuid(), nullable=False),
        sa.Column("code", sa.Text(), nullable=False),
        sa.Column("meaning", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["ko_study_id"], ["studies.id"], name=op.f("fk_rejections_ko_study_id_studies")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_rejections")),
        sa.UniqueConstraint("sop_uid", "ko_sop_uid", name=op.f("uq_rejections_sop_uid_ko_sop_uid")),
    )
    op.create_index("ix_rejections_study_uid", "rejections", ["study_uid"], unique=False)


def downgrade() -> None:
    op.drop_table("rejections")
    for table, column in (
        ("study_associations", "with_images"),
        ("jobs", "evidence"),
        ("jobs", "completeness"),
        ("studies", "rejected_at"),
        ("studies", "evidence"),
        ("studies", "arriving_since"),
    ):
        op.drop_column(table, column)
