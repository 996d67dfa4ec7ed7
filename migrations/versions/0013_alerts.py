"""Critical findings with who told whom and when, guideline tables, where a draft's regions lie, and who resolved what blocks a report."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

TEXTS = postgresql.ARRAY(sa.Text())
NUMBERS: postgresql.ARRAY[float] = postgresql.ARRAY(sa.Double())
TIME = sa.DateTime(timezone=True)
TOLD = "told_by IS NOT NULL AND received_by IS NOT NULL AND received_at IS NOT NULL AND method IS NOT NULL AND read_back IS NOT NULL"


# As in 0009; a section with something unresolved that blocks says so, and `blocked` tells it of the whole.
VIEW = r"""
{create} VIEW finished_reports WITH (security_barrier) AS
SELECT
    s.study_uid,
    s.accession,
    p.patient_id,
    p.name AS patient_name,
    s.study_date,
    m.revision,
    m.department,
    CASE m.state
        WHEN 'waiting' THEN '待审'
        WHEN 'reviewing' THEN concat_ws(' ', '审阅中', m.reviewed_by)
        WHEN 'written' THEN '已书写，待审核'
        WHEN 'signed' THEN '已签发'
        WHEN 'amended' THEN '已修订'
        WHEN 'rejected' THEN '已弃用，人工书写'
    END AS status,
    m.state,
    m.signed_by,
    m.signed_at,
    m.watermark,
    m.prefix || {findings} AS findings,
    m.prefix || {impression} AS impression,
    m.prefix || {advice} AS advice,
    m.prefix || '检查所见：' || {findings} || E'\n诊断意见：' || {impression} || E'\n建议：' || {advice} AS text,
    coalesce((
        SELECT jsonb_agg(jsonb_build_object(
            'rule', f.rule, 'version', f.version, 'severity', f.severity, 'section', f.section, 'start', f.start_at, 'end', f.end_at,
            'message', f.message, 'original', f.original{resolution}) ORDER BY f.position)
        FROM draft_flags f WHERE f.draft_id = m.draft_id), '[]'::jsonb) AS flags,
    m.drafted_at AS created_at,
    p.name_guess AND p.name_confirmed_at IS NULL AS patient_name_guess{more}
FROM studies s
JOIN patients p ON p.id = s.patient_id
CROSS JOIN LATERAL (
    SELECT
        r.*, d.findings_text, d.impression, d.advice, d.created_at AS drafted_at{blocked_in},
        CASE WHEN r.state IN ('signed', 'amended') THEN '' ELSE d.watermark END AS watermark,
        CASE WHEN r.state IN ('signed', 'amended') THEN '' ELSE d.watermark || E'\n' END AS prefix
    FROM reports r JOIN drafts d ON d.id = r.draft_id JOIN jobs j ON j.id = d.job_id
    WHERE r.study_id = s.id AND (j.state = 'drafted' OR r.state IN ('reviewing', 'written', 'signed', 'amended'))
) m
"""
BEFORE = {"findings": "m.findings_text", "impression": "m.impression", "advice": "m.advice", "resolution": "", "more": "", "blocked_in": ""}
AFTER = {
    **{
        name: f"CASE WHEN '{section}' = ANY (m.blocked_in) THEN '【须处理】' ELSE '' END || {column}"
        for name, section, column in (
            ("findings", "检查所见", "m.findings_text"),
            ("impression", "诊断意见", "m.impression"),
            ("advice", "建议", "m.advice"),
        )
    },
    "resolution": ", 'resolved_by', f.resolved_by, 'resolved_at', f.resolved_at, 'resolution', f.resolution",
    "more": ",\n    cardinality(m.blocked_in) > 0 AS blocked",
    "blocked_in": """,
        ARRAY(SELECT f.section FROM draft_flags f WHERE f.draft_id = d.id AND f.severity = 'block' AND f.resolved_at IS NULL) AS blocked_in""",
}
RESOLVED = "resolved_at IS NOT NULL AND resolved_by IS NOT NULL AND resolution IS NOT NULL AND resolved_by <> '' AND resolution <> ''"


def upgrade() -> None:
    _blocks()
    _critical()
    _guidelines()
    _alerts()
    _regions()


def _blocks() -> None:
    """Who answers for a hit that blocks, when, and why."""
    for column, kind in (("resolved_by", sa.Text()), ("resolved_at", TIME), ("resolution", sa.Text())):
        op.add_column("draft_flags", sa.Column(column, kind, nullable=True))
    unresolved = "resolved_at IS NULL AND resolved_by IS NULL AND resolution IS NULL"
    op.create_check_constraint(op.f("ck_draft_flags_resolved"), "draft_flags", f"{unresolved} OR {RESOLVED}")
    op.execute(VIEW.format(create="CREATE OR REPLACE", **AFTER))


def _without_blocks() -> None:
    op.execute("DROP VIEW finished_reports")
    op.execute(VIEW.format(create="CREATE", **BEFORE))
    op.execute("GRANT SELECT ON finished_reports TO ctreport_reader")
    op.drop_constraint(op.f("ck_draft_flags_resolved"), "draft_flags")
    for column in ("resolved_by", "resolved_at", "resolution"):
        op.drop_column("draft_flags", column)


def _version(table: str, *keys: str) -> tuple[sa.schema.SchemaItem, ...]:
    return (
        sa.ForeignKeyConstraint(["version"], ["rule_versions.version"], name=op.f(f"fk_{table}_version_rule_versions")),
        sa.PrimaryKeyConstraint("version", *keys, name=op.f(f"pk_{table}")),
    )


def _critical() -> None:
    op.create_table(
        "critical_rules",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("finding", sa.Text(), nullable=False),
        sa.Column("words", TEXTS, nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("minutes", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("qualifiers", TEXTS, nullable=False),
        sa.Column("unless", TEXTS, nullable=False),
        sa.Column("percent", sa.BigInteger(), nullable=True),
        sa.Column("levels", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "minutes BETWEEN 1 AND 1440 AND levels BETWEEN 1 AND 9 AND severity IN ('immediate', 'urgent') AND source <> ''",
            name=op.f("ck_critical_rules_rule"),
        ),
        *_version("critical_rules", "id"),
    )


def _guidelines() -> None:
    op.create_table(
        "guidelines",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("population", sa.Text(), nullable=True),
        sa.Column("round_mm", sa.Double(), nullable=False),
        sa.Column("min_age_years", sa.Double(), nullable=True),
        sa.Column("excludes", TEXTS, nullable=False),
        sa.Column("growth_mm", sa.Double(), nullable=True),
        sa.Column("first_only", sa.Boolean(), nullable=False),
        sa.CheckConstraint("round_mm > 0 AND source <> ''", name=op.f("ck_guidelines_guideline")),
        *_version("guidelines", "id"),
    )
    op.create_table(
        "guideline_rows",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("guideline", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("advice", sa.Text(), nullable=False),
        sa.Column("densities", TEXTS, nullable=False),
        sa.Column("count", sa.Text(), nullable=True),
        sa.Column("risk", sa.Text(), nullable=True),
        sa.Column("courses", TEXTS, nullable=False),
        sa.Column("from_mm", sa.Double(), nullable=True),
        sa.Column("below_mm", sa.Double(), nullable=True),
        sa.Column("solid_from_mm", sa.Double(), nullable=True),
        sa.Column("solid_below_mm", sa.Double(), nullable=True),
        sa.Column("category", sa.Text(), nullable=False),
        sa.CheckConstraint("source <> '' AND advice <> ''", name=op.f("ck_guideline_rows_row")),
        *_version("guideline_rows", "guideline", "id"),
    )
    op.create_table(
        "history_cues",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("input", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("words", TEXTS, nullable=False),
        *_version("history_cues", "input", "answer"),
    )
    op.create_table(
        "growth_rules",
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("min_growth_mm", sa.Double(), nullable=False),
        sa.Column("repeatability_mm", sa.Double(), nullable=False),
        sa.Column("thickness_factor", sa.Double(), nullable=False),
        sa.Column("match_mm", sa.Double(), nullable=False),
        sa.Column("place_mm", sa.Double(), nullable=False),
        sa.Column("clear_ratio", sa.Double(), nullable=False),
        sa.CheckConstraint("min_growth_mm >= 0 AND thickness_factor >= 1 AND source <> ''", name=op.f("ck_growth_rules_rule")),
        *_version("growth_rules"),
    )


def _alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.Uuid(), server_default=sa.text("gen_random_uuid()"), nullable=False),
        sa.Column("study_id", sa.Uuid(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("draft_id", sa.Uuid(), nullable=False),
        sa.Column("rule", sa.Text(), nullable=False),
        sa.Column("rules_version", sa.BigInteger(), nullable=False),
        sa.Column("finding", sa.Text(), nullable=False),
        sa.Column("severity", sa.Text(), nullable=False),
        sa.Column("certain", sa.Boolean(), nullable=False),
        sa.Column("minutes", sa.BigInteger(), nullable=False),
        sa.Column("levels", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("seen_at", TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("due_at", TIME, nullable=False),
        sa.Column("level", sa.BigInteger(), nullable=False),
        sa.Column("escalated_at", TIME, nullable=True),
        sa.Column("told_by", sa.Text(), nullable=True),
        sa.Column("received_by", sa.Text(), nullable=True),
        sa.Column("received_at", TIME, nullable=True),
        sa.Column("method", sa.Text(), nullable=True),
        sa.Column("read_back", sa.Boolean(), nullable=True),
        sa.Column("acknowledged_at", TIME, nullable=True),
        sa.Column("waived_by", sa.Text(), nullable=True),
        sa.Column("waived_reason", sa.Text(), nullable=True),
        sa.Column("waived_at", TIME, nullable=True),
        sa.CheckConstraint("state IN ('open', 'acknowledged', 'waived')", name=op.f("ck_alerts_state")),
        sa.CheckConstraint(
            "severity IN ('immediate', 'urgent') AND minutes > 0 AND levels > 0 AND level BETWEEN 0 AND levels", name=op.f("ck_alerts_level")
        ),
        sa.CheckConstraint(f"state <> 'acknowledged' OR ({TOLD})", name=op.f("ck_alerts_told")),
        sa.CheckConstraint("method IN ('电话', '当面', '系统')", name=op.f("ck_alerts_method")),
        sa.CheckConstraint("state <> 'waived' OR (waived_by <> '' AND waived_reason <> '' AND waived_at IS NOT NULL)", name=op.f("ck_alerts_waived")),
        sa.ForeignKeyConstraint(["study_id"], ["studies.id"], name=op.f("fk_alerts_study_id_studies")),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_alerts_draft_id_drafts")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_alerts")),
        sa.UniqueConstraint("study_id", "rule", name=op.f("uq_alerts_study_id_rule")),
    )
    op.create_index("ix_alerts_open", "alerts", ["due_at"], postgresql_where=sa.text("state = 'open'"))


def _regions() -> None:
    op.create_table(
        "draft_frames",
        sa.Column("draft_id", sa.Uuid(), nullable=False),
        sa.Column("lungs_mm", NUMBERS, nullable=False),
        sa.Column("midline_mm", sa.Double(), nullable=False),
        sa.Column("step_mm", sa.Double(), nullable=False),
        sa.Column("thickness_mm", sa.Double(), nullable=False),
        sa.Column("covers", TEXTS, nullable=False),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_draft_frames_draft_id_drafts"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("draft_id", name=op.f("pk_draft_frames")),
    )
    op.create_table(
        "draft_candidates",
        sa.Column("draft_id", sa.Uuid(), nullable=False),
        sa.Column("index", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("center_mm", NUMBERS, nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.Column("lobe", sa.Text(), nullable=False),
        sa.Column("density", sa.Text(), nullable=False),
        sa.Column("size_mm", sa.Double(), nullable=False),
        sa.Column("stated_mm", sa.BigInteger(), nullable=True),
        sa.Column("score", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["draft_id"], ["drafts.id"], name=op.f("fk_draft_candidates_draft_id_drafts"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("draft_id", "index", name=op.f("pk_draft_candidates")),
    )


def downgrade() -> None:
    for table in (
        "draft_candidates",
        "draft_frames",
        "alerts",
        "growth_rules",
        "history_cues",
        "guideline_rows",
        "guidelines",
        "critical_rules",
    ):
        op.drop_table(table)
    _without_blocks()
