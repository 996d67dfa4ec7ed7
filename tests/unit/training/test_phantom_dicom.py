from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from pydicom import dcmread

from pipeline.evaluation.cases import phantom_volume
from pipeline.imaging.canonical import canonical
from pipeline.imaging.volume import read_volume
from pipeline.training.phantom import Truth, draw
from pipeline.training.phantom_dicom import phantom_uid, write_study
from pipeline.training.scanners import TRAINED

SEED = 17  # supine, head first
ROWS = {"HFS": [1, 0, 0, 0, 1, 0], "FFS": [-1, 0, 0, 0, 1, 0], "HFP": [-1, 0, 0, 0, -1, 0]}
SEEDS = {"HFS": SEED, "FFS": 10, "HFP": 9}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    folder = tmp_path_factory.mktemp("study")
    return folder, write_study(folder, SEED)


def test_every_uid_written_is_returned_for_the_ledger(written: tuple[Path, tuple[str, ...]]) -> None:
    folder, uids = written
    found = [str(dcmread(path, stop_before_pixels=True).SOPInstanceUID) for path in folder.glob("*.dcm")]
    assert sorted(found) == sorted(uids)
    assert len(set(uids)) == draw(SEED).scan.shape[0] + 1


def test_the_study_has_an_axial_series_and_a_localizer(written: tuple[Path, tuple[str, ...]]) -> None:
    headers = [dcmread(path, stop_before_pixels=True) for path in sorted(written[0].glob("*.dcm"))]
    assert {str(ds.StudyInstanceUID) for ds in headers} == {phantom_uid(SEED, "study")}
    kinds = {str(ds.SeriesInstanceUID): str(ds.ImageType[2]) for ds in headers}
    assert sorted(kinds.values()) == ["AXIAL", "LOCALIZER"]


def test_the_header_says_what_it_is_in_chinese(written: tuple[Path, tuple[str, ...]]) -> None:
    ds = dcmread(next(iter(sorted(written[0].glob("2-*.dcm")))))
    assert ds.SpecificCharacterSet == "ISO_IR 192"
    assert str(ds.PatientName) == "CESHI^TIMO=测试^体模"
    assert ds.StudyDescription == "胸部CT平扫"
    assert (ds.Modality, ds.BodyPartExamined) == ("CT", "CHEST")
    assert float(ds.KVP) == draw(SEED).truth.kvp


def test_truth_lies_beside_the_images(written: tuple[Path, tuple[str, ...]]) -> None:
    raw = json.loads((written[0] / "truth.json").read_text(encoding="utf-8"))
    assert Truth.from_json(raw) == draw(SEED).truth


def test_the_same_seed_gives_the_same_bytes(written: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    write_study(tmp_path, SEED)
    for path in written[0].iterdir():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


def test_uids_are_valid_and_differ_between_seeds() -> None:
    uid = phantom_uid(1, "axial", 3)
    assert uid.startswith("2.25.")
    assert len(uid) <= 64
    assert uid != phantom_uid(2, "axial", 3)


@pytest.mark.parametrize("position", SEEDS)
def test_reading_the_files_gives_the_same_patient_however_he_lies(position: str, tmp_path: Path) -> None:
    seed = SEEDS[position]
    write_study(tmp_path, seed, localizer=False)
    paths = sorted(tmp_path.glob("*.dcm"))
    one = dcmread(paths[0], stop_before_pixels=True)
    assert one.PatientPosition == position == draw(seed).scan.position
    assert [float(value) for value in one.ImageOrientationPatient] == ROWS[position]
    read, (made, truth) = read_volume(paths), phantom_volume(seed, TRAINED)
    np.testing.assert_array_equal(read.hu, made.hu)
    np.testing.assert_allclose(read.origin_mm, made.origin_mm, atol=1e-3)
    np.testing.assert_array_equal(read.axes, made.axes)
    assert (read.sop_uids, read.acquisition, read.spacing_mm) == (made.sop_uids, made.acquisition, made.spacing_mm)
    for lesion in truth.lesions:
        z, y, x = np.rint(read.to_index(np.array(lesion.center_mm))).astype(int)
        assert read.hu[z, y, x] > -700
    assert np.abs(canonical(read).center_mm[:2]).max() < 12


def test_contrast_medium_is_named_where_it_was_given_and_only_there(written: tuple[Path, tuple[str, ...]], tmp_path: Path) -> None:
    given = next(seed for seed in range(50) if draw(seed).truth.contrast)
    write_study(tmp_path, given)
    series, localizer = dcmread(tmp_path / "2-0001.dcm"), dcmread(tmp_path / "1-0001.dcm")
    assert (series.ContrastBolusAgent, series.StudyDescription) == ("碘海醇", "胸部CT增强")
    assert "ContrastBolusAgent" not in localizer
    assert "ContrastBolusAgent" not in dcmread(written[0] / "2-0001.dcm")
