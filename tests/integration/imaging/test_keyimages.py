"""`ctreport keyimages` on folders of files, as a person runs it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image
from pydicom import dcmread
from typer.testing import CliRunner

from pipeline.errors import Unsupported
from pipeline.training.phantom import draw
from pipeline.training.phantom_dicom import PATIENT_NAME, write_study
from workers.cli import app

SEED = 900_216  # a nodule on the right


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("study")
    write_study(folder, SEED)
    return folder


def test_a_study_gives_a_sheet_and_a_page_for_each_slice(study: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    for earlier in ("slice-9999.png", "mine-0001.png"):
        (tmp_path / "out" / earlier).touch()
    ran = CliRunner().invoke(app, ["keyimages", str(study), "--out", str(tmp_path / "out"), "--count", "5", "--json", "-"])
    assert ran.exit_code == 0, ran.output
    (tmp_path / "out" / "mine-0001.png").unlink()  # no page of ours is left alone; a page of an earlier study is gone
    told = json.loads(ran.stdout)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == sorted([told["sheet"], *(s["file"] for s in told["slices"])])
    assert len(told["slices"]) == 5
    best, [lesion] = told["regions"][0], draw(SEED).truth.lesions
    assert best["side"] == lesion.side == "右"
    assert best["center_mm"] == pytest.approx(lesion.center_mm, abs=3)
    assert told["lungs"]["right_ml"] > told["lungs"]["left_ml"] > 500
    assert "肺" in told["covers"]
    assert told["flags"] == []


def test_nothing_of_the_patient_or_the_objects_is_in_the_answer_or_the_files(study: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["keyimages", str(study), "--out", str(tmp_path), "--count", "2", "--json", "-"])
    ds = dcmread(next(study.glob("2-*.dcm")), stop_before_pixels=True)
    secrets = [str(ds.PatientID), *PATIENT_NAME.split("="), str(ds.StudyInstanceUID), str(ds.SeriesInstanceUID), str(ds.AccessionNumber)]
    for file in tmp_path.glob("*.png"):
        with Image.open(file) as image:
            assert image.info == {}
        assert not any(secret.encode() in file.read_bytes() for secret in secrets)
    assert not any(secret in ran.stdout for secret in secrets)


def test_the_real_chest_is_shown(test_data: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["keyimages", str(test_data / "chest_lidc_0314"), "--out", str(tmp_path), "--count", "3"])
    assert ran.exit_code == 0, ran.output
    assert "右肺" in ran.stdout
    with Image.open(tmp_path / "sheet.png") as sheet:
        assert sheet.size[0] == 3 * 330


def test_a_study_without_a_chest_is_an_error_with_its_reasons(test_data: Path, tmp_path: Path) -> None:
    ran = CliRunner().invoke(app, ["keyimages", str(test_data / "bad_geometry" / "not_a_volume"), "--out", str(tmp_path)])
    assert ran.exit_code == 1
    assert isinstance(ran.exception, Unsupported)
    assert "没有可显示的胸部容积" in str(ran.exception)
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_not_there_is_wrong_use(tmp_path: Path) -> None:
    assert CliRunner().invoke(app, ["keyimages", str(tmp_path / "nowhere")]).exit_code == 2
