"""What grows with the years is not read to learn what is under way, nor to find what is old: indexes on live jobs of either lane, on associations by
study and by end, on steps, commitments and appointments by time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

LIVE = "state IN ('ready', 'encoding', 'encoded', 'drafting')"
INDEXES = (
    ("ix_jobs_live", "jobs", "state", LIVE),
    ("ix_study_associations_association_id", "study_associations", "association_id", None),
    ("ix_associations_closed_at", "associations", "closed_at", "closed_at IS NOT NULL"),
    ("ix_performed_steps_updated_at", "performed_steps", "updated_at", None),
    ("ix_commitments_created_at", "commitments", "created_at", None),
    ("ix_expected_readings_reads_at", "expected_readings", "reads_at", None),
)


def upgrade() -> None:
    for name, table, column, where in INDEXES:
        op.create_index(name, table, [column], postgresql_where=None if where is None else sa.text(where))


def downgrade() -> None:
    for name, table, _, _ in reversed(INDEXES):
        op.drop_index(name, table)
