"""A tiny volume benchmark with the real readers: figures are there and voxels are compared; seconds are nobody's business here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.evaluation.volume_readers import DICOM2NIFTI, OURS, READERS, SIMPLEITK
from workers.cli import app
from workers.commands.bench_volume import measured

KEYS = {
    *("what", "series", "slices", "median_ms", "speedup_vs_simpleitk", "cpu_ms", "peak_mb", "array_mb", "peak_over_array", "array_type"),
    *("identical", "differing", "rounds", "spread"),
}


@pytest.mark.timeout(300)
def test_all_three_read_the_same_voxels(test_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTREPORT_TEST_DATA", str(test_data))
    result = measured(tmp_path, tuple(READERS), 1, 14)
    assert result["source"] == "series made from chest_lidc_0314"
    assert {(row["series"], row["what"]) for row in result["rows"]} == {(s, w) for s in ("native", "j2k") for w in (OURS, SIMPLEITK, DICOM2NIFTI)}
    for row in result["rows"]:
        assert row.keys() == KEYS, row.get("failed")
        assert (row["identical"], row["slices"], row["rounds"]) == (True, 14, 1)
        assert row["median_ms"] > 0
        assert row["peak_mb"] > 0
    assert {"machine", "date", "commit", "versions", "source", "rows", "targets"} == result.keys()
    assert not (tmp_path / "kept").exists() or not any((tmp_path / "kept").iterdir()), "voxels are gone afterwards"


def test_an_earlier_result_is_shown_and_judged(tmp_path: Path) -> None:
    row = dict.fromkeys(KEYS) | {"what": OURS, "series": "native", "identical": False}
    result = {"machine": "m", "date": "d", "commit": "", "versions": "v", "source": "s", "rows": [row], "targets": []}
    earlier = tmp_path / "result.json"
    earlier.write_text(json.dumps(result), encoding="utf-8")
    ran = CliRunner().invoke(app, ["bench", "volume", "--from", str(earlier), "--markdown"])
    assert ran.exit_code == 1, "voxels that differ from SimpleITK's"
    assert "| native | ctreport |" in ran.output


def test_a_reader_that_is_not_known_is_named() -> None:
    ran = CliRunner().invoke(app, ["bench", "volume", "--only", "itk"])
    assert ran.exit_code == 2
    assert "simpleitk" in ran.output
