"""CPU time per study and per image, memory over a run, and what was asked: from measurements to rows and tables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.evaluation.flow_rows import Block, Line, Sample, bend, growth_kb, line, memory_rows, overhead_rows, verdicts
from pipeline.evaluation.flow_table import markdown, tables
from pipeline.evaluation.flow_usage import between, without_idle
from pipeline.evaluation.scale_size import levels

SIZES = (12, 48, 96)


def block(images: int, fixed_s: float = 0.1, image_s: float = 0.005, studies: int = 4) -> Block:
    """The worker pays for the study, the listener for its images."""
    return Block(images, studies, 2.0, {"worker-io": studies * fixed_s, "listener": studies * images * image_s})


def result(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"machine": "m", "date": "d", "commit": "", "rows": rows, "notes": ["a note"], "targets": verdicts(rows)}


def row(rows: list[dict[str, Any]], what: str) -> dict[str, Any]:
    return next(one for one in rows if one["what"] == what)


def test_a_study_costs_a_fixed_part_and_a_part_per_image_of_which_each_process_has_its_own() -> None:
    rows = overhead_rows("overhead", [block(images) for images in SIZES], 40.0)
    total = row(rows, "all processes")
    assert (total["fixed_ms"], total["per_image_ms"], total["bend"], total["idle_cpu_ms_per_s"]) == (100.0, 5.0, 1.0, 40.0)
    assert (row(rows, "listener")["fixed_ms"], row(rows, "worker-io")["per_image_ms"]) == (pytest.approx(0, abs=0.1), 0.0)
    assert (row(rows, "48 images")["studies_per_hour"], row(rows, "48 images")["cpu_ms_per_study"]) == (7200, 340.0)
    assert [verdict["reached"] for verdict in verdicts(rows)] == [True, True]


@pytest.mark.parametrize(("fixed_s", "reached"), [(0.149, True), (0.151, False)])
def test_150_ms_a_study_is_the_most(fixed_s: float, reached: bool) -> None:
    assert verdicts(overhead_rows("overhead", [block(images, fixed_s) for images in SIZES], 0.0))[0]["reached"] is reached


def test_images_that_cost_more_the_more_there_are_are_not_linear() -> None:
    squares = [Block(images, 1, 1.0, {"listener": images**2 / 1000}) for images in SIZES]
    total = row(overhead_rows("overhead", squares, 0.0), "all processes")
    assert total["bend"] > 2
    assert [verdict["reached"] for verdict in verdicts([total])][1] is False
    assert bend([(1.0, 1.0), (2.0, 2.0)]) is None


@given(st.floats(-100, 100), st.floats(-10, 10), st.lists(st.integers(0, 500), min_size=2, max_size=20, unique=True))
def test_the_line_through_points_of_a_line_is_that_line(fixed: float, slope: float, xs: list[int]) -> None:
    found = line([(float(x), fixed + slope * x) for x in xs])
    assert found.fixed == pytest.approx(fixed, abs=1e-3)
    assert found.slope == pytest.approx(slope, abs=1e-3)


def test_a_line_through_one_size_is_flat() -> None:
    assert line([(8.0, 2.0), (8.0, 4.0)]) == Line(3.0, 0.0)


def test_growth_is_that_of_the_second_half_of_a_run() -> None:
    filling = [Sample(n, {"listener": min(n, 50) * 100, "leaky": 10 * n}, {"PostgreSQL": 9 + n % 2}) for n in range(0, 101, 5)]
    assert (growth_kb(filling, "listener"), growth_kb(filling, "leaky")) == (0.0, 10.0)
    rows = memory_rows("overhead", filling)
    assert row(rows, "memory of leaky")["growth_mb_per_1000"] == 9.8
    assert row(rows, "connections to PostgreSQL")["most"] == 10
    assert memory_rows("overhead", filling[:3]) == []


def test_what_the_idle_stack_takes_is_no_studys_cost() -> None:
    used = between({"beat": 1.0, "web": 1.0}, {"beat": 3.0, "web": 1.1})
    assert without_idle(used, {"beat": 0.5}, 2.0) == {"beat": 1.0, "web": pytest.approx(0.1)}
    assert without_idle({"beat": 1.9}, {"beat": 1.0}, 2.0) == {"beat": pytest.approx(-0.1)}  # chance is not turned into cost


def test_a_question_must_be_quick_and_must_read_no_table_from_end_to_end_where_that_was_asked() -> None:
    asked = {"part": "tables", "what": "claim", "kind": "claim", "median_ms": 25.0, "scanned": ["jobs"]}
    free = asked | {"what": "timeline", "kind": ""}
    assert [verdict["reached"] for verdict in verdicts([asked, free])] == [False, False]


def test_tables_hold_each_kind_of_row_and_markdown_says_where_and_when() -> None:
    question = {"part": "tables", "what": "claim", "kind": "claim", "median_ms": 2.5, "max_ms": 9.0, "rows_read": 4, "statements": 2, "scanned": []}
    stored = {"part": "tables", "what": "instances", "rows": 10_000_000, "bytes_per_row": 900, "index_bytes_per_row": 400, "index_levels": 3}
    samples = [Sample(n, {"web": 1024}, {"Valkey": 7}) for n in range(8)]
    rows = [*overhead_rows("overhead", [block(images) for images in SIZES], 40.0), *memory_rows("overhead", samples), question, stored]
    heads = [head[0] for _, head, _ in tables(result(rows))]
    assert heads == ["size", "cost", "memory", "connections", "question", "table", ""]
    text = markdown(result(rows))
    assert text.startswith("Measured d on m; commit unknown.\na note\n")
    assert "| claim | 2.5 | 9.0 | 4 | 2 | none |" in text
    assert "| instances | 10,000,000 | 900 | 400 | 3 |" in text


@pytest.mark.parametrize(("rows", "found"), [(10, 1), (100, 1), (101, 2), (10_000, 2), (10_001, 3), (500_000_000, 5)])
def test_a_look_up_reads_a_page_per_level(rows: int, found: int) -> None:
    assert levels(rows, 100.0) == found
    assert levels(rows, 0.5) is None
