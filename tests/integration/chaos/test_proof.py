"""The final checks: a healthy database passes each of them, and each fault that it is there for is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from pipeline.evidence import Patience
from pipeline.model import Header
from pipeline.store.session import PgStore
from pipeline.training.phantom_dicom import phantom_uid
from tests.integration.store import rows
from workers.chaos import proof
from workers.chaos.studies import TINY, TrialStudy, data_set_of, sop_uid_of, write_studies

STUDY = TrialStudy(1, Path("phantom-1"), False)
WITH_DOSE = TrialStudy(1, Path("phantom-1"), True)
PATIENCE = Patience(0.0, 0.0, 0.0, 3600.0)
Change = Callable[[str], None]


@pytest.fixture
def change(store: PgStore) -> Change:
    """Do something to the database that no process of ours would do."""

    def run(statement: str) -> None:
        with store.begin() as work:
            work.session.execute(text(statement))

    return run


def drafts(store: PgStore) -> list[str]:
    return proof.drafts(store, [STUDY], "radiology")


def test_a_drafted_study_passes_and_its_outcome_names_the_rung(store: PgStore) -> None:
    rows.drafted(store, STUDY.uid)
    assert drafts(store) == []
    assert proof.doubles(store, [STUDY], None) == []
    assert proof.leases(store) == []
    assert proof.overdue(store, 3.0, PATIENCE) == []
    assert proof.outcomes(store, [STUDY.uid]) == {"drafted by embedded": 1}


def test_a_study_that_never_came_is_told(store: PgStore) -> None:
    assert drafts(store) == ["phantom-1 has no study row"]
    assert proof.unfinished(store, [STUDY.uid]) == 1


def test_a_study_under_way_has_neither_a_draft_nor_a_reason_and_is_not_at_rest(store: PgStore) -> None:
    rows.drafting_job(store, STUDY.uid)
    assert "neither a draft nor a reason" in drafts(store)[0]
    assert proof.unfinished(store, [STUDY.uid]) == 1
    assert proof.leases(store) == ["1 rows of jobs are still under a lease"]
    rows.expire(store, "jobs")
    assert "lease ran out" in proof.overdue(store, 3.0, PATIENCE)[0]


def test_a_failed_study_passes_with_its_reason_and_not_without(store: PgStore, change: Change) -> None:
    rows.ready_job(store, STUDY.uid)
    change("UPDATE jobs SET state = 'failed', reason = 'the model is missing', ended_at = now()")
    assert drafts(store) == []
    assert proof.unfinished(store, [STUDY.uid]) == 0
    assert proof.outcomes(store, [STUDY.uid]) == {"failed": 1}
    change("UPDATE jobs SET reason = NULL")
    assert "no reason" in drafts(store)[0]


def test_a_drafted_study_whose_draft_is_gone_is_told(store: PgStore, change: Change) -> None:
    rows.drafted(store, STUDY.uid)
    change("UPDATE drafts SET department = 'oncology'")
    assert drafts(store) == [f"study {rows.one(store, 'SELECT id FROM studies')['id']} is drafted and has 0 drafts"]


def test_a_dose_report_without_its_event_and_one_with_two_are_told(store: PgStore, change: Change) -> None:
    rows.drafted(store, WITH_DOSE.uid)
    event = (
        "INSERT INTO dose_events (event_uid, patient_id, study_id, exam_date, region, source) "
        "SELECT '{uid}', patient_id, id, '2026-01-05', 'chest', 'rdsr' FROM studies"
    )
    assert "has 0 dose events" in proof.doubles(store, [WITH_DOSE], None)[0]
    change(event.format(uid="1.2.1"))
    assert proof.doubles(store, [WITH_DOSE], None) == []
    change(event.format(uid="1.2.2"))
    assert "has 2 dose events" in proof.doubles(store, [WITH_DOSE], None)[0]


def test_an_export_that_counts_as_delivered_must_be_there(store: PgStore, change: Change, tmp_path: Path) -> None:
    draft = rows.drafted(store, STUDY.uid)
    with store.begin() as work:
        work.deliveries.ask(draft, "markdown")
    assert proof.unfinished(store, [STUDY.uid]) == 1
    change("UPDATE deliveries SET state = 'done', done_at = now()")
    assert proof.unfinished(store, [STUDY.uid]) == 0
    assert proof.doubles(store, [STUDY], tmp_path) == [f"draft {draft} counts as delivered and is not there"]
    (tmp_path / f"{draft}.md").touch()
    assert proof.doubles(store, [STUDY], tmp_path) == []
    change(
        "INSERT INTO deliveries (draft_id, study_id, kind, state, attempts, target) SELECT draft_id, study_id, kind, state, 0, 'x' FROM deliveries"
    )
    assert proof.doubles(store, [STUDY], tmp_path) == [f"draft {draft} is to be delivered twice"]


def test_an_acknowledged_image_without_a_row_or_with_other_bytes_is_told(store: PgStore, tmp_path: Path) -> None:
    (study,) = write_studies(tmp_path / "sent", 1, 1, TINY)
    sent = study.files()[:2]
    uid = sop_uid_of(sent[0])
    assert len(proof.images(store, sent, lambda relative: tmp_path / relative)) == 2
    for number, file in enumerate(sent, 1):
        one = rows.header(number, phantom_uid(1, "study"))
        with store.begin() as work:
            work.studies.register([(_named(one, sop_uid_of(file), file.name), None)])
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert proof.images(store, sent, lambda relative: tmp_path / relative) == []
    kept = bytearray(sent[0].read_bytes())
    kept[-1] ^= 1
    (tmp_path / sent[0].name).write_bytes(kept)
    row = rows.one(store, f"SELECT id FROM instances WHERE sop_uid = '{uid}'")["id"]
    assert proof.images(store, sent, lambda relative: tmp_path / relative) == [f"image {row} is not in the archive as it was sent"]
    assert data_set_of(sent[0]) != data_set_of(tmp_path / sent[0].name)


def test_of_many_sentences_the_first_are_told_and_the_rest_is_a_number() -> None:
    said = proof.shortened({"images": [str(number) for number in range(9)], "rest": []})
    assert said == {"images": ["0", "1", "2", "3", "4", "and 4 more"], "rest": []}


def _named(header: Header, sop_uid: str, path: str) -> Header:
    return replace(header, instance=replace(header.instance, sop_uid=sop_uid, path=path))
