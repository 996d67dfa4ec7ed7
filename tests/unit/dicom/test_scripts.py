"""What tells a true reading of bytes from a false one."""

from __future__ import annotations

import pytest

from pipeline.dicom.scripts import begins_with_surname, commonness, is_chinese, is_latin_within_gb, proves_itself, reads_as_words


def test_common_characters_count_in_both_scripts() -> None:
    assert (commonness("张东"), commonness("張東"), commonness("妫"), commonness("喆"), commonness("abc")) == (1, 1, 0.6, 0, 0)


@pytest.mark.parametrize(
    ("text", "verdict"), [("张 A-1", True), ("℃℃℃ 高", False), ("咳嗽38.5℃", True), ("abc", False), ("김", False), ("张\ue000", False)]
)
def test_chinese_is_chinese_and_ascii_and_a_few_signs(text: str, verdict: bool) -> None:
    assert is_chinese(text) is verdict


@pytest.mark.parametrize(("name", "verdict"), [("张^小东", True), ("Zhang=張^小東", True), ("欧阳娜娜", True), ("东^张", False), ("Zhang", False)])
def test_a_name_begins_with_a_surname(name: str, verdict: bool) -> None:
    assert begins_with_surname(name) is verdict


@pytest.mark.parametrize("text", ["Müller", "MÜLLER", "GRÖßE", "Zoë", "JÄÄSKELÄINEN", "Люксембург", "Αννα", "É", "O'Dé"])
def test_words_as_people_write_them(text: str) -> None:
    assert reads_as_words(text, name=True)


@pytest.mark.parametrize("text", ["ÕÅ", "CTÆ½É¨", "Zhangöî鑫", "mÜller", "ÖìéF", "M\x81ller", "Мüller", "ë^÷", "ÐÄCT"])
def test_letters_that_nobody_puts_together(text: str) -> None:
    assert not reads_as_words(text, name=True)


def test_signs_stand_alone_in_text_and_never_in_names() -> None:
    assert reads_as_words("37 °C ± 0,5 µm²", name=False)
    assert not reads_as_words("±i^¤p", name=True)


def test_proof_takes_latin_around_the_accent_or_three_letters_of_another_alphabet() -> None:
    assert proves_itself("Müller", name=True)
    assert proves_itself("Иван", name=True)
    assert not proves_itself("л^С", name=True)
    assert not proves_itself("é", name=True)


def test_letters_behind_chinese_characters_show_a_latin_name() -> None:
    raw = "ÞÓRÐUR".encode("latin-1")
    assert is_latin_within_gb("ÞÓRÐUR", raw.decode("gb18030"))
    assert not is_latin_within_gb("ÕÅÈý", "张三")
