"""Irradiation events as dose reports give them, and the factors that turn them into effective dose."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

WINDOW = ["event_uid", "region", "dlp_mgy_cm", "msv", "k", "source", "doubt", "study_id"]

# A dose object's row is written by the very statement that registers it, whoever registers it and however: none is forgotten.
NOTE = """
CREATE FUNCTION note_dose_report() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO dose_reports (instance_id) VALUES (NEW.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$
"""
TRIGGER = """
CREATE TRIGGER instances_dose_report AFTER INSERT ON instances
FOR EACH ROW WHEN (NEW.content <> '' AND NEW.is_first) EXECUTE FUNCTION note_dose_report()
"""


def upgrade() -> None:
    op.create_table(
        "dose_factors",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("region", sa.Text(), nullable=False),
        sa.Column("age_years", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("phantom_cm", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("k", sa.Double(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "k > 0 AND k < 1 AND age_years >= 0 AND phantom_cm IN (16, 32) AND source <> ''",
            name=op.f("ck_dose_factors_factor"),
        ),
        sa.ForeignKeyConstraint(["version"], ["rule_versions.version"], name=op.f("fk_dose_factors_version_rule_versions")),
        sa.PrimaryKeyConstraint("version", "region", "age_years", "phantom_cm", name=op.f("pk_dose_factors")),
    )
    op.add_column("dose_rules", sa.Column("region", sa.Text(), server_default="", nullable=False))
    op.add_column("dose_rules", sa.Column("min_age_years", sa.Double(), nullable=True))
    op.add_column("dose_rules", sa.Column("max_age_years", sa.Double(), nullable=True))
    _events()
    _reports()


def _events() -> None:
    for column in (
        sa.Column("instance_id", sa.Uuid(), nullable=True),
        sa.Column("ctdivol_mgy", sa.Double(), nullable=True),
        sa.Column("phantom_cm", sa.BigInteger(), nullable=True),
        sa.Column("k", sa.Double(), nullable=True),
        sa.Column("strength", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("doubt", sa.Text(), server_default="", nullable=False),
        sa.Column("notes", postgresql.JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column("recorded_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
    ):
        op.add_column("dose_events", column)
    op.alter_column("dose_events", "dlp_mgy_cm", nullable=True)
    op.alter_column("dose_events", "msv", nullable=True)
    op.create_foreign_key(op.f("fk_dose_events_instance_id_instances"), "dose_events", "instances", ["instance_id"], ["id"])
    op.drop_index("ix_dose_events_patient_id_exam_date", table_name="dose_events")
    op.create_index("ix_dose_events_window", "dose_events", ["patient_id", "exam_date"], postgresql_include=WINDOW)
    op.create_index("ix_dose_events_event_uid", "dose_events", ["event_uid"])
    op.create_index("ix_dose_events_instance_id", "dose_events", ["instance_id"], postgresql_where=sa.text("instance_id IS NOT NULL"))


def _reports() -> None:
    op.create_table(
        "dose_reports",
        sa.Column("instance_id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.Text(), server_default="waiting", nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("attempts", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("events", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("reason", sa.Text(), server_default="", nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.CheckConstraint("state IN ('waiting', 'recheck', 'read', 'unread')", name=op.f("ck_dose_reports_state")),
        sa.CheckConstraint("attempts >= 0 AND events >= 0", name=op.f("ck_dose_reports_counts")),
        sa.CheckConstraint("state <> 'unread' OR reason <> ''", name=op.f("ck_dose_reports_reason")),
        sa.ForeignKeyConstraint(["instance_id"], ["instances.id"], name=op.f("fk_dose_reports_instance_id_instances")),
        sa.PrimaryKeyConstraint("instance_id", name=op.f("pk_dose_reports")),
    )
    op.create_index("ix_dose_reports_due", "dose_reports", ["due_at"], postgresql_where=sa.text("state IN ('waiting', 'recheck')"))
    op.execute("INSERT INTO dose_reports (instance_id) SELECT id FROM instances WHERE content <> '' AND is_first")
    op.execute(NOTE)
    op.execute(TRIGGER)


def downgrade() -> None:
    op.execute("DROP TRIGGER instances_dose_report ON instances")
    op.execute("DROP FUNCTION note_dose_report()")
    op.drop_table("dose_reports")
    op.drop_index("ix_dose_events_instance_id", table_name="dose_events")
    op.drop_index("ix_dose_events_event_uid", table_name="dose_events")
    op.drop_index("ix_dose_events_window", table_name="dose_events")
    op.create_index("ix_dose_events_patient_id_exam_date", "dose_events", ["patient_id", "exam_date"])
    op.drop_constraint(op.f("fk_dose_events_instance_id_instances"), "dose_events")
    # before this revision an event without a dose could not stand here
    op.execute("DELETE FROM dose_events WHERE dlp_mgy_cm IS NULL OR msv IS NULL")
    op.alter_column("dose_events", "dlp_mgy_cm", nullable=False)
    op.alter_column("dose_events", "msv", nullable=False)
    for column in ("recorded_at", "notes", "doubt", "strength", "k", "phantom_cm", "ctdivol_mgy", "instance_id"):
        op.drop_column("dose_events", column)
    for column in ("max_age_years", "min_age_years", "region"):
        op.drop_column("dose_rules", column)
    op.drop_table("dose_factors")
