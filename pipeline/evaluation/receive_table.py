"""The result of a receive benchmark as tables: cells for a terminal, Markdown for the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.evaluation.receive_rows import Row

FIGURES: Mapping[str, str] = {
    "images_per_s": "images/s",
    "mb_per_s": "MB/s",
    "ratio_to_orthanc": "× Orthanc",
    "ratio_to_storescp": "× storescp",
    "ratio_to_fork": "× --fork",
    "cpu_s_per_1000": "CPU s / 1,000",
    "cpu_s_per_1000_with_database": "with database",
    "peak_mb": "peak MB",
    "peak_pss_mb": "shared once",
    "spread": "spread",
}
TUNED = {True: "NODELAY", False: "default", None: "own"}
SENDER = {True: "TCP_NODELAY", False: "default (Nagle)"}
THROUGHPUT = {"small": ("images/s", "images_per_s"), "large": ("MB/s", "mb_per_s"), "1GB": ("MB/s", "mb_per_s")}
HEAD = ("receiver", "its TCP", *FIGURES.values())
ASKED = ("", "asked", "of", "measured", "reached")
Titled = tuple[str, list[tuple[str, ...]]]


def tables(rows: Sequence[Row]) -> list[Titled]:
    """(title, lines of cells under HEAD) of each load."""
    loads: dict[str, list[tuple[str, ...]]] = {}
    for row in rows:
        loads.setdefault(title(row), []).append(cells(row))
    return list(loads.items())


def title(row: Row) -> str:
    """Load of a row."""
    several = "s" if row["associations"] > 1 else ""
    sender = SENDER[row["sender_tcp_nodelay"]]
    return f"{row['object']} objects, {row['associations']} association{several}, {sender} sender, {row['images']} images"


def cells(row: Row) -> tuple[str, ...]:
    """A row under HEAD."""
    return row["what"], TUNED[row["receiver_tcp_nodelay"]], *(_cell(row[figure]) for figure in FIGURES)


def markdown(result: Mapping[str, Any]) -> str:
    """The README's section: where and when, a table per kind of object and sender with a column per number of associations, targets."""
    groups: dict[tuple[str, bool], list[Row]] = {}
    for row in result["rows"]:
        groups.setdefault((row["object"], row["sender_tcp_nodelay"]), []).append(row)
    lines = [f"Measured {result['date']} on {result['machine']}; commit {result['commit'] or 'unknown'}; {result['versions']}.", ""]
    for (kind, nodelay), group in groups.items():
        counts = sorted({row["associations"] for row in group})
        name, _ = THROUGHPUT[kind]
        lines += [f"**{kind} objects, {SENDER[nodelay]} sender**: {name} (× Orthanc)", ""]
        lines += [*_markdown(_pivot_head(counts), _pivot(group, counts)), ""]
    return "\n".join([*lines, *_markdown(ASKED, verdict_cells(result["targets"]))])


def _pivot_head(counts: Sequence[int]) -> tuple[str, ...]:
    columns = [f"{count} association{'s' if count > 1 else ''}" for count in counts]
    return "receiver", "its TCP", *columns, f"CPU s / 1,000 ({counts[0]})", "with database", f"peak MB ({counts[-1]})", "shared once"


def _pivot(group: Sequence[Row], counts: Sequence[int]) -> list[tuple[str, ...]]:
    """A line per receiver: throughput at each number of associations, CPU at the smallest, memory at the largest."""
    receivers: dict[tuple[str, bool | None], dict[int, Row]] = {}
    for row in group:
        receivers.setdefault((row["what"], row["receiver_tcp_nodelay"]), {})[row["associations"]] = row
    first, last = counts[0], counts[-1]
    return [
        (
            what,
            TUNED[nodelay],
            *(_throughput(at.get(count)) for count in counts),
            *(_figure(at.get(first), key) for key in ("cpu_s_per_1000", "cpu_s_per_1000_with_database")),
            *(_figure(at.get(last), key) for key in ("peak_mb", "peak_pss_mb")),
        )
        for (what, nodelay), at in receivers.items()
    ]


def _throughput(row: Row | None) -> str:
    if row is None:
        return "–"
    ratio = f" ({row['ratio_to_orthanc']:.2f}×)" if row["ratio_to_orthanc"] is not None else ""
    return _cell(row[THROUGHPUT[row["object"]][1]]) + ratio


def _figure(row: Row | None, key: str) -> str:
    return _cell(row[key] if row is not None else None)


def verdict_cells(targets: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """Lines of cells under ASKED."""
    return [_verdict(one) for one in targets]


def _verdict(one: Mapping[str, Any]) -> tuple[str, ...]:
    sender = "NODELAY" if one["sender_tcp_nodelay"] else "default"
    of = f"{FIGURES[one['figure']]}, {one['object']}, {one['associations']} assoc., {sender} sender, {one['what']}"
    return one["kind"], one["asked"], of, _cell(one["measured"]), "yes" if one["reached"] else "no"


def _markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> list[str]:
    return [_line(head), _line(["---"] * len(head)), *(_line(line) for line in body)]


def _line(line: Sequence[str]) -> str:
    return f"| {' | '.join(line)} |"


def _cell(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
