"""Names in files on disk, as `ctreport identity` lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.dicom.named import name_in_file, names_in_files
from tests.builders import ct_slice, part10


def test_a_file_says_its_name_its_label_and_what_it_was_read_as(test_data: Path) -> None:
    (found,) = names_in_files([test_data / "odd_headers" / "charset_files" / "chrX2.dcm"])
    assert found.as_json() == {
        "file": found.file,
        "patient_name": "Wang^XiaoDong=王^小东",
        "charset": "GB18030",
        "label": "GB18030",
        "repaired": False,
        "guess": False,
        "reason": None,
    }


def test_a_guess_is_marked(tmp_path: Path) -> None:
    file = tmp_path / "a.dcm"
    file.write_bytes(part10(ct_slice(SpecificCharacterSet="GB18030")).replace(b"GB18030 ", b"ISO_IR 6"))
    found = name_in_file(file).as_json()
    assert (found["patient_name"], found["label"], found["charset"], found["repaired"], found["guess"]) == (
        "张^小东",
        "ISO_IR 6",
        "GB18030",
        True,
        True,
    )


@pytest.mark.parametrize("file", ["ExplVR_BigEndNoMeta.dcm", "ExplVR_LitEndNoMeta.dcm", "MR_truncated.dcm", "badVR.dcm", "rtplan_truncated.dcm"])
def test_files_without_meta_and_truncated_ones_are_read(test_data: Path, file: str) -> None:
    assert name_in_file(test_data / "odd_headers" / file).reason == ""


def test_every_malformed_file_has_a_name_or_a_reason(test_data: Path) -> None:
    listed = list(names_in_files([test_data / "malformed"]))
    assert len(listed) == len(list((test_data / "malformed").rglob("*.dcm")))
    assert all((one.name is None) is bool(one.reason) for one in listed)
    assert all(not any(ord(c) < 32 for c in one.name.text) for one in listed if one.name)


def test_what_is_no_dicom_is_listed_when_asked_for_and_passed_over_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("张三")
    (tmp_path / "broken.dcm").write_bytes(bytes(128) + b"DICM")
    assert [Path(one.file).name for one in names_in_files([tmp_path])] == ["broken.dcm"]
    (asked,) = names_in_files([tmp_path / "notes.txt"])
    assert asked.as_json()["patient_name"] is None
    assert asked.reason == "is no DICOM file"
