"""`ctreport identity PATH…` needs no stack; wrong use is exit 2, a file that cannot be read exit 1."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.builders import ct_slice, write
from workers.cli import app

RUNNER = CliRunner()


def test_names_as_json_and_for_people(tmp_path: Path) -> None:
    write(tmp_path, [ct_slice()])
    ran = RUNNER.invoke(app, ["identity", str(tmp_path), "--json", "-"])
    (file,) = json.loads(ran.stdout)["files"]
    assert ran.exit_code == 0
    assert {"file", "patient_name", "charset", "repaired", "guess"} <= file.keys()
    assert (file["patient_name"], file["charset"], file["guess"]) == ("张^小东", "ISO_IR 192", False)
    assert "张^小东  (ISO_IR 192; as labelled)" in RUNNER.invoke(app, ["identity", str(tmp_path)]).stdout


def test_a_file_that_cannot_be_read_is_listed_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "a.dcm").write_bytes(b"no DICOM")
    ran = RUNNER.invoke(app, ["identity", str(tmp_path), "--json", "-"])
    (file,) = json.loads(ran.stdout)["files"]
    assert (ran.exit_code, file["patient_name"]) == (1, None)
    assert file["reason"]


@pytest.mark.parametrize("arguments", [[], ["--guesses", "--confirm", "x"], ["--guesses", "--by", "li"], ["--name", "x"]])
def test_wrong_use_is_exit_2(arguments: list[str]) -> None:
    assert RUNNER.invoke(app, ["identity", *arguments]).exit_code == 2
