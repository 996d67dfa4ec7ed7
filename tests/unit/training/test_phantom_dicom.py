from __future__ import annotations

import json
from pathlib import Path

import pytest
from pydicom import dcmread

from pipeline.training.phantom import Truth, draw
from pipeline.training.phantom_dicom import SHAPE, phantom_uid, write_study

SEED = 5


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[str, ...]]:
    folder = tmp_path_factory.mktemp("study")
    return folder, write_study(folder, SEED)


def test_every_uid_written_is_returned_for_the_ledger(written: tuple[Path, tuple[str, ...]]) -> None:
    folder, uids = written
    found = [str(dcmread(path, stop_before_pixels=True).SOPInstanceUID) for path in folder.glob("*.dcm")]
    assert sorted(found) == sorted(uids)
    assert len(set(uids)) == SHAPE[0] + 1


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
