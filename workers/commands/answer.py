"""How commands answer: text for people, JSON where asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from workers import wiring

Data = Annotated[Path | None, typer.Option("--data", help="folder of the embedded stack (CTREPORT_DATA)", callback=wiring.data_folder)]
Department = Annotated[str | None, typer.Option(help="radiology, oncology or pulmonology")]
Json = Annotated[str | None, typer.Option("--json", help="write the answer as JSON to FILE, '-' for standard output")]


def answer(value: object, json_to: str | None, text: str) -> None:
    """Print `text`, or write `value` as JSON where asked."""
    if json_to is None:
        typer.echo(text)
        return
    body = json.dumps(value, ensure_ascii=False, indent=2, default=str)
    if json_to == "-":
        typer.echo(body)
    else:
        Path(json_to).write_text(body + "\n", encoding="utf-8")
