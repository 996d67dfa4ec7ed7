"""No form of the patient's name or id stays in free text that goes into a prompt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dicom.scrub import HONORIFICS, without_patient
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


@pytest.mark.parametrize(
    "typed", ["ＺＨＡＮＧ ＸＩＡＯＤＯＮＧ", "Ｚhang　Xiaodong", "Xiao Dong Zhang", "ZHANG, XIAODONG", "zhang-xiao.dong", "Zhang^XiaoDong"]
)
@pytest.mark.parametrize("name", ["Zhang^XiaoDong", "ZHANG XIAO DONG", "ZhangXiaoDong", "Ｚｈａｎｇ^ＸｉａｏＤｏｎｇ", "ZHANG^XIAO^DONG"])
def test_latin_names_in_full_width_any_order_and_with_any_separators(typed: str, name: str) -> None:
    assert without_patient(f"患者{typed}，咳嗽 3 天", patient(name)) == "患者某，咳嗽 3 天"


@pytest.mark.parametrize(
    "typed", ["张小东", "张 小 东", "张　小东", "张·小东", "张^小东", "小东张", "小东", "张\u200b小东", "张先生", "张 女士", "小东小朋友"]
)
@pytest.mark.parametrize("name", ["张^小东", "张小东", "Zhang^XiaoDong=张^小东"])
def test_chinese_names_with_blanks_inside_turned_round_or_with_an_honorific(typed: str, name: str) -> None:
    clean = without_patient(f"患者{typed}，咳嗽", patient(name))
    assert clean in ("患者某，咳嗽", "患者某小朋友，咳嗽")


@pytest.mark.parametrize("honorific", HONORIFICS.split("|"))
def test_no_honorific_keeps_a_name(honorific: str) -> None:
    assert "欧阳" not in without_patient(f"{honorific}欧阳娜娜{honorific}；欧阳{honorific}；欧阳 娜娜", patient("欧阳娜娜"))


@pytest.mark.parametrize(
    ("patient_id", "text"),
    [
        ("P0012345", "P 001-2345"),
        ("P0012345", "ｐ００１２３４５"),
        ("P-001-2345", "P0012345"),
        ("0000123456", "123456"),
        ("A/12_34 56", "a123456"),
        ("2023", "2023"),
    ],
)
def test_an_id_is_hidden_with_other_separators_width_and_without_its_zeros(patient_id: str, text: str) -> None:
    assert without_patient(f"号{text}复查", patient("", patient_id)) == "号某复查"


@pytest.mark.parametrize(
    ("name", "patient_id", "text"),
    [
        ("李^白", "", "桃李，白细胞升高"),
        ("Han^Yu", "", "Change of yucca"),
        ("Wei^Li", "1234", "liver weight 12345, 01234.5 mg"),
        ("王^芳", "12", "12 天前"),
        ("张^三", "", "三维重建"),
        ("Müller^Jörg", "", "Muller's sign? no: Müllerian"),
    ],
)
def test_words_that_only_look_like_it_stay(name: str, patient_id: str, text: str) -> None:
    kept = without_patient(text, patient(name, patient_id))
    assert kept == (text if name != "Müller^Jörg" else "某's sign? no: Müllerian")


def test_accents_typed_or_not_are_the_same_name() -> None:
    assert without_patient("Jerome Buc; JÉRÔME", patient("Buc^Jérôme")) == "某; 某"


@given(st.text(alphabet="张王李小东伟娜芳", min_size=2, max_size=4), st.text(max_size=30), st.text(max_size=30))
def test_a_chinese_name_never_survives(name: str, before: str, after: str) -> None:
    assert name not in without_patient(before + name + after, patient(f"{name[0]}^{name[1:]}", ""))


@given(st.text(max_size=80))
def test_without_a_patient_nothing_changes(text: str) -> None:
    assert without_patient(text, patient("", "")) == text


@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=60))
def test_no_name_id_or_text_raises(name: str, patient_id: str, text: str) -> None:
    assert isinstance(without_patient(text, patient(name, patient_id)), str)
