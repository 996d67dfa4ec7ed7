"""Every file of odd_headers/charset_files comes out as the standard's annexes (PS3.5 H, I, J, K) and its makers mean it, and none is a guess."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydicom import dcmread
from pydicom.dataset import Dataset

from pipeline.dicom.identity import repair

NAMES = {  # file: name, what it is read as
    "chrArab.dcm": ("قباني^لنزار", "ISO_IR 127"),
    "chrFren.dcm": ("Buc^Jérôme", "ISO_IR 100"),
    "chrFrenMulti.dcm": ("Buc^Jérôme", "ISO_IR 100"),
    "chrGerm.dcm": ("Äneas^Rüdiger", "ISO_IR 100"),
    "chrGreek.dcm": ("Διονυσιος", "ISO_IR 126"),
    "chrH31.dcm": ("Yamada^Tarou=山田^太郎=やまだ^たろう", "ISO 2022 IR 87"),
    "chrH32.dcm": ("ﾔﾏﾀﾞ^ﾀﾛｳ=山田^太郎=やまだ^たろう", "ISO 2022 IR 87"),
    "chrHbrw.dcm": ("שרון^דבורה", "ISO_IR 138"),
    "chrI2.dcm": ("Hong^Gildong=洪^吉洞=홍^길동", "ISO 2022 IR 149"),
    "chrJapMulti.dcm": ("やまだ^たろう", "ISO 2022 IR 87"),
    "chrJapMultiExplicitIR6.dcm": ("やまだ^たろう", "ISO 2022 IR 87"),
    "chrKoreanMulti.dcm": ("김희중", "ISO 2022 IR 149"),
    "chrRuss.dcm": ("Люкceмбypг", "ISO_IR 144"),
    "chrSQEncoding.dcm": ("ﾔﾏﾀﾞ^ﾀﾛｳ=山田^太郎=やまだ^たろう", "ISO 2022 IR 87"),
    "chrSQEncoding1.dcm": ("ﾔﾏﾀﾞ^ﾀﾛｳ=山田^太郎=やまだ^たろう", "ISO 2022 IR 87"),
    "chrX1.dcm": ("Wang^XiaoDong=王^小東", "ISO_IR 192"),
    "chrX2.dcm": ("Wang^XiaoDong=王^小东", "GB18030"),
}
TEXTS = {  # file: AdditionalPatientHistory
    "chrJapMulti.dcm": "たろう",
    "chrJapMultiExplicitIR6.dcm": "たろう",
    "chrKoreanMulti.dcm": "김희중",
}


@pytest.mark.parametrize("file", NAMES)
@pytest.mark.filterwarnings("ignore")
def test_the_name_of_each_file_is_right_and_no_guess(test_data: Path, file: str) -> None:
    ds = dcmread(test_data / "odd_headers" / "charset_files" / file, force=True)
    place = ds if "PatientName" in ds else ds.RequestedProcedureCodeSequence[0]
    found = repair(_raw(place, "PatientName"), _charset(place) or _charset(ds))
    assert found == (NAMES[file][0], False, False, NAMES[file][1])


@pytest.mark.parametrize("file", TEXTS)
def test_free_text_of_each_file_is_right(test_data: Path, file: str) -> None:
    ds = dcmread(test_data / "odd_headers" / "charset_files" / file)
    assert repair(_raw(ds, "AdditionalPatientHistory"), _charset(ds), name=False)[:3] == (TEXTS[file], False, False)


def test_no_file_is_forgotten(test_data: Path) -> None:
    assert {path.name for path in (test_data / "odd_headers" / "charset_files").glob("*.dcm")} == set(NAMES)


def _raw(ds: Dataset, keyword: str) -> bytes:
    value = ds.get_item(keyword).value
    assert isinstance(value, bytes)
    return value


def _charset(ds: Dataset) -> str:
    value = ds.get("SpecificCharacterSet", "")
    return value if isinstance(value, str) else "\\".join(value)
