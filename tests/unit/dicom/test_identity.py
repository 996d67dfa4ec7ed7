"""Names and text from raw bytes and a label that may lie."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.dicom.identity import comparable, repair
from tests.unit.dicom.names import CHINESE, FAMILIES, FAULTS, GIVEN, RARE, TEXTS, TRADITIONAL, WESTERN, WESTERN_TEXTS, Fault, gbk_under_utf8

ZHANG = "张^小东"
LABELS = ("", "ISO_IR 6", "ISO_IR 13", "ISO_IR 100", "ISO_IR 144", "ISO_IR 192", "GB18030", "GBK", "\\ISO 2022 IR 58", "\\ISO 2022 IR 87", "nonsense")
RIGHT = (  # name, codec, label
    ("Люксембург^Иван", "iso8859_5", "ISO_IR 144"),
    ("ИВАНОВ^ТОМА", "iso8859_5", "ISO_IR 144"),
    ("Папа^Мама", "iso8859_5", "ISO_IR 144"),
    ("Διονυσιος^Αννα", "iso8859_7", "ISO_IR 126"),
    ("ΠΑΠΑΔΟΠΟΥΛΟΣ^ΓΕΩΡΓΙΟΣ", "iso8859_7", "ISO_IR 126"),
    ("قباني^لنزار", "iso8859_6", "ISO_IR 127"),
    ("שרון^דבורה", "iso8859_8", "ISO_IR 138"),
    ("Čapek^Božena", "iso8859_2", "ISO_IR 101"),
    ("Çağlar^Şükrü", "iso8859_9", "ISO_IR 148"),
    ("สมชาย^ใจดี", "tis-620", "ISO_IR 166"),
    ("ﾔﾏﾀﾞ^ﾀﾛｳ", "shift_jis", "ISO_IR 13"),
    ("김^희중", "euc_kr", "ISO 2022 IR 149"),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_every_listed_name_comes_out_of_every_fault_as_a_guess(fault: Callable[[str], Fault]) -> None:
    for name in CHINESE:
        for raw, label in fault(name):
            assert repair(raw, label)[:3:2] == (name, True), (raw, label)


# GB bytes under ISO_IR 192 may be proper UTF-8 of another script (谢伟伟: л^ΰΰ): there the label is believed
@given(
    st.sampled_from(FAMILIES), st.text(alphabet=GIVEN, min_size=1, max_size=2), st.sampled_from([one for one in FAULTS if one is not gbk_under_utf8])
)
def test_common_names_come_out_of_every_fault_as_a_guess(family: str, given_name: str, fault: Callable[[str], Fault]) -> None:
    name = f"{family}^{given_name}"
    for raw, label in fault(name):
        assert repair(raw, label)[:3:2] == (name, True), (raw, label)


@given(st.sampled_from(CHINESE + RARE + TRADITIONAL), st.sampled_from(["", "Zhang^San=", "ZHANG SAN="]))
def test_every_chinese_name_survives_its_true_label_and_is_no_guess(name: str, latin: str) -> None:
    whole = latin + name
    assert repair(whole.encode("gb18030"), "GB18030")[:3] == (whole, False, False)
    assert repair(whole.encode(), "ISO_IR 192")[:3] == (whole, False, False)


@given(st.sampled_from(CHINESE + RARE + TRADITIONAL), st.sampled_from(["", "ISO_IR 100", "ISO_IR 192"]))
def test_gbk_of_rare_and_traditional_characters_too(name: str, label: str) -> None:
    assert repair(name.encode("gb18030"), label)[:3] == (name, True, True)


@given(st.sampled_from(TRADITIONAL), st.sampled_from(["", "ISO_IR 100", "ISO_IR 192"]))
def test_big5_without_its_label_is_a_guess_and_with_it_a_repair(name: str, label: str) -> None:
    raw = name.encode("big5hkscs")
    assert repair(raw, label) == (name, True, True, "Big5")
    assert repair(raw, "BIG5") == (name, True, False, "Big5")


@given(st.sampled_from(WESTERN))
def test_western_names_never_turn_chinese(name: str) -> None:
    assert repair(name.encode("latin-1"), "ISO_IR 100") == (name, False, False, "ISO_IR 100")
    assert repair(name.encode(), "ISO_IR 192") == (name, False, False, "ISO_IR 192")
    assert repair(name.encode(), "ISO_IR 100") == (name, True, True, "ISO_IR 192")
    assert repair(name.encode("latin-1"), "ISO_IR 192") == (name, True, True, "ISO_IR 100")
    assert repair(name.encode("latin-1"), "") == (name, True, True, "ISO_IR 100")


ACCENTS = "äöüéèêëáàâãåæçíìîïñóòôõøúùûý"
SYLLABLE = st.tuples(st.sampled_from("bcdfghjklmnprstvwz"), st.sampled_from("aeiouaeiou" + ACCENTS)).map("".join)
WORD = st.tuples(st.lists(SYLLABLE, min_size=1, max_size=4).map("".join), st.sampled_from([str.capitalize, str.upper])).map(
    lambda two: two[1](two[0])
)


@given(st.lists(WORD, min_size=1, max_size=3).map("^".join))
def test_words_with_single_accents_are_never_touched(name: str) -> None:
    assert repair(name.encode("latin-1"), "ISO_IR 100")[:3] == (name, False, False)
    assert repair(name.encode(), "ISO_IR 192")[:3] == (name, False, False)


@pytest.mark.parametrize(("name", "codec", "label"), RIGHT)
def test_other_scripts_stay_right_under_their_labels_and_come_out_of_utf8(name: str, codec: str, label: str) -> None:
    assert repair(name.encode(codec), label) == (name, False, False, label)
    assert repair(name.encode(), "ISO_IR 192")[:3] == (name, False, False)
    assert repair(name.encode(), label)[:3] == (name, True, True)


@pytest.mark.parametrize("text", TEXTS)
def test_free_text_is_repaired_as_names_are(text: str) -> None:
    assert repair(text.encode("gb18030"), "GB18030", name=False)[:3] == (text, False, False)
    assert repair(text.encode(), "ISO_IR 192", name=False)[:3] == (text, False, False)
    for raw, label in (
        (text.encode("gb18030"), ""),
        (text.encode("gb18030"), "ISO_IR 100"),
        (text.encode(), "ISO_IR 100"),
        (text.encode(), "GB18030"),
    ):
        assert repair(raw, label, name=False)[:3] == (text, True, True)


@pytest.mark.parametrize("text", WESTERN_TEXTS)
def test_units_signs_and_accents_in_western_text_stay(text: str) -> None:
    assert repair(text.encode("latin-1"), "ISO_IR 100", name=False)[:3] == (text, False, False)
    assert repair(text.encode(), "ISO_IR 192", name=False)[:3] == (text, False, False)


@given(st.sampled_from(TEXTS), st.sampled_from(["gb18030", "utf-8"]), st.sampled_from(["GB18030", "ISO_IR 192", "ISO_IR 100"]))
def test_text_cut_inside_a_character_loses_only_that_character(text: str, codec: str, label: str) -> None:
    whole = (text * 20).encode(codec)[:64]
    kept = whole.decode(codec, "ignore")
    found = repair(whole, label, name=False)
    assert found.text == kept.strip()
    assert found.guess is (label != {"gb18030": "GB18030", "utf-8": "ISO_IR 192"}[codec])


def test_a_misspelt_label_is_a_repair_and_no_guess() -> None:
    for label in ("UTF-8", "utf8", "ISO IR 192", "ISO_IR192", "ISO-IR 192", "ISO 2022 IR 192"):
        assert repair(ZHANG.encode(), label) == (ZHANG, True, False, "ISO_IR 192")
    for label in ("GB2312", "gbk", "GB 18030", "GB18030-2000", "CP936"):
        assert repair(ZHANG.encode("gbk"), label)[:3] == (ZHANG, True, False)
    assert repair(b"M\xfcller", "ISO-8859-1") == ("Müller", True, False, "ISO_IR 100")
    assert repair(b"M\xfcller", "ISO IR 100") == ("Müller", True, False, "ISO_IR 100")


def test_a_label_that_stands_alone_counts_beside_others() -> None:
    assert repair(ZHANG.encode("gbk"), "\\GB18030") == (ZHANG, True, False, "GB18030")
    assert repair(ZHANG.encode(), "ISO_IR 100\\ISO_IR 192") == (ZHANG, True, False, "ISO_IR 192")


def test_a_label_without_meaning_is_no_label() -> None:
    assert repair(ZHANG.encode("gbk"), "Chinese") == (ZHANG, True, True, "GB18030")


def test_korean_and_japanese_without_their_escapes_follow_the_second_label() -> None:
    assert repair("김^희중".encode("euc_kr"), "\\ISO 2022 IR 149") == ("김^희중", True, True, "ISO 2022 IR 149")
    assert repair("山田^太郎".encode("shift_jis"), "\\ISO 2022 IR 87") == ("山田^太郎", True, True, "ISO 2022 IR 87")


def test_windows_quotes_under_iso_ir_100_are_quotes() -> None:
    assert repair("Patient’s knee".encode("cp1252"), "ISO_IR 100", name=False)[:2] == ("Patient’s knee", True)


@pytest.mark.parametrize("name", ["??^??", "????", "?? ??=??^?"])
def test_a_name_that_the_sender_lost_waits_for_a_person(name: str) -> None:
    assert repair(name.encode(), "ISO_IR 100")[:3] == (name, False, True)
    assert not repair(b"what?", "").guess


def test_full_and_half_width_differ_for_reading_and_not_for_comparing() -> None:
    wide = "ＺＨＡＮＧ^Ｓａｎ"
    assert repair(wide.encode(), "ISO_IR 192").text == wide
    assert comparable(wide) == comparable("Zhang ^san") == "zhang^san"


def test_free_text_keeps_its_equal_signs_and_loses_its_control_characters() -> None:
    assert repair("胸部CT=平扫\r\n\x00增强=".encode("gb18030"), "GB18030", name=False).text == "胸部CT=平扫 增强="


@given(st.binary(max_size=64), st.sampled_from(LABELS), st.booleans())
def test_no_bytes_under_any_label_raise_or_leave_control_characters(raw: bytes, label: str, name: bool) -> None:
    text = repair(raw, label, name).text
    assert not any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or 0xD800 <= ord(c) < 0xE000 or c == "\ufffd" for c in text) or "\ufffd".encode() in raw


@given(st.text(st.characters(min_codepoint=0x4E00, max_codepoint=0x9FA5), min_size=1, max_size=12))
def test_every_chinese_text_survives_its_true_label(text: str) -> None:
    found = repair(text.encode("gb18030"), "GB18030")
    assert found.text == text or found.guess  # bytes that are UTF-8 as well, of commoner characters
    assert repair(text.encode(), "ISO_IR 192")[:3] == (text, False, False)
