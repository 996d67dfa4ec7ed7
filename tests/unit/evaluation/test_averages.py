from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.averages import mean, share
from pipeline.evaluation.learned_table import cell


def test_a_share_of_all_is_not_certain() -> None:
    """Wilson: 20 of 20 may come from 84 %."""
    assert share([True] * 20) == {"value": 1.0, "low": pytest.approx(0.839, abs=0.001), "high": 1.0}
    assert share([False] * 20)["high"] == pytest.approx(0.161, abs=0.001)


@given(st.lists(st.booleans(), min_size=1, max_size=80))
def test_a_share_lies_in_its_interval(found: list[bool]) -> None:
    figure = share(found)
    low, value, high = figure["low"], figure["value"], figure["high"]
    assert low is not None and value is not None and high is not None  # noqa: PT018  # for the type checker
    assert 0.0 <= low <= value <= high <= 1.0


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=40))
def test_the_interval_of_a_mean_lies_within_the_values(values: list[float]) -> None:
    figure = mean(values)
    low, high = figure["low"], figure["high"]
    assert low is not None and high is not None  # noqa: PT018  # for the type checker
    assert min(values) - 1e-3 <= low <= high <= max(values) + 1e-3


def test_equal_values_have_no_spread() -> None:
    assert mean([0.0, 0.0, 0.0]) == {"value": 0.0, "low": 0.0, "high": 0.0}


def test_of_nothing_nothing_is_said() -> None:
    assert mean([])["value"] is None
    assert share([])["value"] is None
    assert cell("dice", mean([])) == "–"


def test_a_cell_shows_the_interval_and_negative_figures() -> None:
    assert cell("dice_gain", mean([-0.25, -0.25])) == "-0.250 (-0.250 to -0.250)"
    assert cell("wrong", share([False] * 20)) == "0.0% (0.0% to 16.1%)"
