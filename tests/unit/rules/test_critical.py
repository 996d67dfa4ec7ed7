"""Critical findings: what is there or may be there raises a suspicion once; a site's own words are read with what negates them."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from pipeline.checking import CheckContext, RuleSet, Suspected
from pipeline.errors import BadInput
from pipeline.guidance import CriticalRule
from pipeline.model import Report
from pipeline.rules.analysis import analysed
from pipeline.rules.checks import run
from pipeline.rules.critical import critical, refuse_unreadable, suspected
from pipeline.rules.seed import seed_critical
from tests.unit.rules.lexicons import RULES

CONTEXT = CheckContext(date(2026, 1, 15))
OWN = CriticalRule("own", "本院项目", ("灯泡征",), "urgent", 15, "test")


def alerts(text: str, rules: RuleSet = RULES, **sections: str) -> tuple[Suspected, ...]:
    report = Report(text, sections.get("impression", ""), sections.get("advice", ""))
    return suspected(analysed(report, rules, CONTEXT))


def found(text: str, rules: RuleSet = RULES, **sections: str) -> list[tuple[str, bool]]:
    return [(one.rule.id, one.certain) for one in alerts(text, rules, **sections)]


def test_a_denied_embolism_raises_nothing_and_a_possible_one_is_suspected() -> None:
    assert found("未见肺栓塞。") == []
    assert found("", impression="不除外肺栓塞。") == [("pulmonary-embolism", False)]
    assert found("", impression="肺栓塞。") == [("pulmonary-embolism", True)]


def test_one_finding_is_one_alert_however_often_it_is_said_and_certain_where_any_place_is() -> None:
    text = "右肺动脉内充盈缺损可能。左肺动脉内见充盈缺损。"
    assert found(text, impression="肺栓塞可能。") == [("pulmonary-embolism", True)]


def test_denied_in_one_section_and_present_in_another_is_raised() -> None:
    assert found("未见肺栓塞。", impression="肺栓塞。") == [("pulmonary-embolism", True)]


def test_the_nearest_rule_speaks_for_a_finding() -> None:
    assert found("左侧张力性气胸，大量，纵隔右移。") == [("tension-pneumothorax", True)]


def test_several_findings_are_several_alerts() -> None:
    assert sorted(found("降主动脉夹层，左侧胸腔积血。")) == [("aortic-dissection", True), ("hemothorax", True)]


def test_what_the_advice_names_is_no_finding() -> None:
    assert found("双肺未见异常。", advice="肺栓塞不除外，建议CTPA。") == []


def test_the_flag_says_that_it_is_suspected_where_it_stands_and_by_when() -> None:
    report = Report("双肺未见异常。", "不除外肺动脉栓塞。", "随访。")
    (hit,) = critical(analysed(report, RULES, CONTEXT))
    assert report.impression[hit.start : hit.end] == "肺动脉栓塞"
    assert "【疑似危急值】肺栓塞" in hit.message
    assert "草稿自身尚不确定" in hit.message
    assert "10 分钟内通知临床" in hit.message


def test_a_word_that_the_lexicon_does_not_have_is_read_with_what_negates_it() -> None:
    rules = replace(RULES, critical=(OWN,))
    assert found("右肺见灯泡征。", rules) == [("own", True)]
    assert found("右肺未见灯泡征。", rules) == []
    assert found("右肺灯泡征待排。", rules) == [("own", False)]


def test_a_site_s_change_holds_for_the_next_report() -> None:
    fewer = replace(RULES, critical=tuple(rule for rule in seed_critical() if rule.id != "pulmonary-embolism"))
    assert found("", fewer, impression="肺栓塞。") == []
    assert found("", replace(RULES, critical=()), impression="肺栓塞。") == []


@pytest.mark.parametrize("words", [{"qualifiers": ("灯泡样的",)}, {"unless": ("灯泡样的",)}, {"words": ("夹层@灯泡",)}])
def test_a_word_that_no_text_can_say_is_refused(words: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(BadInput, match="灯泡"):
        refuse_unreadable(replace(RULES, critical=(replace(OWN, **words),)))  # type: ignore[arg-type]  # fields of the rule


def test_the_package_s_own_list_can_be_read_and_each_row_names_its_source() -> None:
    refuse_unreadable(RULES)
    assert len(RULES.critical) >= 15
    assert all(rule.source and rule.minutes in (10, 30) for rule in RULES.critical)
    assert {"tension-pneumothorax", "aortic-dissection", "pulmonary-embolism", "perforation", "intracranial-hemorrhage"} <= {
        r.id for r in RULES.critical
    }


def test_checking_a_report_gives_its_alerts_with_the_version_of_the_rules() -> None:
    (alert,) = run(Report("双肺未见异常。", "肺栓塞。", "随访。"), RULES, CONTEXT).alerts
    assert (alert.rule.finding, alert.version, alert.section) == ("肺栓塞", RULES.version, "诊断意见")


@pytest.mark.parametrize(
    "text",
    ["右侧肺栓塞。", "双肺栓塞。", "左肺栓塞可能。", "左下肺动脉充盈缺损。", "双下肺动脉充盈缺损。", "右下肺动脉栓塞。", "右肺动脉栓塞。"],
)  # fmt: skip
def test_embolism_is_raised_by_whatever_side_lobe_or_vessel_it_is_told(text: str) -> None:
    assert [name for name, _ in found(text)] == ["pulmonary-embolism"]


@pytest.mark.parametrize(
    "text",
    ["与既往比较新见左侧大量气胸。", "较既往CT新增右肺动脉充盈缺损。", "原右侧气胸较前明显增多，肺压缩约60%。",
     "既往肺栓塞，本次肺动脉仍见充盈缺损。",
     "右侧气胸，右肺受压约2/3。", "右侧气胸区肺纹理消失，右肺压缩约60%。"],
)  # fmt: skip
def test_what_an_earlier_examination_is_compared_with_does_not_hide_what_is_there_today(text: str) -> None:
    assert len(found(text)) == 1


@pytest.mark.parametrize(
    "text",
    ["肺栓塞较前消失。", "胸腔积血已吸收。", "主动脉夹层：无。", "平扫不能评估肺栓塞。", "平扫无法评价主动脉夹层。", "本次平扫对肺栓塞诊断价值有限。",
     "上次检查示肺栓塞，此次未见。", "右侧气胸，右肺受压约1/3。"],
)  # fmt: skip
def test_what_is_gone_or_cannot_be_judged_raises_nothing(text: str) -> None:
    assert found(text) == []


def test_a_critical_finding_among_conclusory_words_is_neither_dropped_nor_missed() -> None:
    checked = run(Report("右肺上叶见结节。", "综上，考虑肺栓塞，需高度警惕。", ""), RULES, CONTEXT)
    assert checked.report.impression == "综上，考虑肺栓塞，需高度警惕。"
    assert [one.rule.id for one in checked.alerts] == ["pulmonary-embolism"]
