"""What is asked again and again reads what is under way and what it is about, never what the years have left: on 21,000 studies of which 18,000 are
signed. `ctreport bench flow` asks the same of a million."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import psycopg
import pytest

from pipeline.evaluation.scale_fill import IMAGES, TAIL, Filled, fill
from pipeline.evaluation.scale_queries import Asked, Plan, asked, measured, planned
from pipeline.evaluation.scale_size import sizes
from pipeline.store import schema
from pipeline.store.session import PgStore
from workers.embedded.postgres import Postgres

STUDIES, WITH_IMAGES = 7 * TAIL, 6
NAMES = {
    "worklist: the newest 50 studies": "ix_studies_first_received",
    "worklist: report by accession": "ix_studies_accession",
    "receive: an association ends": "ix_study_associations_association_id",
    "assemble: claim a study": "ix_studies_quiet_urgent",
    "assemble: claim and judge a study": "ix_instances_study_id_series_id",
    "encode: claim 4 jobs": "ix_jobs_claim_urgent",
    "draft: claim a job": "ix_jobs_claim_urgent",
    "draft: claim what was asked for": "ix_draft_requests_claim",
    "deliver: claim 4 reports": "ix_deliveries_claim",
    "dose: claim 4 dose reports": "ix_dose_reports_due",
    "sweeper: hand back expired leases": "ix_jobs_lease_until",
    "sweeper: what waits, and how long": "ix_jobs_live",
    "sweeper: overdue alerts": "ix_alerts_open",
    "sweeper: reports that older rules checked": "ix_reports_open",
    "dose: a patient's year": "ix_dose_events_window",
    "timeline of a study": "ix_audit_study_id_id",
    "night: what waits and who wants it": "ix_jobs_live",
    "night: the last night's report": "ix_studies_first_received",
    "retention: what is older than 400 days": "ix_associations_closed_at",
}
# rows that a call may look at: a claim few, a count those that wait, a report those of its night; none of them the 18,000 that are signed
FEW = 600
MOST = {
    "draft: claim what was asked for": 2_500,
    "sweeper: what waits, and how long": 3 * TAIL,
    "sweeper: reports that older rules checked": 2 * TAIL,
    "night: what waits and who wants it": 2 * TAIL,
    "night: the last night's report": 2 * TAIL,
}


@pytest.fixture(scope="module")
def filled(postgres_server: Postgres, template: str) -> Iterator[tuple[str, Filled]]:
    """A filled database for the tests of this module. Sequential scans are priced out: on so few rows PostgreSQL would be right to take them."""
    name = f"scale_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        made = fill(postgres_server.url_of(name), STUDIES, budget_s=600.0, most_images=WITH_IMAGES)
        connection.execute(f'ALTER DATABASE "{name}" SET enable_seqscan = off')
        yield postgres_server.url_of(name), made
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def big(filled: tuple[str, Filled]) -> Iterator[PgStore]:
    made = PgStore(filled[0])
    yield made
    made.dispose()


def call(store: PgStore, name: str) -> Asked:
    return next(one for one in asked(store) if one.name == name)


def test_the_synthetic_site_is_whole_and_its_indexes_are_there_again(filled: tuple[str, Filled]) -> None:
    url, made = filled
    assert (made.studies, made.instances) == (STUDIES, WITH_IMAGES * IMAGES)
    schema.check(url)
    with psycopg.connect(url) as connection:
        orphans = "SELECT count(*) FROM studies s WHERE NOT EXISTS (SELECT FROM patients p WHERE p.id = s.patient_id)"
        assert connection.execute(orphans).fetchone() == (0,)
        states = connection.execute("SELECT state, count(*) FROM reports GROUP BY state ORDER BY state").fetchall()
        assert states == [("signed", STUDIES - TAIL), ("waiting", 2100)]


def test_every_call_has_its_expectation(big: PgStore) -> None:
    assert [one.name for one in asked(big)] == list(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_call_uses_its_index_and_reads_nothing_of_the_years(big: PgStore, name: str) -> None:
    plan = planned(big, call(big, name).call)
    assert NAMES[name] in plan.indexes
    assert plan.scanned == ()
    assert plan.rows_read <= MOST.get(name, FEW), plan


def test_what_rows_take_is_measured_and_only_images_are_extrapolated(filled: tuple[str, Filled]) -> None:
    images, *others = sizes(filled[0])
    assert (images["what"], images["rows"]) == ("instances", WITH_IMAGES * IMAGES)
    assert 500 < images["bytes_per_row"] < 1_500
    assert images["gb_at_500m"] == pytest.approx(images["bytes_per_row"] / 2, abs=1)
    assert images["levels_at_500m"] > images["index_levels"]
    assert not [one for one in others if "gb_at_500m" in one]


def test_what_is_measured_is_rolled_back(big: PgStore) -> None:
    before = states(big)
    row = measured(big, call(big, "encode: claim 4 jobs"), rounds=2)
    assert states(big) == before
    assert row["median_ms"] > 0
    assert row["statements"] > 1


def test_a_table_that_is_read_from_end_to_end_is_named() -> None:
    scan = {"Node Type": "Seq Scan", "Relation Name": "audit", "Actual Rows": 10, "Rows Removed by Filter": 90_000, "Actual Loops": 1}
    look = {"Node Type": "Index Scan", "Relation Name": "studies", "Index Name": "pk_studies", "Actual Rows": 1, "Actual Loops": 40}
    plan = Plan().with_node({"Node Type": "Nested Loop", "Actual Rows": 1, "Actual Loops": 1, "Plans": [scan, look]})
    assert plan == Plan(("audit",), ("pk_studies",), 90_050)


def states(store: PgStore) -> list[tuple[str, int]]:
    with store.begin() as work:
        rows = work.session.connection().exec_driver_sql("SELECT state, count(*) FROM jobs GROUP BY state ORDER BY state")
        return [(state, count) for state, count in rows]
