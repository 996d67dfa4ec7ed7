"""The order of work: STAT in a lane of its own, the others by a place that ages; leases that ran out; what the site does once per period."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

LIVE = "state IN ('ready', 'encoding', 'encoded', 'drafting')"
# as `pipeline.urgency.PATIENCE` has it, by priority: STAT, inpatient, routine, night
PLACE = "created_at + (CASE priority WHEN 2 THEN interval '2 hours' WHEN 3 THEN interval '12 hours' ELSE interval '0' END)"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("rank_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False))
    op.add_column("jobs", sa.Column("lost", sa.BigInteger(), server_default=sa.text("0"), nullable=False))
    op.execute(f"UPDATE jobs SET rank_at = {PLACE} WHERE {LIVE} OR state = 'failed'")
    _counts("revision >= 1 AND attempts >= 0 AND lost >= 0")
    op.drop_index("ix_jobs_claim", "jobs")
    op.create_index("ix_jobs_claim", "jobs", ["state", "rank_at", "due_at"], postgresql_where=sa.text(f"priority > 0 AND {LIVE}"))
    op.create_index("ix_jobs_claim_urgent", "jobs", ["state", "rank_at", "due_at"], postgresql_where=sa.text(f"priority = 0 AND {LIVE}"))
    op.create_index("ix_jobs_failed", "jobs", ["ended_at"], postgresql_where=sa.text("state = 'failed'"))
    urgent = sa.text("priority = 0 AND state = 'receiving'")
    op.create_index("ix_studies_quiet_urgent", "studies", ["last_received"], postgresql_where=urgent)
    op.create_table(
        "rounds",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_rounds")),
    )


def downgrade() -> None:
    op.drop_table("rounds")
    op.drop_index("ix_studies_quiet_urgent", "studies")
    for name in ("ix_jobs_failed", "ix_jobs_claim_urgent", "ix_jobs_claim"):
        op.drop_index(name, "jobs")
    _counts("revision >= 1 AND attempts >= 0")
    op.drop_column("jobs", "lost")
    op.drop_column("jobs", "rank_at")
    op.create_index("ix_jobs_claim", "jobs", ["state", "priority", "due_at"], postgresql_where=sa.text(LIVE))


def _counts(condition: str) -> None:
    op.drop_constraint(op.f("ck_jobs_counts"), "jobs", type_="check")
    op.create_check_constraint(op.f("ck_jobs_counts"), "jobs", condition)
