"""Any text comes back as it was; listed words and numbers are single tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.engine.seeded import WORDS
from pipeline.engine.tokenizer import SPECIAL, TextTokenizer, build
from pipeline.errors import ModelMissing

TOKENIZER = TextTokenizer(build(WORDS))


@given(st.text())
def test_any_text_round_trips(text: str) -> None:
    if not any(token in text for token in SPECIAL):
        assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@pytest.mark.parametrize("text", ["右肺上叶，「磨玻璃」结节；约12mm。", "<0x41> \x00\n\t ▁Ġ", "𠮷野家 naïve é", "1234 140 141"])
def test_awkward_text_round_trips(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_listed_words_and_numbers_are_single_tokens() -> None:
    for word in (*WORDS, *map(str, range(1, 141))):
        assert len(TOKENIZER.encode(word)) == 1, word


def test_the_longest_word_wins() -> None:
    tokenizer = TextTokenizer(build(["部分", "实性", "部分实性"]))
    assert len(tokenizer.encode("部分实性")) == 1
    assert len(tokenizer.encode("部分实性实性")) == 2


def test_the_placeholder_is_one_reserved_token() -> None:
    assert TOKENIZER.encode("[CT影像特征]<ct><ct>")[-2:] == [TOKENIZER.ct_id] * 2


def test_bytes_cut_inside_a_character_become_the_replacement_character() -> None:
    assert TOKENIZER.decode(TOKENIZER.encode("鑫")[:1]) == "�"


def test_the_file_reads_back_to_the_same_ids(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text(TOKENIZER.text_of_file(), encoding="utf-8")
    assert TextTokenizer.read(tmp_path / "tokenizer.json").encode("左肺上叶 abc") == TOKENIZER.encode("左肺上叶 abc")


def test_a_broken_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ModelMissing, match=r"tokenizer\.json cannot be read"):
        TextTokenizer.read(tmp_path / "tokenizer.json")
