"""The result of `ctreport bench draft` as tables: cells for a terminal, Markdown for the README."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
Table = tuple[str, Sequence[str], list[tuple[str, ...]]]
Kind = tuple[str, Sequence[str], Callable[[Row], tuple[str, ...]]]  # title, head, cells of a row
FIGURES = ("tokens", "steps", "median ms", "CPU ms", "first token ms", "× plain", "× plain, CPU", "accepted", "identical", "as embedded", "failed")
TITLES = {
    "section": ("each text by itself", ("text", "department", "engine", *FIGURES)),
    "report": ("one department's report", ("written in", "department", "engine", *FIGURES)),
    "study": ("all departments of one scan: findings once, or a call for each", ("written in", "department", "engine", *FIGURES)),
}
DECODE = ("engine", "batch", "tokens", "median ms", "tokens/s", "× plain", "accepted", "identical")
SWEEP = ("setting", "front", "median ms", "CPU ms", "term F1", "95 %", "invents a finding", "95 %")
WORDS = ("texts at", "tries", "reports", "finding words", "off the list", "term accuracy", "reports all listed", "failed")
FLOW = ("way", "studies", "tokens", "total ms", "from assembly ms", "encode ms", "draft ms", "× plain from assembly", "× plain draft")
LEFT = 3  # columns of words
MODES = {"sections": "sections", "whole": "one call"}


def heading(result: Row) -> list[str]:
    """Where, when and what, then the notes."""
    return [
        f"{result['machine']}, {result['date']}, commit {result['commit'] or 'unknown'}",
        f"model {result['model']}; {result['n']} scans for {', '.join(result['departments'])}; medians over scans, × plain is the median of ratios "
        "scan by scan in one run",
        *result["notes"],
        *(f"failed: {reason}" for reason in result["failures"]),
    ]


def tables(result: Row) -> Iterator[Table]:
    """Title, head and cells of every kind of row that there is."""
    kinds: dict[str, tuple[str, Sequence[str], Callable[[Row], tuple[str, ...]]]] = {
        part: (title, head, _cells) for part, (title, head) in TITLES.items()
    }
    kinds |= {
        "decode": ("decoding alone, without a grammar and without an end", DECODE, _decoded),
        "batch": ("several texts at a time: does MTP still pay?", DECODE, _decoded),
        "pareto": ("draft length, temperature and top-p; front: no setting of the engine is better in all three", SWEEP, _swept),
        "terms": ("words off the white list, asked for again: temperature stands for a model that does not know the list", WORDS, _worded),
        "flow": ("end to end: one phantom after the other through a whole stack", FLOW, _flowed),
    }
    for part, (title, head, cells) in kinds.items():
        body = [cells(row) for row in result["rows"] if row["part"] == part]
        if body:
            yield title, head, body


def markdown(result: Row) -> str:
    """As the README has it."""
    lines = [*heading(result)]
    for _, head, cells in tables(result):
        lines += ["", *(f"| {' | '.join(line)} |" for line in (head, ["---"] * LEFT + ["---:"] * (len(head) - LEFT), *cells))]
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    return (
        MODES.get(row["of"], str(row["of"])),
        str(row["department"] or "all"),
        str(row["what"]),
        f"{row['tokens']:g}",
        f"{row['verify_steps']:g}",
        _number(row["median_ms"]),
        _number(row["cpu_median_ms"]),
        _number(row["first_token_ms"]),
        _number(row["speedup_vs_plain"]),
        _number(row["speedup_cpu"]),
        _percent(row["acceptance"]),
        f"{row['identical']} / {row['compared']}",
        f"{row['like_embedded']} / {row['like_embedded_of']}",
        str(row["failed"]),
    )


def _decoded(row: Row) -> tuple[str, ...]:
    figures = (_number(row["median_ms"]), _number(row["tokens_per_s"]), _number(row["speedup_vs_plain"]), _percent(row["acceptance"]))
    return row["what"], str(row["batch"]), f"{row['tokens']:g}", *figures, f"{row['identical']} / {row['compared']}"


def _swept(row: Row) -> tuple[str, ...]:
    ends = [f"{_percent(low)}–{_percent(high)}" for low, high in (row["term_f1_interval"], row["hallucination_interval"])]
    quality = (_percent(row["term_f1"]), ends[0], _percent(row["hallucination"]), ends[1])
    return row["what"], "yes" if row["front"] else "", _number(row["median_ms"]), _number(row["cpu_median_ms"]), *quality


def _worded(row: Row) -> tuple[str, ...]:
    counts = (str(row[name]) for name in ("texts", "words", "off_list"))
    heat = f"T {row['temperature']:g}" if row["temperature"] else "greedy"
    return heat, str(row["tries"]), *counts, _percent(row["term_accuracy"]), str(row["reports_all_listed"]), str(row["failed"])


def _flowed(row: Row) -> tuple[str, ...]:
    times = (_number(row[name]) for name in ("total_ms", "assembled_ms", "encode_ms", "draft_ms", "speedup_vs_plain", "draft_speedup"))
    return row["what"], str(row["studies"]), f"{row['tokens']:g}", *times


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
