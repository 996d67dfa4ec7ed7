"""What the packaged model is trained to write passes the rules in silence; a twist of it does not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from pipeline.model import Report, Severity
from pipeline.training.phantom import draw
from tests.unit.rules.reports import OTHER, Case, case_of

SEEDS = range(200)


@cache
def written(seed: int) -> Case:
    """The report of one phantom, and an encoder's perfect candidates for it."""
    return case_of(draw(seed).truth)


def sides_of(report: Report) -> set[str]:
    return {finding.side[0] for finding in report.findings if finding.side[0] in "左右双"}


@pytest.mark.parametrize("sex", ["M", "F"])
def test_true_reports_have_no_hit_whatever_is_known_of_the_patient_and_the_scan(sex: str) -> None:
    """With what the check step knows: the sex, what the scan shows, whether contrast agent was given, and where fluid and the like were measured."""
    for seed in SEEDS:
        one = written(seed)
        assert replace(one, context=replace(one.context, sex=sex)).checked().hits == (), seed


def test_a_prose_of_the_other_side_is_told_for_every_listed_lesion() -> None:
    """Also where both sides have lesions: the list is of the right side, so each wrong sentence is of a place that the list does not have."""
    exchange = str.maketrans("左右", "右左")
    tried = 0
    for seed in SEEDS:
        one = written(seed)
        if len({finding.side for finding in one.report.findings if finding.side in ("左肺", "右肺")}) == 1:
            tried += 1
            found = one.checked(replace(one.report, findings_text=one.report.findings_text.translate(exchange))).hits
            assert any(hit.rule == "structure.prose" and hit.severity is Severity.BLOCK for hit in found), seed
    assert tried >= 40


def test_candidates_on_the_other_side_are_flagged_in_every_report_with_a_lesion() -> None:
    for seed in SEEDS:
        one = written(seed)
        mirrored = tuple(replace(candidate, side=OTHER[candidate.side]) for candidate in one.context.candidates)
        hits = replace(one, context=replace(one.context, candidates=mirrored)).checked().hits
        sides = [hit for hit in hits if hit.rule == "grounding.candidate" and "侧" in hit.message]
        assert len(sides) == sum(finding.side in ("左肺", "右肺") for finding in one.report.findings)


def test_an_impression_with_sides_exchanged_is_flagged_where_only_one_side_has_findings() -> None:
    exchange = str.maketrans("左右", "右左")
    tried = 0
    for seed in SEEDS:
        one = written(seed)
        if sides_of(one.report) in ({"左"}, {"右"}):
            tried += 1
            assert any(
                hit.rule == "side.impression" for hit in one.checked(replace(one.report, impression=one.report.impression.translate(exchange))).hits
            )
    assert tried >= 5
