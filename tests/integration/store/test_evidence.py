"""What the database knows for and against a study being complete, and who is claimed when."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID, uuid4

from sqlalchemy import text

from pipeline.evidence import Evidence, Patience, StepEvidence, Verdict, VerdictKind
from pipeline.modalities import PerformedStep, StepChange, StepStatus
from pipeline.model import Study
from pipeline.store import queries
from pipeline.store.session import PgStore
from tests.integration.store import rows
from tests.integration.store.rows import ME, OTHER

SLOW = Patience(quiet_s=30.0, settle_s=5.0, patience_s=300.0, force_after_s=3600.0)


def associated(store: PgStore, how: str | None, *numbers: int, aet: str = "CT1") -> UUID:
    """Images over an association that ended as told; None: it is open."""
    association = uuid4()
    with store.begin() as work:
        work.studies.open_association(association, "listener", aet, "127.0.0.1")
    rows.send(store, *(rows.header(number) for number in numbers), association=association)
    if how is not None:
        with store.begin() as work:
            work.studies.close_association(association, how)
    return association


def aged(store: PgStore, seconds: float) -> None:
    """Everything of the studies happened that much earlier."""
    moved = ", ".join(
        f"{column} = {column} - make_interval(secs => :s)" for column in ("first_received", "last_received", "arriving_since", "due_at")
    )
    with store.begin() as work:
        work.session.execute(text(f"UPDATE studies SET {moved}"), {"s": seconds})


def claim(store: PgStore, patience: Patience = SLOW) -> tuple[Study, ...]:
    with store.begin() as work:
        return work.studies.claim_quiet(patience, 10, ME)


def known(store: PgStore) -> Evidence:
    """The evidence of the one study, without its times."""
    with store.begin() as work:
        (study,) = work.studies.claim_quiet(replace(SLOW, force_after_s=0.0), 10, ME)
        evidence = work.studies.evidence(study)
        work.session.execute(text("UPDATE studies SET lease_owner = NULL, lease_until = NULL"))
    return replace(evidence, quiet_s=0.0, age_s=0.0)


def step(store: PgStore, status: StepStatus, *numbers: int) -> None:
    """An MPPS of the study that names these images."""
    expected = tuple(rows.header(number).instance.sop_uid for number in numbers)
    with store.begin() as work:
        work.performed.create(PerformedStep(f"9.9.{uuid4().int}", status, "CT1", "CT", ("1.2.3",), expected, None, None))


def test_times_count_from_the_newest_image_and_from_the_beginning_of_the_arrival(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    aged(store, 100.0)
    rows.send(store, rows.header(2))
    aged(store, 50.0)
    (study,) = claim(store)
    with store.begin() as work:
        evidence = work.studies.evidence(study)
    assert 50.0 <= evidence.quiet_s < 60.0
    assert 150.0 <= evidence.age_s < 160.0
    assert (evidence.images, evidence.rejected) == (2, 0)


def test_a_late_image_begins_a_new_arrival(store: PgStore) -> None:
    rows.ready_job(store)
    aged(store, 7200.0)
    rows.send(store, rows.header(9))
    aged(store, 40.0)
    (study,) = claim(store)
    with store.begin() as work:
        assert 40.0 <= work.studies.evidence(study).age_s < 50.0


def test_how_associations_ended_is_counted(store: PgStore) -> None:
    associated(store, "aborted", 1, aet="CT1")
    associated(store, "lost", 2, aet="CT2")
    associated(store, None, 3, aet="CT3")
    assert known(store) == Evidence(0.0, 0.0, images=3, associations_open=1, associations_aborted=1, associations_lost=1)


def test_a_later_clean_association_of_the_same_sender_makes_a_broken_one_good(store: PgStore) -> None:
    associated(store, "aborted", 1)
    associated(store, "released", 2, aet="OTHER")
    assert known(store).associations_aborted == 1
    associated(store, "released", 3)
    evidence = known(store)
    assert (evidence.associations_aborted, evidence.associations_released) == (0, 3)


def test_a_sender_that_was_cut_off_and_sends_the_same_images_again_has_made_it_good(store: PgStore) -> None:
    associated(store, "aborted", 1)
    assert known(store).associations_aborted == 1
    associated(store, "released", 1)
    assert (known(store).associations_aborted, known(store).images) == (0, 1)


def test_a_repetition_brings_a_postponed_study_before_the_judge_at_once(store: PgStore) -> None:
    associated(store, "aborted", 1)
    aged(store, 100.0)
    (study,) = claim(store)
    with store.begin() as work:
        assert work.studies.postpone(study, Verdict(VerdictKind.WAIT, Evidence(1.0, 1.0, images=1), ("中断",), wait_s=300.0), rows.ME)
    assert claim(store) == ()
    associated(store, "released", 1)
    assert len(claim(store)) == 1


def test_an_association_that_ends_makes_its_postponed_study_due_again(store: PgStore) -> None:
    association = associated(store, None, 1)
    aged(store, 100.0)
    (study,) = claim(store, replace(SLOW, force_after_s=0.0))
    with store.begin() as work:
        assert work.studies.postpone(study, Verdict(VerdictKind.WAIT, Evidence(1.0, 1.0, images=1), ("仍有连接",), wait_s=300.0), rows.ME)
    assert claim(store) == ()
    with store.begin() as work:
        work.studies.close_association(association, "released")
    assert len(claim(store)) == 1


def test_a_dose_report_sent_later_makes_no_broken_association_good(store: PgStore) -> None:
    associated(store, "aborted", 1)
    association = uuid4()
    report = rows.header(8)
    with store.begin() as work:
        work.studies.open_association(association, "listener", "CT1", "127.0.0.1")
    rows.send(store, replace(report, instance=replace(report.instance, rows=None, columns=None)), association=association)
    with store.begin() as work:
        work.studies.close_association(association, "released")
    assert known(store).associations_aborted == 1


def test_mpps_tells_what_is_expected_and_what_is_not_here(store: PgStore) -> None:
    rows.send(store, rows.header(1), rows.header(2))
    step(store, StepStatus.COMPLETED, 1, 2)
    step(store, StepStatus.IN_PROGRESS, 2, 3, 4)
    step(store, StepStatus.DISCONTINUED)
    assert known(store).steps == (StepEvidence(False, False, 2, 0), StepEvidence(True, False, 3, 2), StepEvidence(False, True, 0, 0))


def test_quiet_studies_are_claimed_and_with_a_completed_mpps_already_settled_ones(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    aged(store, 10.0)
    assert claim(store) == ()
    step(store, StepStatus.IN_PROGRESS, 1)
    assert claim(store) == ()
    step(store, StepStatus.COMPLETED, 1)
    assert len(claim(store)) == 1


def test_an_open_association_keeps_a_study_from_being_claimed_until_the_limit(store: PgStore) -> None:
    associated(store, None, 1, 2)
    aged(store, 3000.0)
    assert claim(store) == ()
    assert queries.study_overview(store, "1.2.3")[0]["reason"] == "等待：发送连接未关闭"
    aged(store, 700.0)
    assert len(claim(store)) == 1


def test_a_postponed_study_says_why_and_comes_back_at_its_time_or_with_news(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    aged(store, 40.0)
    (study,) = claim(store)
    verdict = Verdict(VerdictKind.WAIT, Evidence(40.0, 40.0, images=1, associations_lost=1), ("接收服务曾重启",), wait_s=260.0)
    with store.begin() as work:
        assert work.studies.postpone(study, verdict, ME)
    assert claim(store) == ()
    (row,) = queries.study_overview(store, "1.2.3")
    assert (row["state"], row["reason"]) == ("receiving", "等待：接收服务曾重启")
    assert row["evidence"]["associations_lost"] == 1
    assert rows.one(store, "SELECT attempts, lease_owner FROM studies") == {"attempts": 0, "lease_owner": None}
    step(store, StepStatus.IN_PROGRESS, 1)  # an MPPS is news
    assert len(claim(store)) == 1


def test_a_new_image_wins_over_a_postponement(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    aged(store, 40.0)
    (study,) = claim(store)
    rows.send(store, rows.header(2))
    with store.begin() as work:
        assert not work.studies.postpone(study, Verdict(VerdictKind.WAIT, Evidence(40.0, 40.0), ("x",), wait_s=260.0), ME)
    assert rows.one(store, "SELECT due_at <= now() AS due FROM studies")["due"]


def test_only_the_holder_postpones(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    aged(store, 40.0)
    (study,) = claim(store)
    with store.begin() as work:
        assert not work.studies.postpone(study, Verdict(VerdictKind.WAIT, Evidence(40.0, 40.0), ("x",), wait_s=1.0), OTHER)


def test_waiting_studies_are_not_stuck_within_their_patience_and_are_past_the_limit(store: PgStore) -> None:
    associated(store, None, 1)
    rows.send(store, rows.header(1, "4.5.6"))
    aged(store, 100.0)
    (study,) = claim(store)
    with store.begin() as work:
        work.studies.postpone(study, Verdict(VerdictKind.WAIT, Evidence(100.0, 100.0), ("x",), wait_s=200.0), ME)
    assert queries.stuck(store, 60.0, SLOW) == []
    aged(store, 300.0)  # the postponed one is due for 100 s; the open association goes on
    assert [one.what for one in queries.stuck(store, 60.0, SLOW)] == ["study"]
    aged(store, 3600.0)
    assert len(queries.stuck(store, 60.0, SLOW)) == 2


def test_freezing_a_partial_study_keeps_the_verdict_with_study_and_revision(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    (study,) = rows.quiet(store)
    verdict = Verdict(VerdictKind.PARTIAL, Evidence(300.0, 400.0, images=1, associations_aborted=1), ("连接被中断", "缺 2 层"), forced=True)
    with store.begin() as work:
        assert work.studies.freeze(study, rows.choice(study), False, None, verdict) is not None
    job = rows.one(store, "SELECT completeness, evidence FROM jobs")
    assert job["completeness"] == "连接被中断；缺 2 层"
    assert job["evidence"].items() >= {"verdict": "partial", "forced": True, "associations_aborted": 1, "gaps": []}.items()
    assert rows.one(store, "SELECT state, evidence FROM studies") == {"state": "partial", "evidence": job["evidence"]}
    assert queries.study_overview(store, "1.2.3")[0]["reason"] == "资料不完整：连接被中断；缺 2 层"
    (claimed,) = rows.claim(store)
    assert claimed.completeness == "连接被中断；缺 2 层"


def test_a_partial_study_that_becomes_whole_without_a_new_file_gets_a_new_revision(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    (study,) = rows.quiet(store)
    partial = Verdict(VerdictKind.PARTIAL, rows.COMPLETE.evidence, ("连接被中断",))
    with store.begin() as work:
        work.studies.freeze(study, rows.choice(study), False, None, partial)
    rows.send(store, replace(rows.header(2), instance=replace(rows.header(2).instance, series_uid="1.2.3.6")))
    (again,) = rows.quiet(store)
    with store.begin() as work:
        assert work.studies.freeze(again, replace(rows.choice(again), chosen=again.series[:1]), False, None, rows.COMPLETE) is not None
    assert rows.one(store, "SELECT state, revision FROM studies") == {"state": "complete", "revision": 2}


def test_a_completed_step_is_news_of_a_change(store: PgStore) -> None:
    rows.send(store, rows.header(1))
    with store.begin() as work:
        work.performed.create(PerformedStep("9.9.1", StepStatus.IN_PROGRESS, "CT1", "CT", ("1.2.3",), (), None, None))
        work.performed.change("9.9.1", StepChange(StepStatus.COMPLETED, (rows.header(1).instance.sop_uid,)))
    assert known(store).steps == (StepEvidence(False, False, 1, 0),)
