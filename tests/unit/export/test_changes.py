from hypothesis import given
from hypothesis import strategies as st

from pipeline.export.changes import changes_markdown, differences

sentences = st.lists(st.sampled_from(["右肺结节。", "左肺结节；", "未见积液。", "建议随访！"]), max_size=6).map("".join)


def test_only_the_sentences_that_differ_are_told() -> None:
    assert differences("右肺结节。未见积液。建议随访。", "右肺结节。未见积液。建议复查。") == [("原", "建议随访。"), ("新", "建议复查。")]


def test_a_change_says_why_and_where_a_reader_had_opened_the_report_that_nothing_was_changed() -> None:
    row = {"cause": "rules", "section": "建议", "before": "建议随访。", "after": "建议|复查。", "applied": False}
    assert changes_markdown([row]) == "## 变更\n\n建议（规则已更新；医师已打开报告，原文未改）：\n- 原：建议随访。\n- 新：建议\\|复查。"
    assert changes_markdown([]) == ""


@given(sentences, sentences)
def test_texts_differ_exactly_where_something_is_told(before: str, after: str) -> None:
    assert (differences(before, after) == []) == (before == after)
