from __future__ import annotations

from pipeline.training.pairing import NEAR_MM, paired

LARGE, SMALL = ((0.0, 0.0, 0.0), 40.0), ((25.0, 0.0, 0.0), 8.0)


def test_nearest_pairs_come_first_and_each_is_used_once() -> None:
    assert paired({1: (18.0, 0.0, 0.0), 2: (3.0, 0.0, 0.0), 3: (1.0, 0.0, 0.0)}, [LARGE, SMALL]) == {3: 0, 1: 1}


def test_a_large_thing_reaches_farther_than_a_small_one() -> None:
    assert paired({1: (-19.0, 0.0, 0.0)}, [LARGE]) == {1: 0}
    assert paired({1: (25.0 + NEAR_MM, 0.0, 0.0)}, [SMALL]) == {1: 0}
    assert paired({1: (25.1 + NEAR_MM, 0.0, 0.0)}, [SMALL]) == {}
