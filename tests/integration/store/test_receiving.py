from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from threading import Barrier
from uuid import uuid4

import pytest

from pipeline.errors import IllegalMove
from pipeline.model import Header, Patient, Priority, Stored
from pipeline.ports import Filing
from pipeline.store import operator
from pipeline.store.receiving import CONFLICTING, PATIENT_DIFFERS
from pipeline.store.session import PgStore
from tests.integration.store import rows


def test_new_then_same_then_other_bytes(store: PgStore) -> None:
    assert rows.send(store, rows.header(1), rows.header(1), rows.header(1, content="x"), rows.header(1, content="x")) == [
        Filing.NEW,
        Filing.SAME,
        Filing.CONFLICT,
        Filing.SAME,
    ]
    study = rows.one(store, "SELECT images, reason FROM studies")
    assert study["images"] == 1
    assert "SOPInstanceUID" in study["reason"]
    beside = rows.one(store, "SELECT * FROM instances WHERE NOT is_first")
    assert beside["flags"] == [CONFLICTING]


def test_same_bytes_change_nothing(store: PgStore) -> None:
    rows.ready_job(store)
    before = dict(rows.one(store, "SELECT * FROM studies"))
    assert rows.send(store, rows.header(1), association=uuid4()) == [Filing.SAME]
    assert dict(rows.one(store, "SELECT * FROM studies")) == before
    assert before["state"] == "complete"
    assert rows.count(store, "study_associations") == 0


def test_other_bytes_under_a_known_uid_do_not_reopen_a_complete_study(store: PgStore) -> None:
    rows.ready_job(store)
    assert rows.send(store, rows.header(1, content="x")) == [Filing.CONFLICT]
    assert rows.one(store, "SELECT state FROM studies")["state"] == "complete"


def test_late_image_reopens_and_the_next_freeze_makes_revision_two(store: PgStore) -> None:
    first = rows.ready_job(store)
    rows.send(store, rows.header(9))
    assert rows.one(store, "SELECT state FROM studies")["state"] == "receiving"
    second = rows.freeze(store)
    assert second not in (None, first)
    jobs = rows.one(store, "SELECT array_agg(state ORDER BY revision) AS states, array_agg(revision ORDER BY revision) AS revisions FROM jobs")
    assert jobs["states"] == ["superseded", "ready"]
    assert jobs["revisions"] == [1, 2]


def test_held_study_keeps_what_arrives_and_stays_held(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    operator.hold(store, "1.2.3")
    assert rows.send(store, rows.header(2)) == [Filing.NEW]
    study = rows.one(store, "SELECT state, images FROM studies")
    assert (study["state"], study["images"]) == ("held", 2)


def test_withdrawn_study_never_comes_back(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    operator.withdraw(store, "1.2.3")
    assert rows.send(store, rows.header(2)) == [Filing.NEW]
    assert rows.one(store, "SELECT state FROM studies")["state"] == "withdrawn"
    with pytest.raises(IllegalMove):
        operator.release(store, "1.2.3")


def test_another_patient_id_in_one_study_is_flagged_and_the_first_patient_stays(store: PgStore) -> None:
    rows.send(store, rows.header(1), rows.header(2, patient_id="P-2"))
    assert rows.one(store, "SELECT patient_id FROM patients")["patient_id"] == "P-1"
    assert rows.one(store, "SELECT flags FROM instances WHERE instance_number = 2")["flags"] == [PATIENT_DIFFERS]


def test_another_patient_in_one_study_holds_it_until_a_person_releases_it_once(store: PgStore) -> None:
    rows.send(store, rows.header(1), rows.header(2, patient_id="P-2"))
    held = rows.one(store, "SELECT state, reason FROM studies")
    assert held["state"] == "held"
    assert "PatientID" in held["reason"]
    operator.release(store, "1.2.3")
    rows.send(store, rows.header(3, patient_id="P-2"))
    assert rows.one(store, "SELECT state FROM studies")["state"] == "receiving"


def test_an_image_without_a_patient_id_is_flagged_and_holds_nothing(store: PgStore) -> None:
    rows.send(store, rows.header(1), rows.header(2, patient_id=""))
    assert rows.one(store, "SELECT state FROM studies")["state"] == "receiving"
    assert rows.one(store, "SELECT flags FROM instances WHERE instance_number = 2")["flags"] == [PATIENT_DIFFERS]


def test_a_group_files_each_as_if_it_had_come_alone(store: PgStore) -> None:
    group = [rows.header(1), rows.header(2), rows.header(1), rows.header(1, content="x"), rows.header(1, "1.2.4"), rows.header(3, patient_id="P-2")]
    association = uuid4()
    with store.begin() as work:
        found = work.studies.register([(one, association) for one in group])
    assert [one.filing for one in found] == [Filing.NEW, Filing.NEW, Filing.SAME, Filing.CONFLICT, Filing.NEW, Filing.NEW]
    assert [one.patient_differs for one in found] == [False] * 5 + [True]
    assert rows.one(store, "SELECT images, state FROM studies WHERE study_uid = '1.2.3'") == {"images": 3, "state": "held"}
    assert (rows.count(store, "instances"), rows.count(store, "study_associations")) == (5, 2)


def test_eight_threads_with_groups_over_the_same_studies_lose_and_double_nothing(store: PgStore) -> None:
    images = [rows.header(number, f"1.2.{study}") for study in range(4) for number in range(1, 11)]
    groups = [images[start::8] for start in range(8)] + [images[::-1][start : start + 5] for start in range(0, 40, 5)]

    def register(group: list[Header]) -> list[Filing]:
        with store.begin() as work:
            return [found.filing for found in work.studies.register([(one, None) for one in group])]

    with ThreadPoolExecutor(8) as pool:
        filings = [filing for found in pool.map(register, groups) for filing in found]
    assert (filings.count(Filing.NEW), filings.count(Filing.SAME)) == (40, 40)
    assert rows.one(store, "SELECT sum(images) AS n FROM studies")["n"] == rows.count(store, "instances") == 40


def test_two_threads_with_groups_of_new_studies_of_the_same_patients_crosswise_never_deadlock(store: PgStore) -> None:
    together = Barrier(2)

    def register(group: list[Header]) -> list[Filing]:
        together.wait(20.0)
        with store.begin() as work:
            return [found.filing for found in work.studies.register([(one, None) for one in group])]

    with ThreadPoolExecutor(2) as pool:
        for turn in range(20):
            patients = [f"P-{turn}-{number}" for number in range(4)]
            forth = [rows.header(1, f"1.1.{turn}.{place}", patient_id=one) for place, one in enumerate(patients)]
            back = [rows.header(1, f"1.2.{turn}.{place}", patient_id=one) for place, one in enumerate(reversed(patients))]
            assert list(pool.map(register, (forth, back))) == [[Filing.NEW] * 4] * 2
    assert (rows.count(store, "patients"), rows.count(store, "studies"), rows.count(store, "instances")) == (80, 160, 160)


def test_strangers_without_an_id_are_two_patients(store: PgStore) -> None:
    rows.send(store, rows.header(1, "1.2.3", patient_id=""), rows.header(1, "1.2.4", patient_id=""), rows.header(2, "1.2.4", patient_id=""))
    assert rows.count(store, "patients") == 2
    assert rows.one(store, "SELECT count(*) AS n FROM instances WHERE flags <> '[]'")["n"] == 0


def test_two_people_with_one_patient_id_and_different_birth_dates_are_two_patients(store: PgStore) -> None:
    def born(study: str, day: date | None) -> Header:
        one = rows.header(1, study)
        return replace(one, patient=replace(one.patient, birth_date=day, name=f"name^{study}"))

    rows.send(store, born("1.2.3", date(1970, 1, 1)), born("1.2.4", date(1950, 5, 5)), born("1.2.5", None), born("1.2.6", date(1970, 1, 1)))
    found = rows.one(store, "SELECT count(DISTINCT patient_id) AS people, count(*) AS studies FROM studies")
    assert found == {"people": 2, "studies": 4}
    query = "SELECT p.name FROM studies s JOIN patients p ON p.id = s.patient_id WHERE study_uid = '1.2.4'"
    assert rows.one(store, query)["name"] == "name^1.2.4"


def test_one_patient_with_two_studies_is_one_row(store: PgStore) -> None:
    rows.send(store, rows.header(1, "1.2.3"), rows.header(1, "1.2.4"))
    assert (rows.count(store, "patients"), rows.count(store, "studies")) == (1, 2)


def test_later_objects_fill_in_what_the_first_did_not_say_and_the_most_urgent_priority_wins(store: PgStore) -> None:
    rows.send(store, rows.header(1, accession="", indication="", priority=Priority.NIGHT), rows.header(2, priority=Priority.STAT), rows.header(3))
    study = rows.one(store, "SELECT accession, indication, priority FROM studies")
    assert (study["accession"], study["indication"], study["priority"]) == ("A-1", "咳嗽", 0)


def test_nul_and_lone_surrogates_from_a_header_do_not_break_the_row(store: PgStore) -> None:
    patient = Patient("P\x00-1", "", "A\udcff^B", False, None, "")
    rows.send(store, replace(rows.header(1), patient=patient, accession="A\x00"))
    assert rows.one(store, "SELECT patient_id, name FROM patients") == {"patient_id": "P-1", "name": "A?^B"}


def test_eight_threads_on_the_same_studies_lose_and_double_nothing(store: PgStore) -> None:
    images = [rows.header(number, f"1.2.{study}") for number in range(1, 11) for study in range(4)]
    work = images * 3  # each image arrives three times
    with ThreadPoolExecutor(8) as pool:
        filings = list(pool.map(lambda header: rows.send(store, header)[0], work))
    assert filings.count(Filing.NEW) == 40
    assert filings.count(Filing.SAME) == 80
    assert rows.count(store, "instances") == 40
    assert (rows.count(store, "studies"), rows.count(store, "series"), rows.count(store, "patients")) == (4, 4, 1)
    assert rows.one(store, "SELECT sum(images) AS n FROM studies")["n"] == 40


def test_eight_threads_with_different_bytes_under_one_uid_keep_one_first(store: PgStore) -> None:
    work = [rows.header(1, content=str(copy)) for copy in range(8)]
    with ThreadPoolExecutor(8) as pool:
        filings = list(pool.map(lambda header: rows.send(store, header)[0], work))
    assert sorted(filings) == [Filing.CONFLICT] * 7 + [Filing.NEW]
    assert rows.one(store, "SELECT count(*) AS n FROM instances WHERE is_first")["n"] == 1


def test_one_sop_uid_in_two_studies_at_once_has_one_first(store: PgStore) -> None:
    def in_study(number: int) -> Filing:
        header = rows.header(1, f"1.2.{number}", content=str(number))
        return rows.send(store, replace(header, instance=replace(header.instance, sop_uid="1.9.9")))[0]

    with ThreadPoolExecutor(8) as pool:
        filings = list(pool.map(in_study, range(8)))
    assert sorted(filings) == [Filing.CONFLICT] * 7 + [Filing.NEW]


def test_an_open_association_keeps_its_studies_from_being_quiet(store: PgStore) -> None:
    association = uuid4()
    with store.begin() as work:
        work.studies.open_association(association, "listener", "CT1", "10.0.0.1")
    rows.send(store, rows.header(1), association=association)
    assert rows.quiet(store) == ()
    with store.begin() as work:
        work.studies.close_association(association, "released")
    assert len(rows.quiet(store)) == 1


def test_orphans_of_one_listener_are_closed_as_lost(store: PgStore) -> None:
    with store.begin() as work:
        for name in ("a", "a", "b"):
            work.studies.open_association(uuid4(), name, "CT1", "10.0.0.1")
    with store.begin() as work:
        assert work.studies.close_orphans("a") == 2
    assert rows.one(store, "SELECT listener FROM associations WHERE how IS NULL")["listener"] == "b"


def test_an_association_that_was_never_opened_still_files_its_images(store: PgStore) -> None:
    assert rows.send(store, rows.header(1), association=uuid4()) == [Filing.NEW]
    assert len(rows.quiet(store)) == 1


def test_quarantined_bytes_are_noted(store: PgStore) -> None:
    with store.begin() as work:
        work.studies.quarantined(Stored("quarantine/x", "00", 3, True), "no header", None)
    assert rows.one(store, "SELECT reason FROM quarantine")["reason"] == "no header"
