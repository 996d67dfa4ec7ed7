"""Rows of the volume benchmark: medians over rounds, ratios within a round, and what was asked."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pipeline.evaluation.volume_files import J2K, NATIVE, Series
from pipeline.evaluation.volume_rows import TARGETS, cells, markdown, rows, speedup, verdict_cells, verdicts
from pipeline.evaluation.volume_run import Measure

SERIES = Series(NATIVE, Path("native"), 275)


def taken(what: str, seconds: list[float], series: Series = SERIES, differing: int | None = 0) -> list[Measure]:
    looked = Measure(what, series, 0, peak_mb=300.0, array_mb=150.0, type="int16", differing=differing)
    return [looked, *(Measure(what, series, number, one, one, array_mb=150.0) for number, one in enumerate(seconds, 1))]


def test_a_row_has_the_median_of_the_rounds_and_the_memory_of_its_own_round() -> None:
    (row,) = rows(taken("simpleitk", [0.5, 0.4, 0.9]))
    assert row["median_ms"] == 500
    assert (row["peak_mb"], row["array_mb"], row["peak_over_array"]) == (300, 150, 2)
    assert row["spread"] == 1
    assert row["rounds"] == 3
    assert row["identical"]


def test_the_speedup_is_the_median_of_the_ratios_within_a_round() -> None:
    theirs, ours = taken("simpleitk", [1.0, 10.0, 2.0]), taken("ctreport", [0.5, 2.0, 0.5])
    assert speedup(ours, theirs) == 4  # of 2, 5 and 4
    assert speedup(theirs, theirs) == 1
    assert speedup(ours, []) is None


@pytest.mark.parametrize("differing", [1, None])
def test_voxels_that_differ_or_lie_elsewhere_are_not_identical(differing: int | None) -> None:
    found = {row["what"]: row for row in rows([*taken("simpleitk", [1.0]), *taken("ctreport", [1.0], differing=differing)])}
    assert found["ctreport"]["identical"] is False


def test_without_simpleitk_nothing_is_said_of_voxels() -> None:
    (row,) = rows(taken("ctreport", [1.0], differing=None))
    assert (row["identical"], row["speedup_vs_simpleitk"]) == (None, None)


def test_a_reading_that_failed_has_no_figures_but_its_reason() -> None:
    (row,) = rows([replace(Measure("ctreport", SERIES, 0), failed="no memory")])
    assert row["failed"] == ["no memory"]
    assert (row["median_ms"], row["peak_mb"], row["peak_over_array"], row["identical"]) == (None, None, None, None)


def test_each_must_of_the_issue_is_judged() -> None:
    good = [*taken("simpleitk", [3.0]), *taken("ctreport", [1.0])]
    good += [replace(one, series=Series(J2K, Path("j2k"), 275)) for one in good]
    assert [one["reached"] for one in verdicts(rows(good))] == [True] * len(TARGETS)
    slow = verdicts(rows([*taken("simpleitk", [1.0]), *taken("ctreport", [1.0], differing=3)]))
    reached = {(one["series"], one["figure"]): one["reached"] for one in slow}
    assert reached == {
        (NATIVE, "speedup_vs_simpleitk"): False,
        (J2K, "speedup_vs_simpleitk"): False,
        (NATIVE, "peak_over_array"): True,
        (J2K, "peak_over_array"): False,
        (NATIVE, "identical"): False,
        (J2K, "identical"): False,
    }


def test_tables_hold_every_row_and_target() -> None:
    found = rows([*taken("simpleitk", [1.0]), *taken("ctreport", [0.25])])
    asked = verdicts(found)
    text = markdown({"date": "2026-01-01", "machine": "a machine", "commit": "", "versions": "v", "source": "s", "rows": found, "targets": asked})
    assert cells(found[1]) == ("native", "ctreport", "250", "4.00", "250", "0.00", "300", "150", "2.00", "yes")
    assert "| native | ctreport | 250 | 4.00 |" in text
    assert all(f"| {' | '.join(line)} |" in text for line in verdict_cells(asked))
