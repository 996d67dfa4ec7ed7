"""Sizes, CT values, counts and references; the golden sentences show more of the wording."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.rules.measures import Measure, MeasureKind, measures, number, sizes

UNITS = {"mm": 1.0, "MM": 1.0, "ｍｍ": 1.0, "毫米": 1.0, "cm": 10.0, "厘米": 10.0, "公分": 10.0}
TEXT = st.text(alphabet="0123456789.０１２两三十一点mMcCｍhHuU厘毫米公分枚个多发约至-–~×xX*层第序列图像se im（），。CT值:", max_size=40)


def only(text: str) -> Measure:
    (found,) = measures(text)
    return found


@given(st.integers(1, 400), st.sampled_from(sorted(UNITS)), st.sampled_from(["", " ", "约", "直径约", "大小约为"]))
def test_a_size_is_in_mm_whatever_its_unit(value: int, unit: str, before: str) -> None:
    found = only(f"{before}{value / 10:g}{unit}")
    assert found.kind is MeasureKind.SIZE
    assert found.values == pytest.approx([value / 10 * UNITS[unit]])
    assert found.near is ("约" in before)


@given(st.lists(st.integers(1, 99), min_size=2, max_size=3), st.sampled_from("×xX*✕"), st.booleans())
def test_dimensions_share_the_unit_that_is_written_last(values: list[int], times: str, each: bool) -> None:
    text = times.join(f"{value}{'mm' if each else ''}" for value in values) + ("" if each else "mm")
    assert only(text).values == tuple(map(float, values))
    assert only(text).largest_mm == max(values)


@given(st.integers(1, 50), st.integers(1, 50), st.sampled_from("-–—~～至到"))
def test_a_range_keeps_both_ends(low: int, more: int, to: str) -> None:
    found = only(f"{low}{to}{low + more}mm")
    assert (found.low, found.high, found.values) == (low, low + more, (float(low + more),))


@given(TEXT)
def test_measures_point_at_their_text_in_order_and_are_finite(text: str) -> None:
    found = measures(text)
    assert all(0 <= one.start < one.end <= len(text) for one in found)
    assert all(before.end <= after.start or before.start < after.start for before, after in pairwise(found))
    assert all(abs(value) < float("inf") for one in found for value in one.values)


@given(st.integers(1, 99))
def test_chinese_numerals_are_read_as_they_are_said(value: int) -> None:
    tens, ones = divmod(value, 10)
    digits = "零一二三四五六七八九"
    word = (digits[tens] if tens > 1 else "") + ("十" if tens else "") + (digits[ones] if ones else "")
    assert number(word) == value


def test_slice_thickness_is_no_size_of_a_finding() -> None:
    assert only("层厚5mm").technical
    assert list(sizes(measures("层厚5mm，结节8mm"))) == [measures("层厚5mm，结节8mm")[1]]


@pytest.mark.parametrize("text", ["se3 im45", "SE:3 IM:45", "序列3图像45", "Ｓｅ３，ｉｍ４５"])
def test_image_references_are_no_sizes(text: str) -> None:
    assert (only(text).kind, only(text).values) == (MeasureKind.REFERENCE, (3.0, 45.0))


@pytest.mark.parametrize("text", ["12mm²", "3cm3", "12mm/s", "T12椎体", "第3肋", "2025-06-01", "S1+2段", "1. 右肺", "3级"])
def test_what_only_looks_like_a_size_is_none(text: str) -> None:
    assert measures(text) == ()


def test_times_are_neither_sizes_nor_counts() -> None:
    assert [one.kind for one in measures("3个月后、12个月、两周、6-12个月、半年")] == [MeasureKind.TIME] * 5
