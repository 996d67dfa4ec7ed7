"""The result of the flow benchmark as tables: cells for a terminal, Markdown for deploy/SCALING.md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipeline.evaluation.flow_rows import EMBEDDED, OVERHEAD, TABLES, Row

Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]
NAMES = {
    OVERHEAD: "pipeline alone: encoder and drafter are fakes",
    EMBEDDED: "with the compact encoder and the embedded engine",
    TABLES: "on large tables",
}
SIZES = {"images": "images", "studies": "studies", "studies_per_hour": "studies/hour", "cpu_ms_per_study": "CPU ms/study"}
LINES = {"fixed_ms": "CPU ms/study", "per_image_ms": "CPU ms/image", "bend": "last/first image", "idle_cpu_ms_per_s": "idle CPU ms/s"}
MEMORY = {"end_mb": "MB at the end", "growth_mb_per_1000": "MB more per 1,000 studies", "most": "most at once"}
QUERIES = {
    "median_ms": "median ms",
    "max_ms": "slowest ms",
    "rows_read": "rows read",
    "statements": "statements",
    "scanned": "read from end to end",
}
STORED = {
    "rows": "rows",
    "bytes_per_row": "bytes/row",
    "index_bytes_per_row": "of that indexes",
    "index_levels": "index levels",
    "gb_at_500m": "GB at 500 million",
    "levels_at_500m": "levels then",
}
ASKED = {"asked": "asked", "measured": "measured", "reached": "reached"}
# the column of the names, the others, and a figure that rows of this kind have
GROUPS = (("size", SIZES, "studies_per_hour"), ("cost", LINES, "fixed_ms"), ("memory", MEMORY, "end_mb"), ("connections", MEMORY, "most"))
ON_TABLES = (("question", QUERIES, "median_ms"), ("table", STORED, "bytes_per_row"))


def tables(result: Mapping[str, Any]) -> Iterator[Table]:
    """(title, head, lines) of each table that there is something for."""
    for part, title in NAMES.items():
        rows = [row for row in result["rows"] if row["part"] == part]
        for first, columns, figure in (*GROUPS, *ON_TABLES):
            if mine := [row for row in rows if figure in row]:
                yield _table(title, first, columns, mine)
    yield _table("asked and reached", "", ASKED, result["targets"])


def heading(result: Mapping[str, Any]) -> list[str]:
    """Where and when."""
    where = f"Measured {result['date']} on {result['machine']}; commit {result['commit'] or 'unknown'}."
    return [where, *result.get("notes", ())]


def markdown(result: Mapping[str, Any]) -> str:
    """All of it, as SCALING.md has it."""
    lines = [*heading(result), ""]
    for title, head, body in tables(result):
        rule = "|" + "---|" * len(head)
        lines += [f"**{title}**", "", _line(head), rule, *map(_line, body), ""]
    return "\n".join(lines)


def _table(title: str, first: str, columns: Mapping[str, str], rows: Sequence[Row]) -> Table:
    shown = {name: head for name, head in columns.items() if any(row.get(name) is not None for row in rows)}
    return title, (first, *shown.values()), [(str(row["what"]), *(_cell(row.get(name)) for name in shown)) for row in rows]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "**no**"
    if isinstance(value, int):
        return f"{value:,}"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)
