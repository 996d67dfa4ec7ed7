"""A guess is marked as a guess and waits for a person: names of patients, free text of studies; and what an instance says about dose."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

# As in 0006; the guess of a name is marked where the name is read.
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
    m.prefix || m.findings_text AS findings,
    m.prefix || m.impression AS impression,
    m.prefix || m.advice AS advice,
    m.prefix || '检查所见：' || m.findings_text || E'\n诊断意见：' || m.impression || E'\n建议：' || m.advice AS text,
    coalesce((
        SELECT jsonb_agg(jsonb_build_object(
            'rule', f.rule, 'version', f.version, 'severity', f.severity, 'section', f.section, 'start', f.start_at, 'end', f.end_at,
            'message', f.message, 'original', f.original) ORDER BY f.position)
        FROM draft_flags f WHERE f.draft_id = m.draft_id), '[]'::jsonb) AS flags,
    m.drafted_at AS created_at{more}
FROM studies s
JOIN patients p ON p.id = s.patient_id
CROSS JOIN LATERAL (
    SELECT
        r.*, d.findings_text, d.impression, d.advice, d.created_at AS drafted_at,
        CASE WHEN r.state IN ('signed', 'amended') THEN '' ELSE d.watermark END AS watermark,
        CASE WHEN r.state IN ('signed', 'amended') THEN '' ELSE d.watermark || E'\n' END AS prefix
    FROM reports r JOIN drafts d ON d.id = r.draft_id JOIN jobs j ON j.id = d.job_id
    WHERE r.study_id = s.id AND (j.state = 'drafted' OR r.state IN ('reviewing', 'written', 'signed', 'amended'))
) m
"""
MARK = """,
    p.name_guess AND p.name_confirmed_at IS NULL AS patient_name_guess"""


def upgrade() -> None:
    op.add_column("patients", sa.Column("name_charset", sa.Text(), server_default="", nullable=False))
    _confirmed("patients", "name")
    op.create_index("ix_patients_guesses", "patients", ["created_at"], postgresql_where=sa.text("name_guess AND name_confirmed_at IS NULL"))
    op.add_column("studies", sa.Column("text_guess", sa.Boolean(), server_default=sa.false(), nullable=False))
    _confirmed("studies", "text")
    op.create_index("ix_studies_guesses", "studies", ["first_received"], postgresql_where=sa.text("text_guess AND text_confirmed_at IS NULL"))
    op.add_column("instances", sa.Column("content", sa.Text(), server_default="", nullable=False))
    op.create_index("ix_instances_content", "instances", ["study_id"], postgresql_where=sa.text("content <> ''"))
    op.execute(VIEW.format(create="CREATE OR REPLACE", more=MARK))


def _confirmed(table: str, what: str) -> None:
    """Who looked at a guess, and when."""
    op.add_column(table, sa.Column(f"{what}_confirmed_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column(table, sa.Column(f"{what}_confirmed_by", sa.Text(), nullable=True))
    whole = f"({what}_confirmed_at IS NULL) = ({what}_confirmed_by IS NULL)"
    op.create_check_constraint(op.f(f"ck_{table}_confirmed"), table, whole)


def downgrade() -> None:
    op.execute("DROP VIEW finished_reports")
    op.execute(VIEW.format(create="CREATE", more=""))
    op.execute("GRANT SELECT ON finished_reports TO ctreport_reader")
    op.drop_index("ix_instances_content", table_name="instances")
    op.drop_column("instances", "content")
    for table, what, more in (("studies", "text", "text_guess"), ("patients", "name", "name_charset")):
        op.drop_index(f"ix_{table}_guesses", table_name=table)
        op.drop_constraint(op.f(f"ck_{table}_confirmed"), table)
        for column in (f"{what}_confirmed_by", f"{what}_confirmed_at", more):
            op.drop_column(table, column)
