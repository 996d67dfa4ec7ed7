"""`ctreport volume PATH…` needs no stack; exit 1 when nothing is a volume."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from tests.builders import ct_series, ct_slice, write
from workers.cli import app

RUNNER = CliRunner()
KEYS = {"series_uid", "accepted", "reason", "kind", "shape", "spacing_mm", "direction", "hu_min", "hu_max", "gaps", "flags"}


def test_a_volume_as_json_and_for_people(tmp_path: Path) -> None:
    whole = ct_series(13)
    write(tmp_path, [*whole[:4], *whole[5:]])
    (tmp_path / "readme.txt").write_text("no DICOM")
    ran = RUNNER.invoke(app, ["volume", str(tmp_path), "--json", "-"])
    read, other = json.loads(ran.stdout)["series"]
    assert ran.exit_code == 0
    assert read.keys() >= KEYS
    assert (read["accepted"], read["reason"], read["kind"], read["shape"], read["spacing_mm"]) == (True, "", "axial", [12, 16, 16], [5.0, 1.0, 1.0])
    assert read["direction"] == [[0, 0, 1], [0, 1, 0], [1, 0, 0]]
    assert (read["hu_min"], read["hu_max"], read["gaps"]) == (-1024, -1024, [{"after": 4, "missing": 1}])
    assert read["flags"] == ["第 2 序列缺 1 层", "图像 4 与 6 之间间距 10.0 mm，疑缺 1 层"]
    assert (other["accepted"], other["kind"], other["images"]) == (False, "unreadable", 1)
    told = RUNNER.invoke(app, ["volume", str(tmp_path)]).stdout
    assert "✓ 序列 2  轴位  12 幅  12×16×16（层×行×列）  5×1×1 mm  HU -1024 … -1024\n    第 2 序列缺 1 层" in told


def test_nothing_to_read_is_exit_1(tmp_path: Path) -> None:
    paths = write(tmp_path, [ct_slice(image_type=("ORIGINAL", "PRIMARY", "LOCALIZER"))])
    ran = RUNNER.invoke(app, ["volume", *map(str, paths)])
    assert ran.exit_code == 1
    assert "✗ 序列 2  定位像  1 幅  定位像，不是断面图像" in ran.stdout


def test_a_path_that_is_not_there_is_wrong_use() -> None:
    assert RUNNER.invoke(app, ["volume", "nowhere"]).exit_code == 2
