"""Rules as numbered versions, and dose events."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rule_versions",
        sa.Column("version", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("note", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("version", name=op.f("pk_rule_versions")),
    )
    op.create_table(
        "rule_terms",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("forbidden", sa.Text(), nullable=False),
        sa.Column("standard", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["version"], ["rule_versions.version"], name=op.f("fk_rule_terms_version_rule_versions")),
        sa.PrimaryKeyConstraint("version", "forbidden", name=op.f("pk_rule_terms")),
    )
    op.create_table(
        "dose_rules",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("window_months", sa.BigInteger(), nullable=False),
        sa.Column("threshold_msv", sa.Double(), nullable=False),
        sa.Column("triggers", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.CheckConstraint("window_months > 0 AND threshold_msv >= 0", name=op.f("ck_dose_rules_limits")),
        sa.ForeignKeyConstraint(["version"], ["rule_versions.version"], name=op.f("fk_dose_rules_version_rule_versions")),
        sa.PrimaryKeyConstraint("version", "id", name=op.f("pk_dose_rules")),
    )
    op.create_table(
        "dose_events",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("event_uid", sa.Text(), nullable=False),
        sa.Column("patient_id", sa.Uuid(), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=True),
        sa.Column("exam_date", sa.Date(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("dlp_mgy_cm", sa.Double(), nullable=False),
        sa.Column("msv", sa.Double(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.CheckConstraint("dlp_mgy_cm >= 0 AND msv >= 0", name=op.f("ck_dose_events_dose")),
        sa.ForeignKeyConstraint(["patient_id"], ["patients.id"], name=op.f("fk_dose_events_patient_id_patients")),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_dose_events_study_id_studies")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_dose_events")),
        sa.UniqueConstraint("patient_id", "event_uid", name=op.f("uq_dose_events_patient_id_event_uid")),
    )
    op.create_index(op.f("ix_dose_events_patient_id"), "dose_events", ["patient_id"], unique=False)
    op.create_index("ix_dose_events_patient_id_exam_date", "dose_events", ["patient_id", "exam_date"], unique=False)
    op.create_index("ix_dose_events_study_id", "dose_events", ["study_id"], unique=False)


def downgrade() -> None:
    op.drop_table("dose_events")
    op.drop_table("dose_rules")
    op.drop_table("rule_terms")
    op.drop_table("rule_versions")
