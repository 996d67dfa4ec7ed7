"""Labelled sentences: precision and recall of every rule, printed with `pytest -s`."""

from __future__ import annotations

import pytest

from pipeline.rules.checks import CHECKS, EDITS
from tests.unit.rules.golden import READINGS, Case, cases, said, scores, table
from tests.unit.rules.lexicons import RULES

CASES = tuple(cases())
LEAST = 0.98
DOSE = {rule.id for rule in RULES.dose}  # their hits carry the id of their row


def test_every_rule_is_right_nearly_always() -> None:
    found = scores(CASES)
    print(f"\n{table(found)}")
    wrong = [
        f"{case.file} {case.number}: {case.rule} says {said(case)}, not {case.expect}" for case in CASES if sorted(said(case)) != sorted(case.expect)
    ]
    assert {rule for rule, score in found.items() if min(score.precision, score.recall) < LEAST} == set(), "\n".join(wrong)


def test_every_rule_has_sentences() -> None:
    """What the dose rules say is counted under their rows."""
    assert {rule.id for rule in (*EDITS, *CHECKS)} - {case.rule for case in CASES} == {"dose.cumulative"}


def test_every_rule_of_the_sentences_exists_and_has_both_kinds_of_case() -> None:
    rules = {case.rule for case in CASES}
    assert rules <= {*READINGS, *(rule.id for rule in (*EDITS, *CHECKS)), *(name for rule in CHECKS for name in rule.also), *DOSE}
    for rule in rules - {"place"}:
        mine = [case for case in CASES if case.rule == rule]
        assert any(case.expect for case in mine), rule
        assert any(not case.expect for case in mine), rule


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.file}-{case.number}")
def test_no_sentence_is_there_twice(case: Case) -> None:
    assert [(other.rule, other.report, other.context) for other in CASES].count((case.rule, case.report, case.context)) == 1
