"""The watcher knows the section of the next token, whatever way the text is cut into tokens."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.engine.sections import ADVICE, FINDINGS, IMPRESSION, SECTIONS, START_K, SectionWatcher, opening_section

Cuts = st.lists(st.integers(1, 9), max_size=200)


def pieces(text: str, cuts: list[int]) -> list[bytes]:
    """The bytes of a text, cut at the given lengths and the rest byte by byte."""
    data, out = text.encode(), []
    for length in cuts:
        out.append(data[:length])
        data = data[length:]
    return [piece for piece in [*out, *(data[i : i + 1] for i in range(len(data)))] if piece]


@given(
    findings=st.text(max_size=30),
    impression=st.sampled_from(['肺结节，"建议": 复查', "建议随访", ""]) | st.text(max_size=30),
    advice=st.text(max_size=20),
    cuts=Cuts,
)
@settings(deadline=None)
def test_each_value_of_a_whole_report_lies_in_its_section(findings: str, impression: str, advice: str, cuts: list[int]) -> None:
    report = {"检查所见": {"病灶": [], "描述": findings}, "诊断意见": impression, "建议": advice}
    text = json.dumps(report, ensure_ascii=False)
    starts = {section: len(text[: text.index(f'"{section}": ') + len(section) + 3].encode()) for section in (FINDINGS,)}
    starts[ADVICE] = len((text[: text.rindex('"建议": ')] + '"建议":').encode())
    starts[IMPRESSION] = len((json.dumps(report | {"诊断意见": None}, ensure_ascii=False).split("null")[0].rstrip()).encode())
    watcher, written = SectionWatcher(), 0
    for piece in pieces(text, cuts):
        written += len(piece)
        expected = next((section for section in reversed(SECTIONS) if written >= starts[section]), FINDINGS)
        assert watcher.feed(piece) == watcher.section == expected


def test_a_section_named_inside_a_text_is_no_key() -> None:
    watcher = SectionWatcher(IMPRESSION)
    assert watcher.feed('{"诊断意见": "见\\"建议": 以及“建议”'.encode()) == IMPRESSION
    assert [watcher.feed(bytes([b])) for b in '\\"建议":'.encode()][-1] == IMPRESSION


@pytest.mark.parametrize(
    ("prompt", "section"),
    [
        ("[CT影像特征]<ct><ct>[临床指征]咳嗽[科室]放射科[检查所见][诊断意见][建议]", FINDINGS),
        ("[CT影像特征]<ct>[临床指征]咳嗽[检查所见]", FINDINGS),
        ('[检查所见]{"病灶": []}[科室]肿瘤科[描述]', FINDINGS),
        ('[描述]{"描述": "无"}[诊断意见]', IMPRESSION),
        ('[诊断意见]{"诊断意见": "无"}[建议]', ADVICE),
        ("随便一句话", FINDINGS),
        ("", FINDINGS),
    ],
)
def test_a_prompt_says_with_which_section_its_answer_begins(prompt: str, section: str) -> None:
    assert opening_section(prompt) == section


def test_start_lengths_are_those_of_the_issue() -> None:
    assert 6 <= START_K[FINDINGS] <= 8
    assert (START_K[IMPRESSION], START_K[ADVICE]) == (3, 4)
