from concurrent.futures import ThreadPoolExecutor
from datetime import date
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text

from pipeline.errors import BadInput
from pipeline.irradiation import DoseRule
from pipeline.store.seed import seed_rules
from pipeline.store.session import PgStore
from tests.integration.store import rows

TERMS = {"毛玻璃": "磨玻璃", "肺门影增浓": "肺门影增大"}
DOSE = DoseRule("cumulative", 1, 12, 20.0, ("复查CT", "增强CT"), "近{months}个月累计 {msv} mSv")


def study_id(store: PgStore, study: str = "1.2.3") -> UUID:
    found: UUID = rows.one(store, f"SELECT id FROM studies WHERE study_uid = '{study}'")["id"]
    return found


def add_dose(store: PgStore, when: date, msv: float, *, uid: str = "", study: UUID | None = None) -> None:
    query = text(
        "INSERT INTO dose_events (event_uid, patient_id, study_id, exam_date, region, dlp_mgy_cm, msv, source)"
        " SELECT :uid, id, :study, :when, 'chest', 400, :msv, 'test' FROM patients"
    )
    with store.begin() as work:
        work.session.execute(query, {"uid": uid or str(uuid4()), "study": study, "when": when, "msv": msv})


def test_seeded_once_whatever_comes_later(store: PgStore, url: str) -> None:
    with ThreadPoolExecutor(3) as pool:
        assert sorted(pool.map(lambda _: seed_rules(url, TERMS, [DOSE]), range(3))) == [0, 0, 1]
    assert seed_rules(url, {"x": "y"}, []) == 0
    with store.begin() as work:
        rules = work.rules.current()
    assert (rules.version, dict(rules.terms), rules.dose) == (1, TERMS, (DOSE,))


def test_without_any_version_the_rules_are_version_zero(store: PgStore) -> None:
    with store.begin() as work:
        rules = work.rules.current()
    assert (rules.version, dict(rules.terms), rules.dose) == (0, {}, ())


def test_the_highest_version_is_in_force(store: PgStore, url: str) -> None:
    seed_rules(url, TERMS, [DOSE])
    with store.begin() as work:
        work.session.execute(text("INSERT INTO rule_versions (version, actor, note) VALUES (2, 'doctor', 'local')"))
        work.session.execute(text("INSERT INTO rule_terms VALUES (2, '片状影', '斑片影')"))
    with store.begin() as work:
        rules = work.rules.current()
    assert (rules.version, dict(rules.terms), rules.dose) == (2, {"片状影": "斑片影"}, ())


def test_doses_of_the_window_only_and_each_once(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    for day, msv in ((1, 1.0), (2, 2.0), (15, 3.0), (16, 4.0)):
        add_dose(store, date(2026, 1, day), msv, uid=f"1.{day}")
    with pytest.raises(BadInput, match="uq_dose_events"):
        add_dose(store, date(2026, 1, 3), 9.0, uid="1.2")
    with store.begin() as work:
        doses = work.rules.doses(study_id(store), date(2026, 1, 1), date(2026, 1, 15))
    assert [dose.msv for dose in doses] == [2.0, 3.0]


def test_doses_of_another_patient_do_not_count(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    add_dose(store, date(2026, 1, 10), 5.0)
    rows.send(store, rows.header(1, "1.2.4", patient_id="P-2"))
    with store.begin() as work:
        assert work.rules.doses(study_id(store, "1.2.4"), date(2025, 1, 1), date(2026, 2, 1)) == ()


def test_studies_without_dose_counts_ct_of_the_window(store: PgStore) -> None:
    rows.send(store, rows.header(1, "1.2.3"), rows.header(1, "1.2.4"), rows.header(1, "1.2.5", study_date=date(2024, 1, 1)))
    add_dose(store, date(2026, 1, 15), 5.0, study=study_id(store, "1.2.4"))
    with store.begin() as work:
        assert work.rules.studies_without_dose(study_id(store), date(2025, 1, 15), date(2026, 1, 15)) == (date(2026, 1, 15),)


def test_study_date_falls_back_to_the_day_of_arrival(store: PgStore) -> None:
    rows.send(store, rows.header(1), rows.header(1, "1.2.4", study_date=None))
    arrived = rows.one(store, "SELECT (first_received AT TIME ZONE 'UTC')::date AS day FROM studies WHERE study_uid = '1.2.4'")["day"]
    with store.begin() as work:
        assert work.rules.study_date(study_id(store)) == date(2026, 1, 15)
        assert work.rules.study_date(study_id(store, "1.2.4")) == arrived
        with pytest.raises(BadInput):
            work.rules.study_date(uuid4())
