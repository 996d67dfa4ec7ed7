"""Earlier examinations of a patient: which are found, and which report of each stands."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any
from uuid import UUID

from sqlalchemy import text

from pipeline.checking import Draft, Prior
from pipeline.model import Candidate, Frame, Job, ReportState, Side, Step
from pipeline.store.priors import priors_query
from pipeline.store.session import PgStore
from tests.integration.store import rows

TODAY, BEFORE, LONG_AGO = date(2026, 1, 15), date(2025, 6, 1), date(2024, 1, 1)
FRAME = Frame((-150.0, -100.0, 0.0, 150.0, 100.0, 250.0), 2.0, 1.0, 1.25)
SEEN = (
    Candidate(1, "结节", (-60.0, 10.0, 100.0), Side.RIGHT, "上叶", "磨玻璃", 7.6, 0.9),
    Candidate(2, "实变", (60.0, 0.0, 50.0), Side.LEFT, None, None, 20.0, 0.4),
)


def study(store: PgStore, uid: str, day: date | None, *, seen: tuple[Candidate, ...] = SEEN, frame: Frame | None = FRAME, **changes: Any) -> Job:
    """A drafted study of that day."""
    rows.send(store, *(rows.header(number, uid, study_date=day, **changes) for number in (1, 2, 3)))
    rows.freeze(store)
    (job,) = rows.claim(store)
    with store.begin() as work:
        work.studies.encoded(job, "features/1.safetensors", "compact", "1", rows.ME)
    (job,) = rows.claim(store, Step.DRAFT)
    made: Draft = replace(rows.draft(job), candidates=seen, frame=frame, covers=("肺", "纵隔"))
    with store.begin() as work:
        work.studies.save_draft(job, made, rows.ME)
    return job


def priors(store: PgStore, job: Job, before: date = TODAY) -> tuple[Prior, ...]:
    with store.begin() as work:
        return work.rules.priors(job.study_id, before)


def sign(store: PgStore, job: Job) -> None:
    with store.begin() as work:
        report = UUID(str(work.session.execute(text("SELECT id FROM reports WHERE study_id = :s"), {"s": job.study_id}).scalar_one()))
    for state in (ReportState.REVIEWING, ReportState.WRITTEN, ReportState.SIGNED):
        with store.begin() as work:
            work.reports.move(work.reports.get(report), state, "dr")


def test_an_earlier_examination_comes_with_its_regions_and_their_frame(store: PgStore) -> None:
    study(store, "1.2.1", BEFORE)
    (prior,) = priors(store, study(store, "1.2.2", TODAY))
    assert (prior.when, prior.signed, prior.frame, prior.covers) == (BEFORE, False, FRAME, ("肺", "纵隔"))
    first, second = prior.spots
    assert (first.index, first.kind, first.side, first.lobe, first.size_mm, first.stated_mm) == (1, "结节", Side.RIGHT, "上叶", 7.6, 8)
    assert first.center_mm == (-60.0, 10.0, 100.0)
    assert (second.kind, second.lobe, second.stated_mm) == ("实变", "", None)


def test_the_newest_stands_first_and_a_signed_report_says_so(store: PgStore) -> None:
    old = study(store, "1.2.1", LONG_AGO)
    study(store, "1.2.2", BEFORE)
    sign(store, old)
    found = priors(store, study(store, "1.2.3", TODAY))
    assert [(prior.when, prior.signed) for prior in found] == [(BEFORE, False), (LONG_AGO, True)]


def test_the_same_day_and_later_ones_and_other_patients_are_left_out(store: PgStore) -> None:
    study(store, "1.2.1", TODAY)
    study(store, "1.2.2", date(2026, 2, 1))
    study(store, "1.2.3", BEFORE, patient_id="P-2")
    assert priors(store, study(store, "1.2.4", TODAY)) == ()


def test_rejected_and_withdrawn_ones_are_left_out(store: PgStore) -> None:
    rejected, withdrawn = study(store, "1.2.1", LONG_AGO), study(store, "1.2.2", BEFORE)
    with store.begin() as work:
        work.session.execute(text("UPDATE reports SET state = 'rejected' WHERE study_id = :s"), {"s": rejected.study_id})
        work.session.execute(text("UPDATE studies SET state = 'withdrawn' WHERE id = :s"), {"s": withdrawn.study_id})
    assert priors(store, study(store, "1.2.3", TODAY)) == ()


def test_an_examination_without_regions_is_still_a_prior(store: PgStore) -> None:
    study(store, "1.2.1", BEFORE, seen=(), frame=None)
    (prior,) = priors(store, study(store, "1.2.2", TODAY))
    assert (prior.spots, prior.frame, prior.covers) == ((), None, ())


def again(store: PgStore, number: int, seen: tuple[Candidate, ...]) -> Job:
    """The same study of BEFORE once more, with a late image."""
    rows.send(store, rows.header(number, "1.2.1", study_date=BEFORE))
    return study(store, "1.2.1", BEFORE, seen=seen)


def test_of_two_revisions_the_newer_draft_stands(store: PgStore) -> None:
    study(store, "1.2.1", BEFORE)
    again(store, 9, SEEN[1:])
    (prior,) = priors(store, study(store, "1.2.2", TODAY))
    assert [spot.index for spot in prior.spots] == [2]


def test_of_two_revisions_the_signed_report_stands(store: PgStore) -> None:
    sign(store, study(store, "1.2.1", BEFORE))
    again(store, 9, SEEN[1:])
    (prior,) = priors(store, study(store, "1.2.2", TODAY))
    assert (prior.signed, [spot.index for spot in prior.spots]) == (True, [1, 2])


def test_the_query_goes_by_the_patient_s_index(store: PgStore) -> None:
    job = study(store, "1.2.1", TODAY)
    with store.begin() as work:
        work.session.execute(text("SET LOCAL enable_seqscan = off"))
        compiled = priors_query(job.study_id, TODAY).compile(work.session.get_bind(), compile_kwargs={"literal_binds": True})
        plan = "\n".join(work.session.execute(text(f"EXPLAIN {compiled}")).scalars())
    assert "ix_studies_patient_id" in plan, plan
    assert "Seq Scan" not in plan, plan


def test_what_the_encoder_saw_of_a_region_is_kept(store: PgStore) -> None:
    node = Candidate(2, "淋巴结", (20.0, 0.0, 90.0), Side.LEFT, None, None, 14.0, 0.8)
    study(store, "1.2.1", BEFORE, seen=(replace(SEEN[0], margin="毛刺", calcified=True, retraction=False), node))
    query = "SELECT margin, calcified, retraction FROM draft_candidates WHERE index = {}"
    assert rows.one(store, query.format(1)) == {"margin": "毛刺", "calcified": True, "retraction": False}
    assert rows.one(store, query.format(2)) == {"margin": None, "calcified": None, "retraction": None}
    (prior,) = priors(store, study(store, "1.2.2", TODAY))
    assert [(spot.kind, spot.side, spot.lobe) for spot in prior.spots] == [("结节", Side.RIGHT, "上叶"), ("淋巴结", Side.LEFT, "")]
