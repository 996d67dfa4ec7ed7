"""What counts as invented when the threshold is chosen."""

from __future__ import annotations

from dataclasses import replace

from pipeline.model import Candidate, Side
from pipeline.training.known import surest_invented
from pipeline.training.phantom import Lesion, Node, Truth

LESION = Lesion("结节", Side.LEFT, "上叶", "实性", 12.0, (40.0, 0.0, 30.0))
TRUTH = Truth((LESION,), frozenset(), False, 1, 120.0, 100.0, "B30f", nodes=(Node(14.0, (0.0, 10.0, 0.0)),))


def proposal(index: int, at: tuple[float, float, float], score: float, lobe: str | None = "上叶") -> Candidate:
    return Candidate(index, "结节" if lobe else "淋巴结", at, Side.LEFT, lobe, "实性", 12.0, score)


def test_the_surest_proposal_that_is_nothing_true_counts() -> None:
    found = (proposal(1, (41.0, 1.0, 30.0), 0.99), proposal(2, (90.0, 0.0, 0.0), 0.7), proposal(3, (-90.0, 0.0, 0.0), 0.8))
    assert surest_invented(found, TRUTH) == 0.8


def test_a_second_proposal_of_one_lesion_is_invented_and_one_outside_the_lungs_is_not_asked() -> None:
    twice = (proposal(1, (41.0, 1.0, 30.0), 0.99), proposal(2, (44.0, 1.0, 30.0), 0.9))
    assert surest_invented(twice, TRUTH) == 0.9
    assert surest_invented((replace(twice[0], index=1), proposal(2, (200.0, 0.0, 0.0), 0.95, None)), TRUTH) == 0.0


def test_nothing_proposed_is_nothing_invented() -> None:
    assert surest_invented((), TRUTH) == 0.0
