"""The texts that lookup drafting knows from the start travel with the checkpoint and are no part of what decides a text."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.engine.checkpoint import SENTENCES, load, save
from pipeline.errors import ModelMissing


def test_sentences_are_saved_one_a_line_and_loaded_again(checkpoint: Path, tmp_path: Path) -> None:
    found = load(checkpoint)
    assert found.sentences == ()
    assert not (checkpoint / SENTENCES).exists()
    written = save(tmp_path / "again", found.model, found.tokenizer, found.card, "", ['{"诊断意见": "未见异常。"}', "两行\n并为一行", ""])
    again = load(tmp_path / "again")
    assert again.sentences == ('{"诊断意见": "未见异常。"}', "两行 并为一行")
    assert written == again.digest == found.digest


def test_a_file_that_is_no_text_is_named(checkpoint: Path) -> None:
    (checkpoint / SENTENCES).write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ModelMissing, match=r"sentences\.txt cannot be read .* write it again in UTF-8"):
        load(checkpoint)
