"""No side error goes unflagged: in reports as the model writes them, each side word is exchanged by itself, in the text and in the list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pipeline.model import Report, Side
from pipeline.training.truth import SIDED, Lesion, Truth
from tests.unit.rules.reports import EITHER, OTHER, case, case_of, drawn

SEEDS = range(40)
MORE = range(1000, 1400)  # of the long test
TEXTS = ("findings_text", "impression", "advice")
OTHERS = {"左": "右双", "右": "左双", "双": "左右"}
# 双肺未见结节, 双侧胸廓对称 and the like: what they say of the other side is as true of the one
_NOTHING_THERE = re.compile("未见|[无不][^，。]*|对称|通畅|清晰|清楚|自然|光滑|正常")


def swapped_words(report: Report) -> Iterator[tuple[str, Report]]:
    """The report with one side word of its texts exchanged, for each side word that places a finding."""
    for field in TEXTS:
        text: str = getattr(report, field)
        for found in re.finditer("[左右双]", text):
            start = max(text.rfind(mark, 0, found.start()) for mark in "，。") + 1
            if not _NOTHING_THERE.search(re.split("[，。]", text[start:])[0]):
                for other in OTHERS[found[0]]:
                    yield (
                        f"{field} {text[start : found.end()]} → {other}",
                        with_text(report, field, text[: found.start()] + other + text[found.end() :]),
                    )


def with_text(report: Report, field: str, text: str) -> Report:
    return Report(**{name: text if name == field else getattr(report, name) for name in TEXTS}, findings=report.findings)


def swapped_entries(report: Report) -> Iterator[tuple[str, Report]]:
    """The report with the side of one listed finding exchanged."""
    for number, finding in enumerate(report.findings):
        for other in OTHERS.get(finding.side[0], ""):
            if other != "双" or finding.side.endswith("侧"):
                changed = replace(finding, side=other + finding.side[1:])
                yield f"{finding} → {other}", replace(report, findings=(*report.findings[:number], changed, *report.findings[number + 1 :]))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_true_report_is_silent(seed: int) -> None:
    assert case(seed).checked().hits == ()


@pytest.mark.parametrize("seed", SEEDS)
def test_each_side_word_that_is_exchanged_is_flagged(seed: int) -> None:
    one = case(seed)
    assert [what for what, report in swapped_words(one.report) if not one.checked(report).hits] == []


@pytest.mark.parametrize("seed", SEEDS)
def test_each_listed_side_that_is_exchanged_is_flagged(seed: int) -> None:
    one = case(seed)
    assert [what for what, report in swapped_entries(one.report) if not one.checked(report).hits] == []


def wrong_throughout(truth: Truth) -> Iterator[Truth]:
    """The truth with the side of one finding exchanged, as a model may see it: list and texts then say the same wrong side."""
    for number, lesion in enumerate(truth.lesions):
        if lesion.lobe != "中叶":
            changed = replace(lesion, side=OTHER[lesion.side])
            yield replace(truth, lesions=(*truth.lesions[:number], changed, *truth.lesions[number + 1 :]))
    for name in SIDED:
        for sides in EITHER:
            if frozenset(sides) != getattr(truth, name):
                yield Truth.from_json(truth.to_json() | {name: sides})


@pytest.mark.parametrize("seed", SEEDS)
def test_a_side_that_is_wrong_in_list_and_texts_alike_is_flagged(seed: int) -> None:
    truth = drawn(seed)
    right = case_of(truth)
    wrong = [replace(right, report=case_of(other).report) for other in wrong_throughout(truth)]
    assert wrong
    assert [one.report for one in wrong if not one.checked().hits] == []


@pytest.mark.long
def test_of_many_reports_no_exchanged_side_goes_unflagged() -> None:
    tried, unflagged = 0, []
    for seed in MORE:
        one = case(seed)
        assert one.checked().hits == (), seed
        for what, report in (*swapped_words(one.report), *swapped_entries(one.report)):
            tried += 1
            unflagged += [] if one.checked(report).hits else [(seed, what)]
    assert tried > 5000
    assert unflagged == []


def _lesion(kind: str, side: Side, density: str, size_mm: float, margin: str) -> Lesion:
    return Lesion(kind, side, "上叶", density, size_mm, (-70.0 if side is Side.RIGHT else 70.0, 0.0, 50.0), margin)


@pytest.mark.parametrize("third", [(), (_lesion("结节", Side.RIGHT, "磨玻璃", 18.0, "光滑"),)], ids=["two", "three"])
def test_lesions_that_change_places_in_the_impression_are_a_matter_of_sides(third: tuple[Lesion, ...]) -> None:
    """Each side and each size stands in the list, only not together."""
    pair = (_lesion("实变", Side.RIGHT, "实性", 41.0, "模糊"), _lesion("结节", Side.LEFT, "部分实性", 22.0, "光滑"))
    one = case_of(Truth((*pair, *third), frozenset(), False, 1, 120.0, 100.0, "B30f"))
    first, second, *rest = one.report.impression.split("。")
    exchanged = "。".join([*(item.translate(str.maketrans("左右", "右左")) for item in (first, second)), *rest])
    assert exchanged != one.report.impression
    messages = [hit.message for hit in one.checked(with_text(one.report, "impression", exchanged)).hits]
    assert any(message.endswith("请核对侧别") for message in messages), messages
