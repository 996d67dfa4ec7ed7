"""Names and text from raw bytes and a label that may lie."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dicom.identity import EVERY_EXTENSION, repair

ZHANG = "张^小东"
LABELS = ("", "ISO_IR 6", "ISO_IR 13", "ISO_IR 100", "ISO_IR 144", "ISO_IR 192", "GB18030", "GBK", "\\ISO 2022 IR 58", "\\ISO 2022 IR 87")


def test_iso_2022_ir_58_comes_out_without_its_escapes() -> None:
    raw = b"Zhang^XiaoDong=\x1b$)A\xd5\xc5^\x1b$)A\xd0\xa1\xb6\xab"
    assert repair(raw, "\\ISO 2022 IR 58") == (f"Zhang^XiaoDong={ZHANG}", False, False)
    assert repair(raw, "ISO_IR 100") == (f"Zhang^XiaoDong={ZHANG}", True, False)


@pytest.mark.parametrize(("codec", "label"), [("gb18030", "GB18030"), ("utf-8", "ISO_IR 192"), ("gbk", "GBK"), ("gb2312", "\\ISO 2022 IR 58")])
def test_a_true_label_is_no_repair(codec: str, label: str) -> None:
    raw = ZHANG.encode(codec)
    expected = label != "\\ISO 2022 IR 58"  # there the escapes are missing: the first label says ASCII
    assert repair(raw, label).text == ZHANG
    assert repair(raw, label).guess is not expected


@pytest.mark.parametrize("label", ["", "ISO_IR 6", "ISO_IR 100", "ISO_IR 192"])
@pytest.mark.parametrize("name", [ZHANG, "朱^镕基", "茅^盾", "联通", "王^喆"])
def test_gbk_under_a_wrong_label_is_repaired_and_marked_as_a_guess(name: str, label: str) -> None:
    assert repair(name.encode("gbk"), label) == (name, True, True)


@pytest.mark.parametrize("label", ["", "ISO_IR 100", "GB18030", "ISO_IR 144"])
def test_utf8_under_a_wrong_label_is_repaired_and_marked_as_a_guess(label: str) -> None:
    assert repair(ZHANG.encode(), label) == (ZHANG, True, True)


def test_a_misspelt_label_is_a_repair_and_no_guess() -> None:
    assert repair(ZHANG.encode(), "UTF-8") == (ZHANG, True, False)
    assert repair(ZHANG.encode("gbk"), "GB2312") == (ZHANG, True, False)


@pytest.mark.parametrize("name", ["Buc^Jérôme", "Äneas^Rüdiger", "Müller^Jürgen", "Peña^José"])
def test_western_names_stay_western(name: str) -> None:
    assert repair(name.encode("latin-1"), "ISO_IR 100") == (name, False, False)
    assert repair(name.encode(), "ISO_IR 100") == (name, True, True)


def test_free_text_keeps_its_equal_signs_and_loses_its_control_characters() -> None:
    assert repair("胸部CT=平扫\r\n\x00增强=".encode("gb18030"), "GB18030", name=False).text == "胸部CT=平扫 增强="


@given(st.binary(max_size=64), st.sampled_from(LABELS))
@pytest.mark.filterwarnings("ignore")
def test_no_bytes_under_any_label_raise_or_leave_control_characters(raw: bytes, label: str) -> None:
    text = repair(raw, label).text
    assert not any(ord(c) < 32 or 0xD800 <= ord(c) < 0xE000 for c in text)


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=1, max_size=12))
def test_every_chinese_text_survives_its_true_label(text: str) -> None:
    assert repair(text.encode("gb18030"), "GB18030").text == text or repair(text.encode("gb18030"), "GB18030").guess
    assert repair(text.encode(), "ISO_IR 192") == (text, False, False)


def test_all_extensions_are_known_labels() -> None:
    assert set(EVERY_EXTENSION) >= {"ISO 2022 IR 58", "ISO 2022 IR 87"}
