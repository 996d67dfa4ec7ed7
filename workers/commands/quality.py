"""`ctreport eval`: how good reports of held-out phantoms are, beside what is asked and what the source articles reached. It needs no stack."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from workers.commands.answer import Json, answer
from workers.commands.bench_place import commit, machine

app = typer.Typer()
Seed = Annotated[int, typer.Option(help="first of the seeds; training never comes near the default")]
Counterfactuals = Annotated[int, typer.Option(min=0, help="phantoms with a lesion that are read again after each single change")]
Workers = Annotated[int, typer.Option(min=1, help="processes, one processor each")]
Weights = Annotated[Path | None, typer.Option(help="checkpoint folder of the language model; default: the package", exists=True, file_okay=False)]
EncoderWeights = Annotated[Path | None, typer.Option(help="weights folder of the encoder; default: the package", exists=True, file_okay=False)]
HeadsOnly = Annotated[bool, typer.Option("--heads-only", help="the encoder alone, without language model")]
Work = Annotated[Path, typer.Option(help="folder of the answers; a second run with the same weights and code goes on there")]
Real = Annotated[list[Path] | None, typer.Option(help="folder of a real CT series: is it flagged? (repeat)", exists=True, file_okay=False)]
From = Annotated[Path | None, typer.Option("--from", help="show an earlier result (--json FILE) and measure nothing", exists=True, dir_okay=False)]
Note = Annotated[bool, typer.Option("--note", help="write the figures on the card of the checkpoint")]
Markdown = Annotated[bool, typer.Option("--markdown", help="print the table as Markdown, as the README has it")]
K = Annotated[int | None, typer.Option("--k", min=0, max=16, help="tokens drafted per step; default: the engine's own policy (the text is the same)")]


@app.command(name="eval")
def evaluate(
    n: Annotated[int, typer.Option("--n", min=1)] = 50,
    seed: Seed = 900_000,
    counterfactuals: Counterfactuals = 0,
    workers: Workers = 1,
    weights: Weights = None,
    encoder_weights: EncoderWeights = None,
    heads_only: HeadsOnly = False,
    k: K = None,
    real: Real = None,
    work: Work = Path(".ctreport/eval"),
    note: Note = False,
    markdown: Markdown = False,
    earlier: From = None,
    json_to: Json = None,
) -> None:
    """Quality on held-out phantoms, each figure with a 95 % interval: says nothing about patients. Exit 1 when a must is not reached."""
    from pipeline.encoder.compact import WEIGHTS as ENCODER
    from pipeline.engine.checkpoint import PACKAGED
    from pipeline.evaluation.quality_table import markdown as as_markdown
    from pipeline.evaluation.quality_targets import missed
    from pipeline.evaluation.real_series import distances
    from pipeline.training.card import note_evaluation

    if earlier is None:
        folders = encoder_weights or ENCODER, None if heads_only else weights or PACKAGED
        result = measured(folders, n, seed, counterfactuals, workers, k, work) | {"real": distances(real or [], folders[0])}
    else:
        result = json.loads(earlier.read_text(encoding="utf-8"))
    if note:
        note_evaluation(weights or PACKAGED, result)
    if json_to is not None:
        answer(result, json_to, "")
    if markdown:
        typer.echo(as_markdown(result))
    elif json_to != "-":
        _print(result)
    if names := missed(result):
        typer.echo(f"not reached: {', '.join(names)}", err=True)
        raise typer.Exit(1)


def measured(folders: tuple[Path, Path | None], n: int, seed: int, counterfactuals: int, workers: int, k: int | None, work: Path) -> dict[str, Any]:
    """Evaluate encoder and engine of two weights folders: machine, date, commit and the figures."""
    from pipeline.evaluation import quality
    from pipeline.training.progress import Bar

    encoder, engine = folders
    date, place = datetime.now(UTC).isoformat(timespec="seconds"), machine(Path())
    with Bar("eval") as bar:
        load = partial(quality.load_models, encoder, engine, k)
        result = quality.evaluate(load, n, seed, counterfactuals, work / quality.weights_digest(encoder, engine), workers, bar.update)
    return {"machine": place, "date": date, "commit": commit(), **result}


def _print(result: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    from pipeline.evaluation.quality_table import HEAD, cells, heading, real_lines

    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(f"{result['machine']}, {result['date']}, commit {result['commit'] or 'unknown'}\n{heading(result)}")
    table = Table()
    for number, name in enumerate(HEAD):
        table.add_column(name, justify="left" if number == 0 else "right")
    for line in cells(result):
        table.add_row(*line)
    console.print(table)
    console.print("\n".join(real_lines(result)))
