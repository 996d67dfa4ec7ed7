"""The same code on a PostgreSQL and a Redis that are not ours, in site mode."""

from __future__ import annotations

from pathlib import Path

import psycopg
from pydicom import dcmread

from pipeline.model import DEMO_WATERMARK, WATERMARK
from tests.journeys.conftest import eventually, running


def test_a_site_drafts_its_phantom_and_no_patient(tmp_path: Path, database_url: str, redis_url: str, test_data: Path) -> None:
    chest = test_data / "chest_lidc_0314"
    site = {"CTREPORT_MODE": "site", "CTREPORT_DATABASE_URL": database_url, "CTREPORT_REDIS_URL": redis_url}
    with running(tmp_path / "stack", **site) as stack:
        assert {part.name for part in stack.info.parts} == {"listener", "worker-encode", "worker-draft", "worker-io", "beat", "web"}
        stack.json("send", str(chest))
        eventually(lambda: stack.query("SELECT state FROM jobs") == [("failed",)])
        (study,) = stack.json("status")["studies"]
        assert study["study_uid"] == str(dcmread(next(chest.glob("*.dcm")), specific_tags=["StudyInstanceUID"]).StudyInstanceUID)
        assert "phantom-only" in study["reason"]
        assert stack.query("SELECT count(*) FROM drafts") == [(0,)]

        stack.json("phantom", str(tmp_path / "phantoms"), "--seed", "3")
        assert stack.json("send", str(tmp_path / "phantoms"))["failed"] == []
        ((watermark,),) = eventually(lambda: stack.query("SELECT watermark FROM finished_reports"))
        assert watermark == WATERMARK
        assert DEMO_WATERMARK not in watermark
        assert stack.json("verify")["clean"] is True
    with psycopg.connect(database_url) as connection:  # our stop has not stopped what is not ours
        assert connection.execute("SELECT count(*) FROM drafts").fetchall() == [(1,)]
