"""A patient's doses as rows: windows, namesakes, versions of rules and factors, what the listing says, and the plan on a million events."""

from __future__ import annotations

import math
import time
from datetime import date
from uuid import UUID, uuid4

import psycopg
import pytest
from sqlalchemy import text

from pipeline.errors import BadInput
from pipeline.irradiation import DoseFactor, DoseRule, DoseSource, Irradiation, WeighedDose
from pipeline.model import Patient
from pipeline.rules.seed import seed_dose_factors
from pipeline.store.dose_listing import patient_doses
from pipeline.store.doses import patient_of, set_dose, set_factors, window
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore, PgWork
from tests.integration.store import rows

YEAR = (date(2025, 1, 15), date(2026, 1, 15))
EVENTS, STUDIES = 1_000_000, 200
FILL = """
INSERT INTO patients (id, patient_id, issuer, name, name_guess, sex)
SELECT ('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'P' || n, '', '', false, '' FROM generate_series(1, {patients}) n;
UPDATE studies SET patient_id = '00000000-0000-0000-0000-000000000007';
ALTER TABLE dose_events DROP CONSTRAINT fk_dose_events_patient_id_patients;
INSERT INTO dose_events (event_uid, patient_id, exam_date, region, dlp_mgy_cm, msv, k, source, strength)
SELECT '1.2.840.' || n, ('00000000-0000-0000-0000-' || lpad((1 + n % {patients})::text, 12, '0'))::uuid,
    date '2026-01-15' - (n / {patients})::int % 365, 'chest', 400, 5.8, 0.0145, 'rdsr', 4 FROM generate_series(0, {events} - 1) n;
"""


def study_id(store: PgStore, study: str = "1.2.3") -> UUID:
    found: UUID = rows.one(store, f"SELECT id FROM studies WHERE study_uid = '{study}'")["id"]
    return found


def one(uid: str, dlp: float | None = 400.0, source: DoseSource = DoseSource.RDSR) -> WeighedDose:
    msv = None if dlp is None else dlp * 0.0145
    return WeighedDose(Irradiation(uid, source, "chest", dlp), None if dlp is None else 0.0145, msv, ("注",))


def record(store: PgStore, *events: WeighedDose, study: str = "1.2.3", doubt: str = "") -> int:
    with store.begin() as work:
        return work.doses.record(study_id(store, study), study, None, events, doubt)


def test_recording_again_changes_nothing_and_the_larger_dose_of_equal_sources_stands(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    assert [record(store, one("1.1"), one("1.2")), record(store, one("1.1"), one("1.2", 300.0)), record(store, one("1.2", 500.0))] == [2, 0, 1]
    with store.begin() as work:
        found = work.rules.doses(study_id(store), *YEAR)
    assert [(event.event_uid, event.dlp_mgy_cm, event.k) for event in found] == [("1.1", 400.0, 0.0145), ("1.2", 500.0, 0.0145)]


def test_an_event_without_dose_is_kept_as_one_without_and_drives_out_no_estimate(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    record(store, one("h", source=DoseSource.HEADER))
    record(store, one("1.1", None))
    with store.begin() as work:
        found = {event.event_uid: event.msv for event in work.rules.doses(study_id(store), *YEAR)}
    assert math.isnan(found["1.1"])
    assert found["h"] == pytest.approx(5.8)
    record(store, one("1.1"))
    assert rows.one(store, "SELECT source FROM dose_events") == {"source": "rdsr"}


def test_a_report_counts_for_the_study_that_it_sums_up(store: PgStore) -> None:
    rows.send(store, rows.header(1, "1.2.3"), rows.header(1, "1.2.4"))
    with store.begin() as work:
        work.doses.record(study_id(store, "1.2.4"), "1.2.3", None, [one("1.1")])
        assert work.rules.studies_without_dose(study_id(store), *YEAR) == (date(2026, 1, 15),)
    assert rows.one(store, "SELECT study_id FROM dose_events")["study_id"] == study_id(store)


def test_patients_whom_only_the_birth_date_parts_are_told_in_doubt(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    other = Patient("P-1", "", rows.NAME, False, date(1980, 5, 5), "M")
    rows.send(store, rows.header(1, "1.2.4", patient=other))
    record(store, one("1.1"), study="1.2.4")
    for study, doubtful in (("1.2.3", True), ("1.2.4", False)):
        with store.begin() as work:
            (event,) = work.rules.doses(study_id(store, study), *YEAR)
        assert bool(event.doubt) is doubtful


def test_the_same_id_of_another_issuer_is_another_patient(store: PgStore) -> None:
    rows.send(store, rows.header(1), rows.header(1, "1.2.4", patient=Patient("P-1", "OTHER", rows.NAME, False, date(1970, 1, 1), "M")))
    record(store, one("1.1"), study="1.2.4")
    with store.begin() as work:
        assert work.rules.doses(study_id(store), *YEAR) == ()
        assert work.rules.age_years(study_id(store)) == pytest.approx(56.04, abs=0.01)


def test_rules_and_factors_of_a_version_are_replaced_whole(store: PgStore, url: str) -> None:
    seed_rules(url, {}, [DoseRule("a", 1, 12, 50.0, ("CT",), "甲")], seed_dose_factors())
    rule = DoseRule("b", 2, 6, 20.0, ("CT", "CTA"), "乙", "chest", 0.0, 18.0)
    factor = DoseFactor("chest", 18, 32, 0.02, "the hospital's physicist")
    with store.begin() as work:
        work.session.execute(text("INSERT INTO rule_versions (version, actor, note) VALUES (2, 'physicist', 'own')"))
        set_dose(work.session, [rule], 2)
        set_factors(work.session, [factor], 2)
        set_factors(work.session, [factor], 2)
    with store.begin() as work:
        assert work.rules.current().dose == (rule,)
        assert work.doses.factors() == (factor,)


def test_rules_from_before_there_were_factors_get_those_of_the_package_once(store: PgStore, url: str) -> None:
    seed_rules(url, {}, [])
    assert seed_rules(url, {}, [], seed_dose_factors()) == 0
    with store.begin() as work:
        assert sorted(map(repr, work.doses.factors())) == sorted(map(repr, seed_dose_factors()))
        set_factors(work.session, [DoseFactor("chest", 18, 32, 0.02, "own")], 1)
    seed_rules(url, {}, [], seed_dose_factors())
    assert rows.count(store, "dose_factors") == 1


def test_a_factor_that_cannot_be_is_refused_by_the_database(store: PgStore, url: str) -> None:
    seed_rules(url, {}, [])
    for bad in (DoseFactor("chest", 18, 30, 0.02, "x"), DoseFactor("chest", 18, 32, 1.5, "x"), DoseFactor("chest", 18, 32, 0.02, "")):
        with pytest.raises(BadInput, match="ck_dose_factors"), store.begin() as work:
            set_factors(work.session, [bad], 1)


def test_the_listing_names_events_and_what_is_missing(store: PgStore) -> None:
    rows.send(store, rows.header(1, "1.2.3"), rows.header(1, "1.2.4"))
    record(store, one("1.1"), doubt="姓名与登记的不同")
    events, missing = patient_doses(store, "P-1")
    assert [(one["dlp_mgy_cm"], one["doubt"], one["notes"]) for one in events] == [(400.0, "姓名与登记的不同", ["注"])]
    assert [(one["date"], one["reason"][:27]) for one in missing] == [("2026-01-15", "no dose report has come, an")]
    with pytest.raises(BadInput, match="no patient has this id"):
        patient_doses(store, "nobody")
    rows.send(store, rows.header(1, "1.2.5", patient=Patient("P-1", "OTHER", rows.NAME, False, None, "")))
    with pytest.raises(BadInput, match="2 patients"):
        patient_doses(store, "P-1")
    assert patient_doses(store, "P-1", "OTHER")[0] == []


def study_id_in(work: PgWork) -> UUID:
    found: UUID = work.session.execute(text("SELECT id FROM studies")).scalar_one()
    return found


def window_plan(store: PgStore, url: str, events: int) -> tuple[str, float]:
    """The plan of a patient's year among `events`, and the best of twenty times in ms."""
    patients = events // STUDIES
    rows.send(store, rows.header(1, patient_id="P-1"))
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET synchronous_commit = on")  # VACUUM knows only of commits that are written out
        connection.execute(FILL.format(patients=patients, events=events).encode())
        connection.execute("VACUUM (ANALYZE) dose_events")  # what autovacuum does
    with store.begin() as work:
        study = study_id_in(work)
        statement = window(patient_of(study), *YEAR)
        compiled = statement.compile(work.session.get_bind(), compile_kwargs={"literal_binds": True})
        plan = "\n".join(work.session.scalars(text(f"EXPLAIN (ANALYZE, BUFFERS) {compiled}")))
        times = []
        for _ in range(20):
            started = time.perf_counter()
            found = work.rules.doses(study, *YEAR)
            times.append((time.perf_counter() - started) * 1000)
    assert len(found) == STUDIES
    return plan, min(times)


def test_a_patients_year_is_read_from_one_index_only(store: PgStore, url: str) -> None:
    plan, _ = window_plan(store, url, EVENTS // 20)
    assert "Index Only Scan using ix_dose_events_window" in plan
    assert "Heap Fetches: 0" in plan


@pytest.mark.long
def test_a_patient_of_200_studies_among_a_million_events_is_read_from_one_index_only(
    store: PgStore, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, best_ms = window_plan(store, url, EVENTS)
    with capsys.disabled():
        print(f"\na patient of {STUDIES} studies among {EVENTS} dose events: {best_ms:.2f} ms")
    assert "Index Only Scan using ix_dose_events_window" in plan
    assert "Heap Fetches: 0" in plan


def test_an_unknown_study_has_no_age(store: PgStore) -> None:
    with store.begin() as work:
        assert work.rules.age_years(uuid4()) is None


def test_the_events_of_a_report_that_is_taken_back_are_found_by_an_index(store: PgStore, url: str) -> None:
    window_plan(store, url, EVENTS // 20)
    with store.begin() as work:
        asked = "EXPLAIN DELETE FROM dose_events WHERE instance_id IN (SELECT id FROM instances WHERE study_id = :study AND content <> '')"
        plan = "\n".join(work.session.scalars(text(asked), {"study": study_id_in(work)}))
    assert "Seq Scan on dose_events" not in plan
