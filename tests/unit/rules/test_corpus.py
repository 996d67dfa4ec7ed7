"""What the packaged model is trained to write passes the rules in silence; a twist of it does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from pipeline.checking import CheckContext, Hit, RuleSet
from pipeline.drafting.parse import parse
from pipeline.drafting.schema import dumps
from pipeline.model import Candidate, Report, Severity, Side
from pipeline.rules.checks import run
from pipeline.rules.seed import seed_dose_rules, seed_lexicon, seed_terms
from pipeline.training.corpus import pair
from pipeline.training.phantom import draw

RULES = RuleSet(1, seed_terms(), seed_dose_rules(), seed_lexicon())
DAY = date(2026, 1, 15)
SEEDS = range(300)


def written(seed: int) -> tuple[Report, tuple[Candidate, ...]]:
    """The report of one phantom, and an encoder's perfect candidates for it."""
    truth = draw(seed).truth
    seen = [Candidate(n, x.kind, x.center_mm, x.side, x.lobe, x.density, x.size_mm, 1.0) for n, x in enumerate(truth.lesions, 1)]
    return parse(dumps(pair(seen, truth))), tuple(seen)


def hits(report: Report, candidates: tuple[Candidate, ...]) -> tuple[Hit, ...]:
    return run(report, RULES, CheckContext(DAY, candidates=candidates)).hits


@pytest.mark.parametrize("sex", ["M", "F"])
def test_true_reports_have_no_hit_whatever_is_known_of_the_patient_and_the_scan(sex: str) -> None:
    """With what the check step knows: the sex, what the scan shows, that no contrast agent was given, and where fluid was measured."""
    for seed in SEEDS:
        report, seen = written(seed)
        known = CheckContext(DAY, candidates=seen, covers=("肺", "纵隔", "心脏"), contrast=False, sex=sex, structured=True)
        known = replace(known, effusion=tuple(draw(seed).truth.effusion))
        assert run(report, RULES, known).hits == (), seed


def test_a_prose_of_the_other_side_is_told_for_every_listed_lesion() -> None:
    """Also where both sides have lesions: the list is of the right side, so each wrong sentence is of a place that the list does not have."""
    exchange = str.maketrans("左右", "右左")
    tried = 0
    for seed in SEEDS:
        report, seen = written(seed)
        if len({finding.side[0] for finding in report.findings if finding.candidate is not None}) == 1:
            tried += 1
            found = hits(replace(report, findings_text=report.findings_text.translate(exchange)), seen)
            assert any(hit.rule == "structure.prose" and hit.severity is Severity.BLOCK for hit in found), seed
    assert tried >= 50


def test_candidates_on_the_other_side_are_flagged_in_every_report_with_a_lesion() -> None:
    other = {Side.LEFT: Side.RIGHT, Side.RIGHT: Side.LEFT}
    for seed in SEEDS:
        report, seen = written(seed)
        mirrored = tuple(replace(candidate, side=other[candidate.side]) for candidate in seen)
        sides = [hit for hit in hits(report, mirrored) if hit.rule == "grounding.candidate" and "侧" in hit.message]
        assert len(sides) == len(seen)


def test_an_impression_with_sides_exchanged_is_flagged_where_only_one_side_has_findings() -> None:
    exchange = str.maketrans("左右", "右左")
    tried = 0
    for seed in SEEDS:
        report, seen = written(seed)
        if {finding.side[0] for finding in report.findings} in ({"左"}, {"右"}):
            tried += 1
            assert any(hit.rule == "side.impression" for hit in hits(replace(report, impression=report.impression.translate(exchange)), seen))
    assert tried >= 5
