"""The main job: a scanner pushes the real chest CT, and a checked draft can be read by the read-only role."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from pydicom import dcmread

from pipeline.model import DEMO_WATERMARK, WATERMARK
from tests.journeys.conftest import RunningStack, eventually


@pytest.fixture(scope="module")
def chest(stack: RunningStack, test_data: Path) -> str:
    """The real chest CT, sent once and drafted; its StudyInstanceUID."""
    folder = test_data / "chest_lidc_0314"
    sent = stack.json("send", str(folder))
    assert (sent["sent"], sent["succeeded"], sent["failed"]) == (28, 28, [])
    uid = str(dcmread(next(folder.glob("*.dcm")), specific_tags=["StudyInstanceUID"]).StudyInstanceUID)
    eventually(lambda: stack.read("SELECT 1 FROM finished_reports WHERE study_uid = %s", uid))
    return uid


def test_the_reader_role_reads_one_watermarked_draft(stack: RunningStack, chest: str) -> None:
    rows = stack.read("SELECT status, text, watermark, findings, impression, advice, signed_by FROM finished_reports WHERE study_uid = %s", chest)
    assert len(rows) == 1
    _status, text, watermark, findings, impression, advice, signed_by = rows[0]
    assert watermark.startswith(DEMO_WATERMARK)
    assert WATERMARK in watermark
    assert text.startswith(watermark)
    assert all((findings, impression, advice))
    assert signed_by is None


def test_the_reader_role_reads_no_table(stack: RunningStack, chest: str) -> None:
    for table in ("drafts", "patients", "studies", "instances", "audit"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            stack.read(f"SELECT 1 FROM {table}")


def test_the_same_study_sent_again_gives_one_study_28_instances_one_draft(stack: RunningStack, chest: str, test_data: Path) -> None:
    sent = stack.json("send", str(test_data / "chest_lidc_0314"))
    assert sent["succeeded"] == 28
    before = stack.query("SELECT count(*) FROM drafts")
    eventually(lambda: stack.query("SELECT count(*) FROM associations WHERE closed_at IS NULL") == [(0,)])
    counts = stack.query(
        "SELECT (SELECT count(*) FROM studies), (SELECT count(*) FROM instances), (SELECT count(*) FROM jobs), (SELECT count(*) FROM drafts)"
    )
    assert counts == [(1, 28, 1, 1)]
    assert before == [(1,)]


def test_show_names_the_series_the_source_and_every_section(stack: RunningStack, chest: str) -> None:
    shown = stack.json("show", chest)
    assert shown["revision"] == 1
    assert len(shown["series"]["chosen"]) == 1
    assert set(shown["draft"]["sections"]) == {"检查所见", "诊断意见", "建议"}
    assert shown["draft"]["source"]["rung"] == "embedded"
    assert shown["draft"]["generation"]["tokens"] > 0
    assert sum(shown["draft"]["generation"]["accepted_histogram"]) == shown["draft"]["generation"]["verify_count"]


def test_status_says_drafted_and_verify_is_clean(stack: RunningStack, chest: str) -> None:
    (study,) = stack.json("status", chest)["studies"]
    assert (study["state"], study["images"], study["revision"]) == ("drafted", 28, 1)
    report = stack.json("verify")
    assert report["clean"] is True
    assert report["acknowledged"] == 28


def test_no_log_of_the_run_holds_the_patient_a_uid_or_report_text(stack: RunningStack, chest: str, test_data: Path) -> None:
    header = dcmread(next((test_data / "chest_lidc_0314").glob("*.dcm")), stop_before_pixels=True)
    (text,) = stack.query("SELECT impression FROM drafts")[0]
    secrets = [chest, str(header.SeriesInstanceUID), str(header.PatientID), text[:12]]
    written = stack.logs()
    assert '"event"' in written
    assert not [secret for secret in secrets if secret and secret in written]
