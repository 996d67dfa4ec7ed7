"""Modality performed procedure steps with real associations."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydicom.dataset import Dataset
from pydicom.uid import generate_uid
from pynetdicom import evt
from pynetdicom.association import Association
from pynetdicom.sop_class import ModalityPerformedProcedureStep  # type: ignore[attr-defined]  # generated at import

from pipeline.model import Step
from tests.builders import uid_of
from tests.integration.dicom.conftest import Site
from tests.integration.dicom.services import AET, done, services, speak_mpps, step

STUDY = str(uid_of("study"))
ROWS = "SELECT status, expected FROM performed_steps"


@pytest.fixture
def spoken(tmp_path: Path, url: str) -> Iterator[tuple[Site, Association]]:
    with services(tmp_path / "archive", url) as site:
        assoc = speak_mpps(site.port)
        yield site, assoc
        assoc.release()


def create(assoc: Association, ds: Dataset, sop_uid: str | None) -> Dataset:
    return assoc.send_n_create(ds, ModalityPerformedProcedureStep, sop_uid)[0]


def change(assoc: Association, ds: Dataset, sop_uid: str) -> Dataset:
    return assoc.send_n_set(ds, ModalityPerformedProcedureStep, sop_uid)[0]


def test_a_step_goes_from_in_progress_to_completed_with_what_it_made(spoken: tuple[Site, Association]) -> None:
    site, assoc = spoken
    uid = generate_uid()
    assert create(assoc, step(STUDY), uid).Status == 0x0000
    assert site.rows(ROWS) == [("IN PROGRESS", [])]
    assert site.bell.rung == []
    assert change(assoc, done("1.2.3", "1.2.4", "1.2.3", other=["1.2.5"]), uid).Status == 0x0000
    assert site.rows(ROWS) == [("COMPLETED", ["1.2.3", "1.2.4", "1.2.5"])]
    assert site.rows("SELECT study_uid, calling_aet, modality FROM performed_step_studies JOIN performed_steps s ON s.id = step_id") == [
        (STUDY, AET, "CT")
    ]
    assert site.rows("SELECT ended_at - started_at = interval '270 seconds' FROM performed_steps") == [(True,)]
    assert site.bell.rung == [Step.ASSEMBLE]


def test_the_modality_may_leave_the_uid_to_us(spoken: tuple[Site, Association]) -> None:
    site, assoc = spoken
    answers: list[Dataset] = []
    assoc.bind(evt.EVT_DIMSE_RECV, lambda event: answers.append(event.message.command_set))
    assert create(assoc, step(STUDY), None).Status == 0x0000
    [(uid,)] = site.rows("SELECT sop_uid FROM performed_steps")
    assert [answer.AffectedSOPInstanceUID for answer in answers] == [uid]
    assert change(assoc, done("1.2.3", status="DISCONTINUED"), uid).Status == 0x0000
    assert site.rows(ROWS) == [("DISCONTINUED", ["1.2.3"])]
    assert site.bell.rung == [Step.ASSEMBLE]


def test_a_final_step_may_no_longer_be_updated(spoken: tuple[Site, Association]) -> None:
    site, assoc = spoken
    uid = generate_uid()
    create(assoc, step(STUDY), uid)
    change(assoc, done("1.2.3"), uid)
    again = change(assoc, done("1.2.4"), uid)
    assert (again.Status, again.ErrorID) == (0x0110, 0xA710)
    assert again.ErrorComment.startswith("Performed Procedure Step Object may no longer be updated")
    assert site.rows(ROWS) == [("COMPLETED", ["1.2.3"])]
    assert site.bell.rung == [Step.ASSEMBLE]


def test_a_step_is_created_once_and_known_before_it_is_changed(spoken: tuple[Site, Association]) -> None:
    site, assoc = spoken
    uid = generate_uid()
    assert [create(assoc, step(STUDY), uid).Status for _ in range(2)] == [0x0000, 0x0111]
    assert change(assoc, done("1.2.3"), generate_uid()).Status == 0x0112
    assert len(site.rows(ROWS)) == 1


def without(keyword: str) -> Dataset:
    ds = step(STUDY)
    delattr(ds, keyword)
    return ds


def test_a_step_that_lacks_what_it_needs_is_refused_by_name(spoken: tuple[Site, Association]) -> None:
    site, assoc = spoken
    status, study = "PerformedProcedureStepStatus", "StudyInstanceUID of a scheduled step"
    for ds, code, name in (
        (step(STUDY, PerformedProcedureStepStatus="COMPLETED"), 0x0106, status),
        (step(STUDY, PerformedProcedureStepStatus="RUNNING"), 0x0106, status),
        (step(STUDY, PerformedProcedureStepStatus=""), 0x0121, status),
        (without(status), 0x0120, status),
        (without("ScheduledStepAttributesSequence"), 0x0120, "ScheduledStepAttributesSequence"),
        (step(""), 0x0121, study),
        (step("not a uid"), 0x0106, study),
    ):
        answer = create(assoc, ds, generate_uid())
        assert (answer.Status, answer.ErrorComment[: len(name)]) == (code, name)
    assert site.rows(ROWS) == []


def test_odd_dates_cost_the_date_and_not_the_step(spoken: tuple[Site, Association]) -> None:
    site, assoc = spoken
    ds = step(STUDY, PerformedProcedureStepStartDate="00000000", TimezoneOffsetFromUTC="+0800")
    assert create(assoc, ds, generate_uid()).Status == 0x0000
    zoned = step(STUDY, TimezoneOffsetFromUTC="+0800")
    assert create(assoc, zoned, generate_uid()).Status == 0x0000
    assert site.rows("SELECT started_at AT TIME ZONE 'UTC' = '2026-01-15 02:15:30' FROM performed_steps ORDER BY created_at") == [(None,), (True,)]


def test_a_dead_database_refuses_the_step_and_keeps_the_association(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        url = f"postgresql://u:p@127.0.0.1:{closed.getsockname()[1]}/none"
    with services(tmp_path / "archive", url) as site:
        assoc = speak_mpps(site.port)
        assert [create(assoc, step(STUDY), generate_uid()).Status for _ in range(2)] == [0x0213, 0x0213]
        assoc.release()
