"""How a bench shows what it measured, and the options that benches share."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

EncoderWeights = Annotated[Path | None, typer.Option(help="weights folder of the encoder; default: the package", exists=True, file_okay=False)]
FeatureFiles = Annotated[
    list[Path] | None, typer.Option("--features", help="features file as the encode step writes it, instead of a phantom (repeat)", exists=True)
]
Work = Annotated[Path, typer.Option(help="folder where the phantoms' features are kept")]
From = Annotated[Path | None, typer.Option("--from", help="show an earlier result (--json FILE) and measure nothing", exists=True, dir_okay=False)]
Markdown = Annotated[bool, typer.Option("--markdown", help="print the tables as Markdown, as the README has them")]


def show(heading: Iterable[str], tables: Iterable[tuple[str, Sequence[str], Iterable[Sequence[str]]]], words: int = 1) -> None:
    """Print the lines and the tables (title, head, cells) to the terminal; the first `words` columns hold words, the others figures."""
    from rich.console import Console
    from rich.table import Table

    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print("\n".join(heading), highlight=False)
    for title, head, body in tables:
        table = Table(title=title, title_justify="left")
        for number, name in enumerate(head):
            table.add_column(name, justify="left" if number < words else "right")
        for line in body:
            table.add_row(*line)
        console.print(table)
