"""The lexicon as rows: terms, synonyms, forbidden forms, anatomy; every change audited."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "lexicon_entries",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("term", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("synonyms", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("forbidden", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.Column("parent", sa.Text(), nullable=False),
        sa.Column("organ", sa.Text(), nullable=False),
        sa.Column("level", sa.Text(), nullable=True),
        sa.Column("scope", sa.Text(), nullable=True),
        sa.Column("tags", postgresql.ARRAY(sa.Text()), nullable=False),
        sa.Column("english", sa.Text(), nullable=False),
        sa.CheckConstraint("term <> '' AND source <> '' AND side IN ('', '左', '右', '双')", name=op.f("ck_lexicon_entries_entry")),
        sa.ForeignKeyConstraint(["version"], ["rule_versions.version"], name=op.f("fk_lexicon_entries_version_rule_versions")),
        sa.PrimaryKeyConstraint("version", "term", name=op.f("pk_lexicon_entries")),
    )


def downgrade() -> None:
    op.drop_table("lexicon_entries")
