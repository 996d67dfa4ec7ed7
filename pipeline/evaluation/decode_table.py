"""The result of `ctreport bench decode` as tables: cells for a terminal, Markdown for the README."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from pipeline.evaluation.decode_rows import POSITIONS
from pipeline.evaluation.decode_targets import JUDGED

Row = Mapping[str, Any]
Table = tuple[str, Sequence[str], list[tuple[str, ...]]]
SINGLE = ("one text at a time", "median ms", "CPU ms", "tokens/s", "× plain", "× plain, jumps", "tokens/step", "accepted", "forced", "identical")
AT = ("acceptance at position", *map(str, range(1, POSITIONS + 1)), "1–4 mean", "all 4")
SECTIONS = ("accepted in section", "检查所见", "诊断意见", "建议", "mtp", "lookup")
BATCH = ("several at a time", "batch", "ms / report", "tokens/s", "× batch 1", "identical")
STEADY = ("mixed batch", "batch", "mean ms", "SD", "p5–p95", "strays from own mean", "short: mean ± SD", "long: mean ± SD", "source article")
BEAM = ("beam search", "branches", "median ms", "× plain", "passes", "MTP passes", "log p / token", "≥ plain", "identical")
ASKED = ("asked", "measured", "must", "", "goal", "")
MADE_BY = ("mtp", "lookup")


def tables(result: Row) -> Iterator[Table]:
    """Title, head and cells of every table that has rows."""
    rows = result["rows"]
    parts = {part: [row for row in rows if row["part"] == part] for part in ("single", "batch", "steady", "beam")}
    drafted = [row for row in parts["single"] if row.get("acceptance") is not None]
    found: tuple[Table, ...] = (
        ("plain decoding and drafts", SINGLE, [_single(row) for row in parts["single"]]),
        ("drafted tokens that stand, position by position (forced ones are no drafts)", AT, [_at(row) for row in drafted]),
        ("by section, and by who drafted", SECTIONS, [_sections(row) for row in drafted]),
        ("continuous batching", BATCH, [_batch(row) for row in parts["batch"]]),
        ("steadiness of a report's latency", STEADY, [_steady(row) for row in parts["steady"]]),
        ("beam search", BEAM, [_beam(row) for row in parts["beam"]]),
        (f"asked and reached (first positions: {JUDGED})", ASKED, [_verdict(one) for one in result["targets"]]),
    )
    yield from (table for table in found if table[2])


def heading(result: Row) -> list[str]:
    """Where, when and what; then how long the texts are."""
    tokens = result["tokens"]
    return [
        f"{result['machine']}, {result['date']}, commit {result['commit'] or 'unknown'}",
        f"{result['versions']}; model {result['model']}; float32, {result['threads']} thread; {result['n']} whole reports of "
        f"{min(tokens)} to {max(tokens)} tokens, median {median(tokens):g}",
        *result["notes"],
    ]


def markdown(result: Row) -> str:
    """The README's section."""
    lines = [*heading(result)]
    for _, head, cells in tables(result):
        lines += ["", *(f"| {' | '.join(line)} |" for line in (head, ["---", *["---:"] * (len(head) - 1)], *cells))]
    return "\n".join(lines)


def _single(row: Row) -> tuple[str, ...]:
    speed = [_number(row[name]) for name in ("median_ms", "cpu_median_ms", "tokens_per_s", "speedup_vs_plain", "speedup_vs_plain_jumps")]
    drafts = _number(row.get("tokens_per_step")), _percent(row.get("acceptance")), _percent(row.get("forced_share"))
    return row["what"], *speed, *drafts, _of(row, "identical")


def _at(row: Row) -> tuple[str, ...]:
    shares = [*row["acceptance_at"], *[None] * POSITIONS][:POSITIONS]
    return row["what"], *map(_percent, shares), _percent(row["first_four_mean"]), _percent(row["first_four_all"])


def _sections(row: Row) -> tuple[str, ...]:
    sections = [_percent(row["sections"].get(name, {}).get("acceptance")) for name in SECTIONS[1:4]]
    return row["what"], *sections, *(_percent(row["sources"].get(name, {}).get("acceptance")) for name in MADE_BY)


def _batch(row: Row) -> tuple[str, ...]:
    figures = (_number(row[name]) for name in ("median_ms", "tokens_per_s", "speedup_vs_batch_1"))
    return row["what"], str(row["batch"]), *figures, _of(row, "identical")


def _steady(row: Row) -> tuple[str, ...]:
    groups = [f"{_number(row[name]['mean_ms'])} ± {_number(row[name]['sd_ms'])}" for name in ("short", "long")]
    span = f"{_number(row['p5_ms'])}–{_number(row['p95_ms'])}"
    own, article = f"± {_number(row['own_sd_ms'])}", f"± {row['article_sd_ms']:g}"
    return row["what"], str(row["batch"]), _number(row["mean_ms"]), f"± {_number(row['sd_ms'])}", span, own, *groups, article


def _beam(row: Row) -> tuple[str, ...]:
    figures = (_number(row[name]) for name in ("median_ms", "speedup_vs_plain"))
    passes = (f"{row[name]:g}" for name in ("forwards", "drafts"))
    return row["what"], str(row["width"]), *figures, *passes, f"{row['score']:.4f}", _of(row, "at_least_plain"), _of(row, "identical")


def _verdict(one: Row) -> tuple[str, ...]:
    measured = "–" if one["measured"] is None else f"{one['measured']:g}"
    return one["figure"], measured, one["must"], _answer(one["must_reached"]), one["goal"], _answer(one["goal_reached"])


def _answer(reached: bool | None) -> str:
    return "not measured" if reached is None else "reached" if reached else "NOT reached"


def _of(row: Row, figure: str) -> str:
    return f"{row[figure]} / {row['texts']}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f} %"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
