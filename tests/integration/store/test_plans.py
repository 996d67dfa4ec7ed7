import pytest
from sqlalchemy import Select, select, text

from pipeline.evidence import Patience
from pipeline.model import Step
from pipeline.store.assembling import quiet_studies
from pipeline.store.deliveries import is_due
from pipeline.store.evidence import is_candidate
from pipeline.store.jobs import claimable
from pipeline.store.session import PgStore
from pipeline.store.tables import DeliveryRow, StudyRow

QUERIES: dict[str, Select[object]] = {
    "ix_jobs_claim": claimable(Step.ENCODE, urgent=False),
    "ix_jobs_claim_urgent": claimable(Step.ENCODE, urgent=True),
    "ix_studies_quiet_urgent": quiet_studies(Patience(30.0, 3.0, 300.0, 3600.0), urgent=True),
    "ix_studies_quiet": select(StudyRow.id).where(is_candidate(Patience(30.0, 3.0, 300.0, 3600.0))).order_by(StudyRow.last_received),
    "ix_deliveries_claim": select(DeliveryRow.id).where(is_due()).order_by(DeliveryRow.due_at),
}
STATEMENTS = {
    "ix_jobs_failed": "SELECT * FROM jobs WHERE state = 'failed' ORDER BY ended_at DESC",
    "ix_jobs_lease_until": "SELECT * FROM jobs WHERE lease_until < now()",
    "ix_studies_lease_until": "SELECT * FROM studies WHERE lease_until < now()",
    "ix_dose_events_window": "SELECT msv FROM dose_events WHERE patient_id = gen_random_uuid() AND exam_date > now()",
    "ix_dose_events_event_uid": "SELECT * FROM dose_events WHERE event_uid = '1.2.3'",
    "ix_dose_reports_due": "SELECT * FROM dose_reports WHERE state IN ('waiting', 'recheck') AND due_at <= now() ORDER BY due_at",
    "uq_rejections_sop_uid_ko_sop_uid": "SELECT * FROM instances i WHERE EXISTS (SELECT FROM rejections r WHERE r.sop_uid = i.sop_uid)",
    "ix_performed_step_studies_study_uid": "SELECT * FROM performed_step_studies WHERE study_uid = '1.2.3'",
    "ix_reports_reviewed_at": "SELECT * FROM reports WHERE reviewed_at > now()",
    "ix_drafts_created_at": "SELECT * FROM drafts WHERE created_at >= now() ORDER BY created_at",
    "uq_studies_study_uid": "SELECT * FROM finished_reports WHERE study_uid = '1.2.3'",
    "uq_reports_study_id_revision_department": "SELECT * FROM finished_reports WHERE study_uid = '1.2.3'",
}


def plan(store: PgStore, statement: str) -> str:
    """The plan on empty tables with sequential scans priced out: it shows whether an index *can* serve, for a generic plan too."""
    with store.begin() as work:
        work.session.execute(text("SET LOCAL enable_seqscan = off"))
        work.session.execute(text("SET LOCAL enable_bitmapscan = off"))
        work.session.execute(text("SET LOCAL plan_cache_mode = force_generic_plan"))
        return "\n".join(work.session.scalars(text(f"EXPLAIN {statement}")))


@pytest.mark.parametrize("index", QUERIES)
def test_each_claim_has_its_index_in_order(store: PgStore, index: str) -> None:
    with store.begin() as work:
        statement = QUERIES[index].compile(work.session.get_bind(), compile_kwargs={"literal_binds": True})
    assert index in plan(store, str(statement))


@pytest.mark.parametrize("index", STATEMENTS)
def test_sweeper_dose_and_reader_have_their_index(store: PgStore, index: str) -> None:
    assert index in plan(store, STATEMENTS[index])
