"""A report as a person writes it in a file."""

from __future__ import annotations

import pytest

from pipeline.checking import CheckContext
from pipeline.errors import BadInput
from pipeline.model import Report
from pipeline.rules.checks import run
from pipeline.rules.written import written
from tests.unit.rules.golden import DAY
from tests.unit.rules.lexicons import RULES


@pytest.mark.parametrize(
    "text",
    [
        "检查所见：\n左肺结节。\n诊断意见：\n结节。\n建议：\n随访。",
        "检查所见:左肺结节。\n诊断意见:结节。\n建议:随访。",
        "【影像所见】\n左肺结节。\n\n【印象】\n结节。\n【建议】\n随访。\n",
        '{"检查所见": {"病灶": [], "描述": "左肺结节。"}, "诊断意见": "结节。", "建议": "随访。"}',
    ],
)
def test_sections_are_found_by_their_headings(text: str) -> None:
    assert written(text).report == Report("左肺结节。", "结节。", "随访。")


def test_text_without_headings_is_what_was_found_and_no_section_is_missed() -> None:
    report = written("左肺见毛玻璃结节。")
    assert report.report == Report("左肺见毛玻璃结节。", "", "")
    told = report.told(run(report.report, RULES, CheckContext(DAY)))
    assert [hit["rule"] for hit in told["hits"]] == ["term.standard", "guideline.refusal"]


def test_offsets_count_characters_of_the_whole_answer() -> None:
    report = written("检查所见：\n左肺见毛玻璃结节，右肺见葡萄串影。\n诊断意见：\n两肺结节。\n建议：\n")
    told = report.told(run(report.report, RULES, CheckContext(DAY)))
    words = [(hit["rule"], told["text"][hit["start"] : hit["end"]]) for hit in told["hits"]]
    assert ("term.standard", "磨玻璃结节") in words
    assert ("term.standard", "双肺") in words
    assert ("term.unlisted", "葡萄串影") in words
    assert [hit["section"] for hit in told["hits"] if hit["rule"] == "section.empty"] == ["建议"]


@pytest.mark.parametrize("text", ["", "  \n", "检查所见：\n", '{"检查所见": 3}', '{"检查所见": "\\ud800"}', "{"])
def test_what_holds_no_report_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        written(text)
