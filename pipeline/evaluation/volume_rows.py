"""From measurements of the volume benchmark to rows, to what was asked of them, and to tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from pipeline.evaluation.volume_files import J2K, NATIVE
from pipeline.evaluation.volume_readers import OURS, SIMPLEITK
from pipeline.evaluation.volume_run import Measure

Row = dict[str, Any]
HEAD = ("series", "reader", "median ms", "× SimpleITK", "CPU ms", "spread", "peak MB", "array MB", "peak / array", "identical")
ASKED = ("", "asked", "of", "measured", "reached")
FIGURES = ("median_ms", "speedup_vs_simpleitk", "cpu_ms", "spread", "peak_mb", "array_mb", "peak_over_array")


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that our reader must reach on a series; `least`: not less than that, else not more."""

    series: str
    figure: str
    value: float
    least: bool = True


TARGETS = (
    Target(NATIVE, "speedup_vs_simpleitk", 2.5),
    Target(J2K, "speedup_vs_simpleitk", 1.6),
    Target(NATIVE, "peak_over_array", 2.5, least=False),
    Target(J2K, "peak_over_array", 2.5, least=False),
    Target(NATIVE, "identical", True),
    Target(J2K, "identical", True),
)


def rows(measures: Iterable[Measure]) -> list[Row]:
    """One row per series and reader, in the order in which they were first measured."""
    taken: dict[tuple[str, str], list[Measure]] = {}
    for one in measures:
        taken.setdefault((one.series.name, one.what), []).append(one)
    return [_row(group, taken.get((series, SIMPLEITK), [])) for (series, _), group in taken.items()]


def _row(taken: Sequence[Measure], theirs: Sequence[Measure]) -> Row:
    first, timed = taken[0], [one for one in taken if one.round > 0 and not one.failed]
    failures = [one.failed for one in taken if one.failed]
    row: Row = {
        "what": first.what,
        "series": first.series.name,
        "slices": first.series.slices,
        "median_ms": _middle([1000 * one.seconds for one in timed], 1),
        "speedup_vs_simpleitk": speedup(taken, theirs),
        "cpu_ms": _middle([1000 * one.cpu_s for one in timed], 1),
        "peak_mb": round(first.peak_mb, 1) if not first.failed else None,
        "array_mb": round(first.array_mb, 1) if not first.failed else None,
        "peak_over_array": round(first.peak_mb / first.array_mb, 2) if first.array_mb else None,
        "array_type": first.type,
        "identical": first.differing == 0 if not first.failed and theirs else None,
        "differing": first.differing,
        "rounds": len(timed),
        "spread": _spread([one.seconds for one in timed]),
    }
    return row | ({"failed": failures} if failures else {})


def speedup(ours: Sequence[Measure], theirs: Sequence[Measure]) -> float | None:
    """Median over the rounds of SimpleITK's seconds over ours in the same round; None where no round has both."""
    other = {one.round: one.seconds for one in theirs if one.round > 0 and not one.failed}
    return _middle([other[one.round] / one.seconds for one in ours if one.round in other and not one.failed], 2)


def verdicts(rows: Sequence[Row]) -> list[Row]:
    """What was asked of our reader, what was measured and whether that is enough. A figure that is not there is not enough."""
    ours = {row["series"]: row for row in rows if row["what"] == OURS}
    return [_verdict(target, ours.get(target.series, {}).get(target.figure)) for target in TARGETS]


def _verdict(target: Target, measured: float | None) -> Row:
    reached = measured is not None and (measured >= target.value if target.least else measured <= target.value)
    return {"kind": "must", "asked": _asked(target), "series": target.series, "figure": target.figure, "measured": measured, "reached": reached}


def _asked(target: Target) -> str:
    if isinstance(target.value, bool):
        return "yes"
    return f"{'≥' if target.least else '≤'} {target.value:g}"


def cells(row: Row) -> tuple[str, ...]:
    """A row under HEAD."""
    return row["series"], row["what"], *(_cell(row[figure]) for figure in FIGURES), _cell(row["identical"])


def verdict_cells(verdicts: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Lines of cells under ASKED."""
    return [
        (one["kind"], one["asked"], f"{one['figure']}, {one['series']}", _cell(one["measured"]), "yes" if one["reached"] else "no")
        for one in verdicts
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """The README's section: where and when, the rows, the targets."""
    where = f"Measured {result['date']} on {result['machine']}; commit {result['commit'] or 'unknown'}; {result['versions']}; {result['source']}."
    body = _table(HEAD, [cells(row) for row in result["rows"]])
    return "\n".join([where, "", *body, "", *_table(ASKED, verdict_cells(result["targets"]))])


def _table(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body)]


def _middle(values: Sequence[float], digits: int) -> float | None:
    return round(median(values), digits) if values else None


def _spread(values: Sequence[float]) -> float | None:
    """(largest − smallest) / median."""
    return round((max(values) - min(values)) / median(values), 2) if values else None


def _cell(value: float | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
