"""Rejection notes on real rows: withdrawn, assembled again, or kept for images that have not come."""

from __future__ import annotations

from dataclasses import replace

from pipeline.choosing import SeriesChoice
from pipeline.model import RejectedImage, Rejection, StudyState
from pipeline.ports import Rejected
from pipeline.store import operator
from pipeline.store.session import PgStore
from tests.integration.store import rows


def reject(store: PgStore, *numbers: int, study: str = "1.2.3", of: str | None = None, code: str = "113001") -> tuple[Rejected, ...]:
    """A note of `study` arrives and takes back images of `of`; its own row is there before, as the listener has it."""
    key_object = rows.header(900, study)
    plain = replace(key_object.instance, sop_class="1.2.840.10008.5.1.4.1.1.88.59", modality="KO", series_uid=f"{study}.8", rows=None, columns=None)
    rows.send(store, replace(key_object, instance=plain))
    named = tuple(RejectedImage(of or study, rows.header(number, of or study).instance.sop_uid) for number in numbers)
    with store.begin() as work:
        return work.studies.reject(study, Rejection(f"{study}.8.1", code, "因质量原因拒绝", study, named))


def states(store: PgStore) -> dict[str, object]:
    return rows.one(
        store,
        "SELECT s.state, s.revision, r.state AS report, j.state AS job FROM studies s JOIN jobs j ON j.study_id = s.id "
        "LEFT JOIN reports r ON r.study_id = s.id",
    )


def shown(store: PgStore) -> int:
    return rows.count(store, "finished_reports")


def test_a_note_over_every_image_withdraws_the_study_and_writes_a_notice(store: PgStore) -> None:
    draft_id = rows.drafted(store)
    (done,) = reject(store, 1, 2, 3)
    assert (done.images, done.before, done.after) == (3, StudyState.RECEIVING, StudyState.WITHDRAWN)
    assert states(store) == {"state": "withdrawn", "revision": 1, "report": "rejected", "job": "superseded"}
    assert shown(store) == 0
    assert rows.one(store, "SELECT draft_id, kind, state FROM deliveries") == {"draft_id": draft_id, "kind": "withdrawal", "state": "waiting"}
    assert "113001 因质量原因拒绝" in rows.one(store, "SELECT reason FROM studies")["reason"]
    detail = rows.one(store, "SELECT detail FROM audit WHERE action = 'reject'")["detail"]
    assert detail == {"code": "113001", "images": "3", "before": "receiving", "after": "withdrawn"}


def test_a_note_over_some_images_bars_the_draft_at_once_and_a_new_revision_reads_the_rest(store: PgStore) -> None:
    rows.drafted(store)
    (done,) = reject(store, 2)
    assert done.after is StudyState.RECEIVING
    assert shown(store) == 0
    assert states(store) == {"state": "receiving", "revision": 1, "report": "rejected", "job": "superseded"}
    (study,) = rows.quiet(store)
    assert [image.instance_number for series in study.series for image in series.instances if image.rows] == [1, 3]
    with store.begin() as work:
        assert work.studies.evidence(study).rejected == 1
        assert work.studies.freeze(study, rows.choice(study), False, None, rows.COMPLETE) is not None
    assert rows.one(store, "SELECT revision FROM studies")["revision"] == 2


def test_the_same_note_again_does_nothing_more(store: PgStore) -> None:
    rows.drafted(store)
    assert len(reject(store, 1, 2, 3)) == 1
    assert reject(store, 1, 2, 3) == ()
    assert (rows.count(store, "rejections"), rows.count(store, "deliveries")) == (3, 1)


def test_a_note_before_its_images_bars_them_when_they_come(store: PgStore) -> None:
    assert reject(store, 1, 2) == ()
    rows.send(store, rows.header(1), rows.header(2), rows.header(3))
    (study,) = rows.quiet(store)
    assert [image.instance_number for series in study.series for image in series.instances if image.rows] == [3]


def test_when_every_image_that_came_was_rejected_before_the_study_is_withdrawn(store: PgStore) -> None:
    reject(store, 1, 2)
    rows.send(store, rows.header(1), rows.header(2))
    (study,) = rows.quiet(store)
    with store.begin() as work:
        assert work.studies.withdraw_rejected(study)
    assert rows.one(store, "SELECT state FROM studies")["state"] == "withdrawn"
    assert rows.one(store, "SELECT detail FROM audit WHERE action = 'withdraw'")["detail"]["by"] == "rejection note"


def test_an_image_that_comes_meanwhile_keeps_the_study_from_being_withdrawn(store: PgStore) -> None:
    reject(store, 1)
    rows.send(store, rows.header(1))
    (study,) = rows.quiet(store)
    rows.send(store, rows.header(2))
    with store.begin() as work:
        assert not work.studies.withdraw_rejected(study)


def test_new_images_reopen_a_study_that_a_note_withdrew_and_none_that_an_operator_did(store: PgStore) -> None:
    rows.drafted(store)
    reject(store, 1, 2, 3)
    rows.send(store, rows.header(4), rows.header(5))
    assert rows.one(store, "SELECT state, rejected_at FROM studies") == {"state": "receiving", "rejected_at": None}
    (study,) = rows.quiet(store)
    assert [image.instance_number for series in study.series for image in series.instances if image.rows] == [4, 5]
    operator.withdraw(store, "1.2.3")
    rows.send(store, rows.header(6))
    assert rows.one(store, "SELECT state FROM studies")["state"] == "withdrawn"


def test_images_that_nobody_read_leave_the_draft_alone(store: PgStore) -> None:
    rows.drafted(store)
    localizer = rows.header(7)
    rows.send(store, replace(localizer, instance=replace(localizer.instance, series_uid="1.2.3.7")))
    (study,) = rows.quiet(store)
    same = SeriesChoice((study.series[0],), (("1.2.3.7", "localizer"),), "chest")
    with store.begin() as work:
        assert work.studies.freeze(study, same, False, None, rows.COMPLETE) is None
    (done,) = reject(store, 7)
    assert done.after is StudyState.RECEIVING
    assert rows.one(store, "SELECT state FROM jobs")["state"] == "drafted"
    assert shown(store) == 1


def test_a_report_under_a_readers_hand_is_not_taken_away_by_a_partial_note(store: PgStore) -> None:
    rows.drafted(store)
    rows.one(store, "UPDATE reports SET state = 'reviewing', reviewed_by = 'dr' RETURNING 1")
    reject(store, 2)
    assert states(store)["report"] == "reviewing"
    assert shown(store) == 1


def test_expired_retention_is_noted_and_bars_nothing(store: PgStore) -> None:
    rows.drafted(store)
    assert reject(store, 1, 2, 3, code="113039") == ()
    assert (rows.count(store, "rejections"), states(store)["report"]) == (0, "waiting")
    assert rows.one(store, "SELECT detail FROM audit WHERE action = 'reject'")["detail"]["bars"] == "no"


def test_a_note_reaches_another_study_of_the_same_patient_only(store: PgStore) -> None:
    rows.send(store, rows.header(1, "4.5.6"), replace(rows.header(1, "7.8.9", patient_id="P-2")))
    assert reject(store, 1, of="7.8.9") == ()
    (done,) = reject(store, 1, study="1.2.4", of="4.5.6")
    assert (done.before, done.after) == (StudyState.RECEIVING, StudyState.WITHDRAWN)
    assert rows.one(store, "SELECT state FROM studies WHERE study_uid = '7.8.9'")["state"] == "receiving"


def test_a_note_that_places_an_image_in_the_wrong_study_takes_nothing_back(store: PgStore) -> None:
    rows.send(store, rows.header(1), rows.header(1, "4.5.6"))
    with store.begin() as work:
        named = (RejectedImage("4.5.6", rows.header(1).instance.sop_uid),)
        assert work.studies.reject("1.2.3", Rejection("1.2.3.8.1", "113001", "x", "1.2.3", named)) == ()


def test_a_held_study_stays_held_for_some_and_is_withdrawn_for_all(store: PgStore) -> None:
    rows.ready_job(store)
    operator.hold(store, "1.2.3")
    assert reject(store, 1)[0].after is StudyState.HELD
    with store.begin() as work:
        named = tuple(RejectedImage("1.2.3", rows.header(number).instance.sop_uid) for number in (2, 3))
        (done,) = work.studies.reject("1.2.3", Rejection("1.2.3.8.2", "113037", "x", "1.2.3", named))
    assert done.after is StudyState.WITHDRAWN


def test_an_assembler_that_holds_the_study_finds_it_changed(store: PgStore) -> None:
    rows.send(store, rows.header(1), rows.header(2))
    (study,) = rows.quiet(store)
    with store.begin() as work:
        named = (RejectedImage("1.2.3", rows.header(1).instance.sop_uid),)
        work.studies.reject("1.2.3", Rejection("1.2.3.8.1", "113001", "x", "1.2.3", named))
    with store.begin() as work:
        assert work.studies.freeze(study, rows.choice(study), False, None, rows.COMPLETE) is None
