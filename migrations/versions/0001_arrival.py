"""What arrived: patients, studies, series, instances, associations, quarantine."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "patients",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("patient_id", sa.Text(), nullable=False),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("name_guess", sa.Boolean(), nullable=False),
        sa.Column("birth_date", sa.Date(), nullable=True),
        sa.Column("sex", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_patients")),
        sa.UniqueConstraint("patient_id", "issuer", name=op.f("uq_patients_patient_id_issuer")),
    )
    op.create_table(
        "associations",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("listener", sa.Text(), nullable=False),
        sa.Column("calling_aet", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("opened_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("closed_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("how", sa.Text(), nullable=True),
        sa.CheckConstraint("(closed_at IS NULL) = (how IS NULL)", name=op.f("ck_associations_closed")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_associations")),
    )
    op.create_index("ix_associations_open", "associations", ["listener"], unique=False, postgresql_where=sa.text("closed_at IS NULL"))
    op.create_table(
        "studies",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("study_uid", sa.Text(), nullable=False),
        sa.Column("patient_id", sa.Uuid(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("images", sa.BigInteger(), nullable=False),
        sa.Column("accession", sa.Text(), nullable=False),
        sa.Column("study_date", sa.Date(), nullable=True),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("indication", sa.Text(), nullable=False),
        sa.Column("station", sa.Text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("first_received", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("last_received", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("attempts", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.Text(), nullable=True),
        sa.Column("lease_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint("state IN ('receiving', 'complete', 'partial', 'held', 'withdrawn')", name=op.f("ck_studies_state")),
        sa.CheckConstraint("(lease_owner IS NULL) = (lease_until IS NULL)", name=op.f("ck_studies_lease")),
        sa.CheckConstraint("revision >= 0 AND images >= 0 AND attempts >= 0", name=op.f("ck_studies_counts")),
        sa.ForeignKeyConstraint(["patient_id"], ["patients.id"], name=op.f("fk_studies_patient_id_patients")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_studies")),
        sa.UniqueConstraint("study_uid", name=op.f("uq_studies_study_uid")),
    )
    op.create_index("ix_studies_accession", "studies", ["accession"], unique=False)
    op.create_index("ix_studies_first_received", "studies", ["first_received"], unique=False)
    op.create_index("ix_studies_lease_until", "studies", ["lease_until"], unique=False, postgresql_where=sa.text("lease_until IS NOT NULL"))
    op.create_index(op.f("ix_studies_patient_id"), "studies", ["patient_id"], unique=False)
    op.create_index("ix_studies_quiet", "studies", ["last_received"], unique=False, postgresql_where=sa.text("state = 'receiving'"))
    op.create_table(
        "series",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("series_uid", sa.Text(), nullable=False),
        sa.Column("modality", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("body_part", sa.Text(), nullable=False),
        sa.Column("kernel", sa.Text(), nullable=False),
        sa.Column("thickness_mm", sa.Double(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_series_study_id_studies")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_series")),
        sa.UniqueConstraint("study_id", "series_uid", name=op.f("uq_series_study_id_series_uid")),
    )
    op.create_table(
        "study_associations",
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("association_id", sa.Uuid(), nullable=False),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_study_associations_study_id_studies")),
        sa.PrimaryKeyConstraint("study_id", "association_id", name=op.f("pk_study_associations")),
    )
    op.create_table(
        "instances",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("series_id", sa.Uuid(), nullable=False),
        sa.Column("association_id", sa.Uuid(), nullable=True),
        sa.Column("sop_uid", sa.Text(), nullable=False),
        sa.Column("sop_class", sa.Text(), nullable=False),
        sa.Column("transfer_syntax", sa.Text(), nullable=False),
        sa.Column("modality", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("is_first", sa.Boolean(), nullable=False),
        sa.Column("instance_number", sa.BigInteger(), nullable=True),
        sa.Column("rows", sa.BigInteger(), nullable=True),
        sa.Column("columns", sa.BigInteger(), nullable=True),
        sa.Column("position_mm", postgresql.ARRAY(sa.Double()), nullable=True),
        sa.Column("orientation", postgresql.ARRAY(sa.Double()), nullable=True),
        sa.Column("image_type", postgresql.JSONB(), nullable=False),
        sa.Column("flags", postgresql.JSONB(), nullable=False),
        sa.Column("received_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["series_id"], ["series.id"], name=op.f("fk_instances_series_id_series")),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_instances_study_id_studies")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_instances")),
        sa.UniqueConstraint("sop_uid", "sha256", name=op.f("uq_instances_sop_uid_sha256")),
    )
    op.create_index("ix_instances_study_id_series_id", "instances", ["study_id", "series_id"], unique=False)
    op.create_index("uq_instances_first", "instances", ["sop_uid"], unique=True, postgresql_where=sa.text("is_first"))
    op.create_table(
        "quarantine",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("association_id", sa.Uuid(), nullable=True),
        sa.Column("received_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_quarantine")),
    )


def downgrade() -> None:
    op.drop_table("quarantine")
    op.drop_table("instances")
    op.drop_table("study_associations")
    op.drop_table("series")
    op.drop_table("studies")
    op.drop_table("associations")
    op.drop_table("patients")
