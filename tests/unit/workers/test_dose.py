"""`ctreport dose PATH…` needs no stack; a file without dose is exit 1 with its reason, wrong use exit 2."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.builders import ct_slice, write
from tests.dose_reports import acquisition, dose_report
from workers.cli import app

RUNNER = CliRunner()
KEYS = {"source", "region", "ctdivol_mgy", "dlp_mgy_cm", "k", "msv", "notes"}


def asked(*paths: Path) -> tuple[int, dict[str, Any]]:
    ran = RUNNER.invoke(app, ["dose", *map(str, paths), "--json", "-"])
    found: dict[str, Any] = json.loads(ran.stdout)
    return ran.exit_code, found


def test_events_sums_and_keys(tmp_path: Path) -> None:
    (path,) = write(tmp_path, [dose_report(acquisition("a", 100), acquisition("b", 200), total=300)])
    code, found = asked(path)
    assert (code, found["total_dlp_mgy_cm"], found["total_msv"], found["missing"]) == (0, 300.0, 4.35, [])
    assert [(one["region"], one["k"], one["msv"]) for one in found["events"]] == [
        ("chest", 0.0145, pytest.approx(1.45)),
        ("chest", 0.0145, pytest.approx(2.9)),
    ]
    assert found["events"][0].keys() >= KEYS
    shown = RUNNER.invoke(app, ["dose", str(path)]).stdout
    assert "total DLP 300.00 mGy·cm, effective dose 4.35 mSv, 2 events" in shown
    assert "2026-01-15  rdsr" in shown


def test_an_event_in_two_files_counts_once(tmp_path: Path) -> None:
    write(tmp_path, [dose_report(acquisition("a", 100), word="1"), dose_report(acquisition("a", 100), acquisition("b", 200), word="2")])
    code, found = asked(tmp_path)
    assert (code, found["total_dlp_mgy_cm"], len(found["events"])) == (0, 300.0, 2)


def test_a_file_without_dose_is_missing_with_its_reason(tmp_path: Path) -> None:
    write(tmp_path, [ct_slice(), dose_report(acquisition())])
    (tmp_path / "x.txt").write_text("no DICOM")
    code, found = asked(tmp_path)
    assert (code, len(found["events"])) == (1, 1)
    assert [Path(one["file"]).name for one in found["missing"]] == ["0000.dcm", "x.txt"]
    assert all(one["reason"] for one in found["missing"])


def test_the_public_files(test_data: Path) -> None:
    code, found = asked(test_data / "dose_reports")
    assert code == 1
    assert found["total_dlp_mgy_cm"] == pytest.approx(415.82 + 116.61 + 724.52 + 502.40)
    assert found["total_msv"] == pytest.approx(sum(one["msv"] for one in found["events"]), abs=1e-5)
    assert [Path(one["file"]).name for one in found["missing"]] == ["CT-SC-Philips_Brilliance16P.dcm", "ESR_non-dose.dcm"]


@pytest.mark.parametrize("arguments", [[], ["--issuer", "x"], [".", "--patient", "P-1"], [".", "--issuer", "x"]])
def test_wrong_use_is_exit_2(arguments: list[str]) -> None:
    assert RUNNER.invoke(app, ["dose", *arguments]).exit_code == 2
