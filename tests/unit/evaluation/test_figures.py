from __future__ import annotations

import pytest

from pipeline.evaluation.averages import Figure
from pipeline.evaluation.figures import FIGURES, figures
from pipeline.evaluation.score import Tally

ZERO: Tally = {name: 0.0 for ratio in FIGURES.values() for name in (*ratio.top, *ratio.bottom)}


def one(**counts: float) -> Tally:
    return ZERO | {"reports": 1.0, "valid": 1.0} | counts


def bounds(figure: Figure) -> tuple[float, float]:
    low, high = figure["low"], figure["high"]
    assert low is not None
    assert high is not None
    return low, high


def test_figures_are_ratios_of_sums_with_an_interval() -> None:
    found = figures([one(found=1), one(found=1, invented=1, inventing=1), one(valid=0, missed=1)] * 10)
    assert found["lesion_f1"]["value"] == pytest.approx(2 * 20 / (2 * 20 + 10 + 10), abs=1e-4)
    assert found["lesion_recall"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    assert found["hallucination"]["value"] == pytest.approx(1 / 3, abs=1e-4)
    assert found["json_valid"]["value"] == pytest.approx(2 / 3, abs=1e-4)
    low, high = bounds(found["lesion_f1"])
    assert low < 2 / 3 < high


def test_a_figure_without_anything_to_count_is_none() -> None:
    assert figures([one()])["side_error"] == {"value": None, "low": None, "high": None}


def test_nothing_wrong_in_n_reports_is_still_uncertain() -> None:
    found = figures([one(found=2)] * 50)
    low, high = bounds(found["side_error"])
    assert (found["side_error"]["value"], low) == (0.0, 0.0)
    assert 0.02 < high < 0.06


def test_more_reports_narrow_the_interval() -> None:
    few, many = ([one(found=n % 2, missed=1 - n % 2) for n in range(count)] for count in (20, 500))
    widths = [high - low for low, high in (bounds(figures(tallies)["lesion_recall"]) for tallies in (few, many))]
    assert widths[1] < widths[0] / 3


def test_the_interval_is_the_same_in_every_run() -> None:
    tallies = [one(found=n % 2, missed=1 - n % 2) for n in range(20)]
    assert figures(tallies) == figures(tallies)
