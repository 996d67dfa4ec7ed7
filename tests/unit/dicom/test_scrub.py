"""No form of the patient's name or id stays in free text that goes into a prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dicom.scrub import without_patient
from pipeline.model import Patient


def patient(name: str, patient_id: str = "P0012345") -> Patient:
    return Patient(patient_id, "", name, False, None, "")


@pytest.mark.parametrize(
    ("name", "text", "clean"),
    [
        ("张^小东", "张小东，咳嗽两周", "某，咳嗽两周"),
        ("Zhang^XiaoDong=张^小东", "患者 zhang xiaodong (张 小东) 复查", "患者 某 (某) 复查"),
        ("Wang^XiaoDong=王^小东=", "XiaoDong 咳嗽", "某 咳嗽"),
        ("张^小东", "号 P0012345 复查", "号 某 复查"),
        ("Li^Wei", "Liver lesion, weight loss", "Liver lesion, weight loss"),
        ("", "咳嗽", "咳嗽"),
    ],
)
def test_each_typed_form_is_hidden_and_medical_words_stay(name: str, text: str, clean: str) -> None:
    assert without_patient(text, patient(name)) == clean


@given(st.text(alphabet="张王李小东伟娜芳", min_size=2, max_size=4), st.text(max_size=30), st.text(max_size=30))
def test_a_chinese_name_never_survives(name: str, before: str, after: str) -> None:
    assert name not in without_patient(before + name + after, patient(f"{name[0]}^{name[1:]}", ""))
