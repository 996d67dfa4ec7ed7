from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Event

from sqlalchemy import text

from pipeline.choosing import SeriesChoice
from pipeline.model import Lease
from pipeline.store.session import PgStore
from tests.integration.store import rows
from tests.integration.store.rows import ME, OTHER


def test_a_quiet_study_comes_with_its_series_in_slice_order(store: PgStore) -> None:
    rows.send(store, rows.header(3), rows.header(1), rows.header(2), rows.header(2, content="other bytes"))
    (study,) = rows.quiet(store)
    (series,) = study.series
    assert [instance.instance_number for instance in series.instances] == [1, 2, 3]
    assert series.instances[0] == rows.header(1).instance
    assert (study.images, study.revision, study.indication, series.kernel) == (3, 0, "咳嗽", "B31f")


def test_a_study_with_a_recent_image_is_not_quiet(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    with store.begin() as work:
        assert work.studies.claim_quiet(replace(rows.NOW, quiet_s=60.0), 10, ME) == ()


def test_oldest_first_and_each_study_once(store: PgStore) -> None:
    rows.send(store, rows.header(1, "1.2.3"), rows.header(1, "1.2.4"), rows.header(1, "1.2.5"))
    assert [study.study_uid for study in rows.quiet(store, limit=2)] == ["1.2.3", "1.2.4"]
    assert [study.study_uid for study in rows.quiet(store, lease=OTHER)] == ["1.2.5"]


def test_freeze_makes_a_ready_job_with_its_list(store: PgStore) -> None:
    job_id = rows.ready_job(store)
    job = rows.one(store, "SELECT * FROM jobs")
    assert job["id"] == job_id
    assert (job["state"], job["revision"], job["region"]) == ("ready", 1, "chest")
    assert job["series_refused"] == [["1.2.3.6", "localizer"]]
    study = rows.one(store, "SELECT state, revision, lease_owner FROM studies")
    assert (study["state"], study["revision"], study["lease_owner"]) == ("complete", 1, None)


def test_freeze_with_a_reason_ends_as_unsupported(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    assert rows.freeze(store, "region 'head' is not read here") is not None
    job = rows.one(store, "SELECT state, reason FROM jobs")
    assert (job["state"], job["reason"]) == ("unsupported", "region 'head' is not read here")


def test_an_image_between_claim_and_freeze_wins(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    (study,) = rows.quiet(store)
    rows.send(store, rows.header(2))
    with store.begin() as work:
        assert work.studies.freeze(study, rows.choice(study), False, None, rows.COMPLETE) is None
    assert rows.count(store, "jobs") == 0
    (again,) = rows.quiet(store, lease=OTHER)  # the new image freed the lease
    assert again.images == 2


def test_freeze_waits_for_an_image_in_flight_and_then_steps_back(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    (study,) = rows.quiet(store)
    started = Event()

    def freeze() -> object:
        with store.begin() as work:
            started.set()
            return work.studies.freeze(study, rows.choice(study), False, None, rows.COMPLETE)

    with ThreadPoolExecutor(1) as pool:
        with store.begin() as late:
            late.studies.register([(rows.header(2), None)])
            frozen = pool.submit(freeze)
            assert started.wait(10)
            assert wait([frozen], timeout=0.2).not_done  # it waits for the study's row
        assert frozen.result(10) is None
    assert rows.count(store, "jobs") == 0


def test_two_freezers_make_one_job(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    (slow,) = rows.quiet(store)
    rows.expire(store, "studies")
    (fast,) = rows.quiet(store, lease=OTHER)
    with store.begin() as work:
        assert work.studies.freeze(fast, rows.choice(fast), False, None, rows.COMPLETE) is not None
    with store.begin() as work:
        assert work.studies.freeze(slow, rows.choice(slow), False, None, rows.COMPLETE) is None
    assert rows.count(store, "jobs") == 1


def test_a_late_image_that_changes_no_chosen_file_makes_no_revision(store: PgStore) -> None:
    rows.ready_job(store)
    rows.send(store, rows.header(9))
    (study,) = rows.quiet(store)
    series = study.series[0]
    same = SeriesChoice((replace(series, instances=series.instances[:3]),), ((series.series_uid, "a fourth image is a localizer"),), "chest")
    with store.begin() as work:
        assert work.studies.freeze(study, same, False, None, rows.COMPLETE) is None
    assert rows.one(store, "SELECT state, revision FROM studies") == {"state": "complete", "revision": 1}


def test_an_assembly_that_dies_again_and_again_ends_held_with_a_sentence(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    for _ in range(2):
        assert len(rows.quiet(store, lease=Lease("dies", 1.0))) == 1
        rows.expire(store, "studies")
        with store.begin() as work:
            assert work.studies.reclaim_expired(2) == 1
    study = rows.one(store, "SELECT state, reason, lease_owner FROM studies")
    assert (study["state"], study["lease_owner"]) == ("held", None)
    assert "2 times" in study["reason"]


def test_what_the_choice_needs_comes_back_as_it_was_read(store: PgStore) -> None:
    told = rows.header(1)
    facts = replace(told.instance, frames=120, acquisition=3, temporal=2)
    rows.send(store, replace(told, instance=facts, series_number=5, kvp=100.0, contrast_agent="Iohexol", protocol="胸部增强"))
    (study,) = rows.quiet(store)
    (series,) = study.series
    assert series.instances == (facts,)
    assert (series.number, series.kvp, series.contrast_agent, series.protocol) == (5, 100.0, "Iohexol", "胸部增强")


def test_the_same_files_in_another_order_are_no_new_revision(store: PgStore) -> None:
    rows.ready_job(store)
    with store.begin() as work:
        work.session.execute(text("UPDATE jobs SET files = (SELECT jsonb_agg(f ORDER BY f DESC) FROM jsonb_array_elements(files) f)"))
        work.session.execute(text("UPDATE studies SET state = 'receiving'"))
    assert rows.freeze(store) is None
