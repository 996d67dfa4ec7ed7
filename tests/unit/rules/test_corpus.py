"""What the packaged model is trained to write passes the rules in silence; a twist of it does not."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from pipeline.drafting.parse import parse
from pipeline.drafting.schema import dumps
from pipeline.model import Candidate, CheckContext, Hit, Report, RuleSet, Side
from pipeline.rules.checks import run
from pipeline.rules.seed import seed_dose_rules, seed_terms
from pipeline.training.corpus import pair
from pipeline.training.phantom import draw

RULES = RuleSet(1, seed_terms(), seed_dose_rules())
SEEDS = range(40)


def written(seed: int) -> tuple[Report, tuple[Candidate, ...]]:
    """The report of one phantom, and an encoder's perfect candidates for it."""
    truth = draw(seed).truth
    seen = [Candidate(n, x.kind, x.center_mm, x.side, x.lobe, x.density, x.size_mm, 1.0) for n, x in enumerate(truth.lesions, 1)]
    return parse(dumps(pair(seen, truth))), tuple(seen)


def hits(report: Report, candidates: tuple[Candidate, ...]) -> tuple[Hit, ...]:
    return run(report, RULES, CheckContext(date(2026, 1, 15), candidates=candidates)).hits


@pytest.mark.parametrize("seed", SEEDS)
def test_a_true_report_has_no_hit(seed: int) -> None:
    assert hits(*written(seed)) == ()


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
