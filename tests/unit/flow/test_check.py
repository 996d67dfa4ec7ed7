"""The check step: which rules and doses it asks for, and what it counts."""

from __future__ import annotations

from datetime import date
from types import MappingProxyType
from uuid import UUID, uuid4

from prometheus_client import REGISTRY

from pipeline.checking import Prior, RuleSet
from pipeline.flow.check import check
from pipeline.irradiation import DoseEvent
from pipeline.rules.seed import seed_dose_rules
from tests import builders

DAY = date(2026, 1, 15)
STUDY = uuid4()


class FixedRules:
    """Rules port that notes the window it was asked for."""

    def __init__(self, ruleset: RuleSet) -> None:
        self.ruleset = ruleset
        self.windows: list[tuple[date, date]] = []

    def current(self) -> RuleSet:
        return self.ruleset

    def study_date(self, study_id: UUID) -> date:
        assert study_id == STUDY
        return DAY

    def doses(self, study_id: UUID, since: date, until: date) -> tuple[DoseEvent, ...]:
        self.windows.append((since, until))
        return (DoseEvent("a", date(2025, 6, 1), "chest", 100.0, 61.0),)

    def studies_without_dose(self, study_id: UUID, since: date, until: date) -> tuple[date, ...]:
        self.windows.append((since, until))
        return (date(2025, 3, 1), date(2025, 4, 1))

    def age_years(self, study_id: UUID) -> float | None:
        return None

    def sex(self, study_id: UUID) -> str:
        return "M"

    def priors(self, study_id: UUID, before: date) -> tuple[Prior, ...]:
        assert (study_id, before) == (STUDY, DAY)
        return ()


RULES = RuleSet(4, MappingProxyType({"毛玻璃": "磨玻璃"}), seed_dose_rules())


def counted(rule: str, severity: str) -> float:
    return REGISTRY.get_sample_value("ctreport_rule_hits_total", {"rule": rule, "severity": severity}) or 0.0


def test_the_doses_of_the_year_before_the_examination_lead_to_the_warning() -> None:
    rules = FixedRules(RULES)
    checked = check(rules, builders.report(advice="建议增强扫描。"), STUDY, (builders.candidate(),), "")
    assert rules.windows == [(date(2025, 1, 15), DAY)] * 2
    assert checked.report.advice.startswith("【剂量预警】")
    assert "61.0 mSv" in checked.report.advice
    assert "另有 2 次检查缺剂量记录" in checked.report.advice
    assert checked.rules_version == 4


def test_every_hit_is_counted_by_rule_and_severity() -> None:
    before = counted("term.standard", "replaced")
    checked = check(FixedRules(RULES), builders.report(impression="右肺上叶毛玻璃结节。"), STUDY, (builders.candidate(),), "")
    assert [hit.rule for hit in checked.hits] == ["term.standard"]
    assert counted("term.standard", "replaced") == before + 1


def test_without_dose_rules_no_dose_is_asked_for() -> None:
    rules = FixedRules(RuleSet(0, {}))
    assert check(rules, builders.report(), STUDY, (builders.candidate(),), "").hits == ()
    assert rules.windows == []


def test_the_candidates_and_the_indication_reach_the_rules() -> None:
    checked = check(FixedRules(RULES), builders.report(advice="因“毛玻璃结节”随访。"), STUDY, (), "毛玻璃结节")
    assert checked.report.advice == "因“毛玻璃结节”随访。"
    assert [hit.rule for hit in checked.hits] == ["grounding.candidate"]
