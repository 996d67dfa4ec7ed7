"""The view that readers select, and the role that may select it and nothing else."""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

# Roles belong to the whole cluster: another database may have made this one already, or make it at this moment.
ROLE = """
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'ctreport_reader') THEN
        CREATE ROLE ctreport_reader NOLOGIN;
    END IF;
EXCEPTION WHEN duplicate_object OR unique_violation THEN
    NULL;
END
$$
"""

# Per study and department the current revision's report, and each older one that a reader has touched: a late image neither hides what
# is being read or was signed, nor is hidden by it.
# Unsigned text has no unmarked path: each text column begins with the watermark. Offsets in `flags` count from the
# section's own text, after the watermark's line.
VIEW = r"""
CREATE VIEW finished_reports WITH (security_barrier) AS
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
    m.drafted_at AS created_at
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

GRANT = """
DO $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO ctreport_reader', current_schema());
END
$$
"""


def upgrade() -> None:
    op.execute(ROLE)
    op.execute(VIEW)
    op.execute(GRANT)
    op.execute("GRANT SELECT ON finished_reports TO ctreport_reader")


def downgrade() -> None:
    # the role stays: other databases of this cluster may use it, and without the view it can read nothing here
    op.execute("DROP VIEW finished_reports")
    op.execute(GRANT.replace("GRANT", "REVOKE").replace(" TO ", " FROM "))
