"""Matching, clauses and folding."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pipeline.rules.spans import Matcher, Span, clauses, find_pattern, folded, quotations

LETTERS = st.text(alphabet="abc", max_size=12)


@given(st.lists(st.text(alphabet="abc", min_size=1, max_size=4), max_size=6), LETTERS)
def test_longest_matches_equal_those_of_the_slow_way(words: list[str], text: str) -> None:
    slow, position = [], 0
    while position < len(text):
        here = max((len(word) for word in words if text.startswith(word, position)), default=0)
        if here:
            slow.append(Span(position, position + here))
        position += here or 1
    assert list(Matcher(words).longest(text)) == slow


def test_clauses_are_the_text_without_its_marks() -> None:
    text = "，建议随访。不建议增强扫描；\n随诊"
    assert [text[span.start : span.end] for span in clauses(text)] == ["建议随访", "不建议增强扫描", "随诊"]


def test_an_ellipsis_matches_anything_in_between() -> None:
    assert find_pattern("复查胸部CT", "复查…CT") == Span(0, 6)
    assert find_pattern("CT后复查", "复查…CT") is None
    assert find_pattern("CT", "…") is None


@given(st.text())
def test_folding_keeps_every_offset(text: str) -> None:
    assert len(folded(text)) == len(text)


def test_folding_reads_full_width_and_lower_case() -> None:
    assert folded("胸部ｃｔ，ＰＥＴ/ct") == "胸部CT，PET/CT"


def test_a_short_indication_is_no_quotation_without_marks() -> None:
    assert quotations("咳嗽三天", "咳嗽") == ()
    assert quotations("因“咳嗽”检查", "咳嗽") == (Span(2, 4),)
