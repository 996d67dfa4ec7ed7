"""`ctreport bench rules`: the rules over one report, beside one regular expression of the same terms."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from workers.commands.answer import Json, answer
from workers.commands.bench_place import commit, machine


def rules(
    short: Annotated[bool, typer.Option("--short", help="a tenth of the rounds, some seconds")] = False,
    json_to: Json = None,
) -> None:
    """The whole engine for one report of some 300 tokens under the package's lexicon, each rule by itself, and the naive way; median and p95."""
    from pipeline.evaluation.rules_bench import measure
    from pipeline.training.progress import Bar

    place, date = machine(Path()), datetime.now(UTC).isoformat(timespec="seconds")
    with Bar("bench rules") as bar:
        rows = measure(short, bar.update)
    result = {"machine": place, "date": date, "commit": commit(), "rows": rows}
    answer(result, json_to, "\n".join([f"{place}, {date}, commit {result['commit'] or 'unknown'}", *map(_line, rows), _summary(rows[0])]))


def _line(row: dict[str, Any]) -> str:
    return f"{row['median_ms']:>8.3f} ms  p95 {row['p95_ms']:>8.3f} ms  processor {row['cpu_median_ms']:>8.3f} ms  {row['what']}"


def _summary(engine: dict[str, Any]) -> str:
    return (
        f"{engine['terms']} terms in {engine['forms']} forms, {engine['tokens']} tokens ({engine['characters']} characters); "
        f"compiled in {engine['compile_ms']} ms; terms are found {engine['speedup_vs_regex']}x as fast as by the regular expression"
    )
